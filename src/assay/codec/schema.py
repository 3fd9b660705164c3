"""A document against the pydantic model that describes it; faults come out as `InputError` with file:line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from assay.codec.document import Document
from assay.errors import AssayError, InputError, did_you_mean


class FileModel(BaseModel):
    """A part of a file: only the keys it names, and each of its own kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


M = TypeVar("M", bound=BaseModel)


def read_as(document: Document, model: type[M], *, kind: str) -> M:
    """The document as `model`; `kind` says what the file is ("profile")."""
    schema = document.data.get("schema")
    if schema != 1:
        raise InputError(
            f"schema is {schema!r}, but this version of assay reads {kind} files of schema 1"
            if "schema" in document.data
            else f"{kind} without a schema number",
            where=document.where("schema"),
            fix="write 'schema: 1'"
            if "schema" not in document.data
            else "use the version that wrote the file",
        )
    try:
        return model.model_validate(document.data)
    except ValidationError as fault:
        raise _told(fault, document, model) from None


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Faults raised inside are told at `where`."""
    try:
        yield
    except AssayError as fault:
        raise type(fault)(fault.what, where=where, fix=fault.fix) from None


def _told(fault: ValidationError, document: Document, model: type[BaseModel]) -> InputError:
    """The first fault in the file's order, since the later ones may follow from it."""
    errors = sorted(fault.errors(), key=lambda e: document.line(_path(e["loc"], document)))
    # What was misspelt is both unknown and missing; the unknown key is the one to tell.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    path = _path(first["loc"], document)
    key = str(first["loc"][-1])
    where = document.where(*path)
    of = _spoken(path[:-1])
    if first["type"] == "extra_forbidden":
        fields = _model_at(model, path[:-1]).model_fields
        known = [field.alias or name for name, field in fields.items()]
        return InputError(f"unknown key {key!r}{of}", where=where, fix=did_you_mean(key, known))
    if first["type"] == "missing":
        return InputError(f"{str(path[-1])!r} is missing{of}", where=document.where(*path[:-1]))
    value = first["input"]
    if first["type"] == "enum":
        choices = [str(choice.value) for choice in _enum_at(model, path)]
        return InputError(f"{path[-1]} is {value!r}{of}", where=where, fix=did_you_mean(str(value), choices))
    return InputError(f"{_spoken(path, '')} is {value!r}: {_wanted(first)}", where=where, fix=_written(first))


def _wanted(error: ErrorDetails) -> str:
    """What would be right, in words; pydantic's own where it is none of the common faults."""
    bounds = error.get("ctx", {})
    words = {
        "string_type": "text is wanted",
        "int_type": "a whole number is wanted",
        "float_type": "a number is wanted",
        "bool_type": "true or false is wanted",
        "list_type": "a list is wanted",
        "dict_type": "keys with values are wanted",
        "model_type": "keys with values are wanted",
        "greater_than_equal": f"at least {bounds.get('ge')} is wanted",
        "greater_than": f"more than {bounds.get('gt')} is wanted",
        "less_than_equal": f"at most {bounds.get('le')} is wanted",
    }
    return words.get(error["type"], f"{error['msg'][:1].lower()}{error['msg'][1:]}")


def _written(error: ErrorDetails) -> str | None:
    """How to write a number where text is wanted: most such text is an amount, whose unit is not guessed."""
    value = error["input"]
    if error["type"] != "string_type" or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return f"an amount needs its unit, as '400 Gbit/s', '16 GiB' or '5 s'; a name needs quotes: '{value}'"


def _path(loc: tuple[int | str, ...], document: Document) -> tuple[int | str, ...]:
    """A pydantic location without the names of union members that it ends in."""
    found: object = document.data
    for at, part in enumerate(loc):
        if isinstance(found, dict) and isinstance(part, str):
            if part not in found:
                return loc[: at + 1]
            found = found[part]
        elif isinstance(found, list) and isinstance(part, int) and part < len(found):
            found = found[part]
        else:
            return loc[:at]
    return loc


def _spoken(path: tuple[int | str, ...], lead: str = " in ") -> str:
    """`criteria.recipe`: the names of a path; the line tells which one of a list."""
    text = ".".join(part for part in path if isinstance(part, str))
    return f"{lead}{text}" if text else ""


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = next(
                (c for c in _classes(model.model_fields[part].annotation) if issubclass(c, BaseModel)), model
            )
    return model


def _enum_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[Enum]:
    annotation = _model_at(model, path[:-1]).model_fields[str(path[-1])].annotation
    return [member for c in _classes(annotation) if issubclass(c, Enum) for member in c]


def _classes(annotation: object) -> Iterator[type]:
    """The classes that an annotation is built from."""
    inner = get_args(annotation)
    if inner:
        for part in inner:
            yield from _classes(part)
    elif isinstance(annotation, type):
        yield annotation
