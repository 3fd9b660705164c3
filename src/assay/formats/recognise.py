"""Which tool wrote this file? Decided by what its first lines say, never by its name.

A format is registered by decorating its parser; a plug-in does the same in a module that it names in
the entry-point group `assay.formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import islice
from typing import TypeVar

from assay.errors import InputError, did_you_mean

#: How many lines of a file are looked at.
HEAD_LINES = 400

Recognise = Callable[[Sequence[str]], bool]
Parse = Callable[[Iterable[str], str], tuple[object, ...]]
AnyParse = TypeVar("AnyParse", bound=Callable[..., tuple[object, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A kind of file: `recognise` sees its first lines, `parse` takes all lines and the file's name.

    `parse` returns one record per run that the file holds and raises `InputError` for a file that
    cannot be read; it never drops a line silently.
    """

    name: str
    title: str
    recognise: Recognise
    parse: Parse


_FORMATS: dict[str, Format] = {}


def file_format(name: str, title: str, recognise: Recognise) -> Callable[[AnyParse], AnyParse]:
    """Register the decorated parser as the format `name`; it is called with the lines and the file's name."""

    def register(parse: AnyParse) -> AnyParse:
        if name in _FORMATS:
            raise InputError(f"the file format {name!r} is registered twice", fix="rename one of the two")
        _FORMATS[name] = Format(name=name, title=title, recognise=recognise, parse=parse)
        return parse

    return register


def formats() -> dict[str, Format]:
    """Every registered format by name, in the order of registration."""
    return dict(_FORMATS)


def load_plugins() -> None:
    """Import the modules that other packages name in the entry-point group `assay.formats`."""
    for point in entry_points(group="assay.formats"):
        point.load()


def recognise(lines: Iterable[str]) -> str | None:
    """The name of the first format that knows these lines, or None. Looks at `HEAD_LINES` lines."""
    head = tuple(line.rstrip("\r\n") for line in islice(lines, HEAD_LINES))
    return next((known.name for known in _FORMATS.values() if known.recognise(head)), None)


def parse(lines: Sequence[str], name: str, *, kind: str | None = None) -> tuple[object, ...]:
    """Parse the lines as `kind`, or as what they are recognised to be. Raises `InputError`."""
    kind = kind or recognise(lines)
    if kind not in _FORMATS:
        titles = "; ".join(known.title for known in _FORMATS.values())
        raise InputError(
            f"no known tool writes a file like this ({len(lines)} line{'s' * (len(lines) != 1)})"
            if kind is None
            else f"unknown file format {kind!r}",
            where=f"{name}:1",
            fix=f"known: {titles}" if kind is None else did_you_mean(kind, _FORMATS),
        )
    return _FORMATS[kind].parse(lines, name)
