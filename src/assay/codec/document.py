"""YAML and TOML files into plain data that remembers on which line each key stands."""

from __future__ import annotations

import datetime
import io
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from assay.codec.plain import kind_word
from assay.codec.text_file import read_text
from assay.errors import InputError

KeyPath = tuple[str | int, ...]

_MOST_NODES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The mapping in a file, the name it is shown by, and the line (from 1) of each key path."""

    name: str
    data: dict[str, object]
    lines: Mapping[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """The line of a key path, or of the nearest part of it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, *path: str | int) -> str:
        """file:line of a key path."""
        return f"{self.name}:{self.line(path)}"


def read_document(source: Path | str, name: str | None = None) -> Document:
    """Read a file, or text that is shown as `name`; TOML where the name ends in .toml, YAML elsewhere.

    Raises `InputError` with file:line for what is not well formed: also for a key that stands twice.
    """
    shown = name or str(source)
    text = read_text(source) if isinstance(source, Path) else source
    return read_toml(text, shown) if shown.endswith(".toml") else read_yaml(text, shown)


def read_yaml(text: str, name: str) -> Document:
    """YAML 1.2: `50e9` is a number, `no` is text, and a key may stand only once."""
    try:
        loaded = YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        raise InputError(
            _first_line(fault.problem or fault.context or "not YAML"),
            where=f"{name}:{mark.line + 1}" if mark else name,
            fix=_yaml_fix(fault.problem or ""),
        ) from None
    except (YAMLError, ValueError) as fault:
        raise InputError(f"not YAML: {_first_line(str(fault))}", where=name) from None
    except RecursionError:
        raise InputError("nested too deep", where=name) from None
    lines: dict[KeyPath, int] = {}
    data = _Plain(name, lines).of(loaded, (), 1)
    return Document(name=name, data=_mapping(data, name), lines=lines)


def read_toml(text: str, name: str) -> Document:
    """TOML 1.0."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        at = re.search(r"\s*\(at line (\d+), column \d+\)", str(fault))
        what = str(fault).replace(at[0], "") if at else str(fault)
        raise InputError(f"not TOML: {what}", where=f"{name}:{at[1]}" if at else name) from None
    return Document(name=name, data=data, lines=_toml_lines(text))


def write_yaml(data: Mapping[str, object]) -> str:
    """YAML text in the order of `data`, one key a line."""
    writer = YAML(typ="rt", pure=True)
    writer.default_flow_style = False
    writer.width = 10_000
    out = io.StringIO()
    writer.dump(dict(data), out)
    return out.getvalue()


class _Plain:
    """Turns what ruamel loads into dicts, lists, text and numbers, and notes the line of each."""

    def __init__(self, name: str, lines: dict[KeyPath, int]) -> None:
        self._name = name
        self._lines = lines
        self._nodes = 0

    def of(self, value: object, path: KeyPath, line: int) -> object:
        # A few aliases can stand for a tree without end, or for one larger than memory.
        self._nodes += 1
        if self._nodes > _MOST_NODES or len(path) > 100:
            raise InputError("aliases (*name) make this too large", where=f"{self._name}:{line}")
        self._lines[path] = line
        if isinstance(value, CommentedMap):
            return {
                self._key(key, line): self.of(item, (*path, key), _line(value, key, line))
                for key, item in value.items()
            }
        if isinstance(value, CommentedSeq):
            return [self.of(item, (*path, at), _line(value, at, line)) for at, item in enumerate(value)]
        if isinstance(value, datetime.date):
            return value.isoformat()
        if value is None or isinstance(value, bool):
            return value
        for kind in (int, float, str):
            if isinstance(value, kind):
                return kind(value)  # ruamel's own kinds of numbers and text remember how they were written
        raise InputError(f"a value of kind {kind_word(value)} is not used here", where=f"{self._name}:{line}")

    def _key(self, key: object, line: int) -> str:
        if not isinstance(key, str):
            raise InputError(
                f"the key {key!r} is not text", where=f"{self._name}:{line}", fix="put it in quotes"
            )
        return str(key)


def _line(holder: CommentedMap | CommentedSeq, key: object, otherwise: int) -> int:
    """The line of a key or item; a key that comes from a merge (<<) has none of its own."""
    places = holder.lc.data or {}
    return int(places[key][0]) + 1 if key in places else otherwise


def _mapping(data: object, name: str) -> dict[str, object]:
    if data is None:
        raise InputError("the file is empty", where=name)
    if not isinstance(data, dict):
        raise InputError(f"keys with values are wanted, not {kind_word(data)}", where=f"{name}:1")
    return data


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _yaml_fix(problem: str) -> str | None:
    if "duplicate key" in problem:
        return "keep one of the two"
    if "cannot start any token" in problem and "\\t" in problem:
        return "indent with spaces, not tabs"
    return None


_TOML_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_TOML_TABLE = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?")


def _toml_lines(text: str) -> dict[KeyPath, int]:
    """Lines of tables and keys; keys inside inline tables are left to the key that holds them."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        head = _TOML_TABLE.fullmatch(line)
        if head and "=" not in head[2]:
            table = _within(_toml_path(head[2]), counts)
            if head[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _TOML_KEY.match(line):
            lines.setdefault((*table, *_toml_path(key[1])), number)
    return lines


def _toml_path(dotted: str) -> KeyPath:
    """The parts of a dotted key, quotes read as TOML reads them."""
    try:
        inner: object = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str | int] = []
    while isinstance(inner, dict):
        key, inner = next(iter(inner.items()))
        path.append(key)
    return tuple(path)


def _within(path: KeyPath, counts: Mapping[KeyPath, int]) -> KeyPath:
    """A path with the index of the current item wherever it goes through an array of tables."""
    full: KeyPath = ()
    for at, part in enumerate(path):
        full = (*full, part)
        if full in counts and at < len(path) - 1:
            full = (*full, counts[full])
    return full
