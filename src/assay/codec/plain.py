"""Checks on plain data (dicts, lists, text, numbers) before it becomes a record."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from assay.errors import InputError, did_you_mean

KIND_WORDS: dict[type, str] = {
    str: "text",
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _refuse_constant(name: str) -> float:
    raise InputError(f"{name} is not a number in JSON", fix="write null and a reason")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)


def read_object(text: str) -> dict[str, object]:
    """The JSON object in `text`; `InputError` without a place when it is none."""
    try:
        data = _JSON.decode(text)
    except json.JSONDecodeError as fault:
        raise InputError(f"not JSON: {fault.msg} at column {fault.colno}") from None
    except RecursionError:
        raise InputError("not a line of a run: objects nested too deep") from None
    if not isinstance(data, dict):
        raise InputError(f"an object is wanted, not {kind_word(data)}")
    return data


def require_known(keys: Iterable[str], known: Iterable[str], *, of: str) -> None:
    """Refuse a key that is not among `known`, with a suggestion."""
    names = set(known)
    for key in keys:
        if key not in names:
            raise InputError(f"unknown key {key!r} in {of}", fix=did_you_mean(key, names))


def text_at(data: Mapping[str, object], key: str, default: str | None = None) -> str:
    """Text under `key`; without a default it must be there."""
    value = data.get(key, default)
    if not isinstance(value, str):
        raise _unlike(data, key, "text")
    return value


def number_at(data: Mapping[str, object], key: str) -> float | None:
    """A finite number under `key`, or None."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unlike(data, key, "a number")
    if not math.isfinite(value):
        raise InputError(f"{key!r} is {value}, not a finite number")
    return value


def whole_at(data: Mapping[str, object], key: str, *, least: int = 0) -> int | None:
    """A whole number of at least `least` under `key`, or None."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _unlike(data, key, "a whole number")
    if value < least:
        raise InputError(f"{key!r} is {value}, but at least {least} is wanted")
    return value


def texts_at(data: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    """A list of text under `key`, or None."""
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _unlike(data, key, "a list of text")
    return tuple(value)


def kind_word(value: object) -> str:
    """What a value is, in words."""
    return KIND_WORDS.get(type(value), type(value).__name__)


def _unlike(data: Mapping[str, object], key: str, wanted: str) -> InputError:
    if key not in data:
        return InputError(f"{key!r} is missing", fix=f"add {key!r}: {wanted}")
    return InputError(f"{key!r} is {kind_word(data[key])}, but {wanted} is wanted")
