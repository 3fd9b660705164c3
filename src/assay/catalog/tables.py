"""TOML tables of the shipped catalogue → frozen records; the field's name says the unit of its value."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib import resources
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from assay.errors import InputError, did_you_mean
from assay.units import parse, parse_bytes, unit_of_name

T = TypeVar("T")


def shipped_text(file: str) -> str:
    """The text of a data file that comes with the package."""
    return resources.files("assay.catalog").joinpath("data", file).read_text(encoding="utf-8")


def read_records(text: str, *, file: str, table: str, kind: Callable[..., T]) -> dict[str, T]:
    """Records of `[table.<id>]` sections by id, in the order of the file.

    `kind` is a dataclass with an `id` field. Raises `InputError` that names file, line and key.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", where=file) from error
    sections = document.get(table)
    if not isinstance(sections, dict) or not sections:
        raise InputError(f"has no [{table}.<id>] section", where=file)
    return {
        str(key): _record(str(key), section, kind=kind, where=_place(text, file, f"{table}.{key}"))
        for key, section in sections.items()
    }


def _record(key: str, section: object, *, kind: Callable[..., T], where: str) -> T:
    if not isinstance(section, dict):
        raise InputError(f"{key} is not a table", where=where)
    # A dataclass has no static type of its own, so its fields are asked for at run time.
    known = {entry.name: entry for entry in fields(kind) if entry.name != "id"}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    for name in section:
        if name not in known:
            raise InputError(f"unknown key {name!r}", where=where, fix=did_you_mean(name, known))
    for name, entry in known.items():
        if name not in section and entry.default is MISSING and entry.default_factory is MISSING:
            raise InputError(f"key {name!r} is missing", where=where, fix=f"add {name} to the section")
    values = {name: _value(name, hints[name], raw, where) for name, raw in section.items()}
    try:
        return kind(id=key, **values)
    except InputError as error:
        raise InputError(error.what, where=where, fix=error.fix) from error


def _value(name: str, hint: Any, raw: object, where: str) -> object:
    """One TOML value as the field wants it: text with a unit → float, array → tuple, table → mapping."""
    if get_origin(hint) is Mapping:
        if not isinstance(raw, dict):
            raise InputError(f"{name} = {raw!r} is not a table", where=where)
        inner = get_args(hint)[1]
        return types.MappingProxyType({key: _value(name, inner, item, where) for key, item in raw.items()})
    if get_origin(hint) is tuple:
        if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
            raise InputError(f"{name} = {raw!r} is not a list of text", where=where)
        return tuple(raw)
    allowed = [option for option in (get_args(hint) or (hint,)) if option is not type(None)]
    unit = unit_of_name(name)
    # Counts a second are bare numbers, like counts.
    if unit not in (None, "1/s") and (float in allowed or int in allowed):
        return _quantity(name, raw, str(unit), whole=int in allowed, where=where)
    if not any(type(raw) is option for option in allowed):
        wanted = " or ".join(option.__name__ for option in allowed)
        quote = "write a dotted key in quotes" if isinstance(raw, dict) else None
        raise InputError(f"{name} = {raw!r} is not {wanted}", where=where, fix=quote)
    return raw


def _quantity(name: str, raw: object, unit: str, *, whole: bool, where: str) -> float | int:
    if not isinstance(raw, str):
        raise InputError(f"{name} = {raw!r} has no unit", where=where, fix=f'write it as text, in "{unit}"')
    return parse_bytes(raw, where=where) if whole else parse(raw, unit=unit, where=where).value


def _place(text: str, file: str, section: str) -> str:
    """`file:line` of a section's header, or the section's name where the header is written otherwise."""
    wanted = {f"[{section}]", f'[{section.partition(".")[0]}."{section.partition(".")[2]}"]'}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() in wanted:
            return f"{file}:{number}"
    return f"{file} [{section}]"
