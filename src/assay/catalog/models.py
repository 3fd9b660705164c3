"""The shipped models, and models from a user's YAML."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path

from assay.catalog.tables import read_records, shipped_text
from assay.codec.document import read_document
from assay.codec.plain import KIND_WORDS, kind_word
from assay.domain.device import Source
from assay.domain.workload import Transformer
from assay.errors import InputError, did_you_mean, unknown_name

MODEL_FILES = ("gpt.toml", "llama.toml", "moe.toml", "qwen.toml")


@functools.cache
def models() -> tuple[Transformer, ...]:
    """Every model of the catalogue."""
    found: dict[str, Transformer] = {}
    for file in MODEL_FILES:
        path = f"models/{file}"
        found |= read_records(shipped_text(path), file=path, table="model", kind=Transformer)
    return tuple(found.values())


@functools.cache
def model_sources() -> Mapping[str, Source]:
    """The documents behind the shipped models, by id."""
    path = "models/sources.toml"
    return read_records(shipped_text(path), file=path, table="source", kind=Source)


@functools.cache
def _names() -> Mapping[str, Transformer]:
    return {name: one for one in models() for name in (one.id, *one.aliases)}


def model(name: str) -> Transformer:
    """The model with this id or alias; raises `UnknownNameError` with the nearest names."""
    said = name.strip().lower().replace("_", "-").replace(" ", "-")
    if said not in _names():
        raise unknown_name("model", name, _names())
    return _names()[said]


def model_from_file(source: Path | str, name: str | None = None) -> Transformer:
    """The shape in a user's YAML or TOML file, whose keys are the fields of `Transformer`.

    `id`, `name` and `source` may be left out. Raises `InputError` with file, line and the nearest key.
    """
    document = read_document(source, name)
    known = {entry.name: entry for entry in fields(Transformer)}
    for key, value in document.data.items():
        if key not in known:
            raise InputError(f"unknown key {key!r}", where=document.where(key), fix=did_you_mean(key, known))
        wanted = _KINDS[str(known[key].type)]
        if type(value) is not wanted:
            said = KIND_WORDS[wanted]
            raise InputError(f"{key} is {kind_word(value)}, but {said} is wanted", where=document.where(key))
    for key, entry in known.items():
        needed = entry.default is MISSING and key not in ("id", "name", "source")
        if needed and key not in document.data:
            raise InputError(f"key {key!r} is missing", where=document.name, fix=f"add {key}: a whole number")
    said_names = {"id": "model", "name": document.name, "source": document.name}
    try:
        return Transformer(**(said_names | document.data))  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(error.what, where=document.name, fix=error.fix) from error


_KINDS: dict[str, type] = {"int": int, "str": str, "bool": bool, "tuple[str, ...]": list}
