"""Flight-recorder dumps of PyTorch (NCCL and Gloo), as pickle or JSON, of one rank or of several.

A pickle is read by an unpickler that can build nothing but plain data. `collective_seq_id` lines up the
ranks of one group. Gloo's entries have `retired` and no `state`, and failed ones may be retired, too.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from assay.errors import InputError

#: More entries than this in one dump are no dump that PyTorch writes.
MOST_ENTRIES = 2_000_000


#: The JSON form writes the counts of `pg_status` as text.
_INTEGER = re.compile(r"-?\d{1,15}", re.ASCII)


class Entry(NamedTuple):
    """One collective or send/receive of one rank. Gloo records no send or receive."""

    group: str
    seq: int
    p2p: bool
    name: str
    sizes: str
    dtypes: str
    state: str
    created_s: float | None
    frame: str


class Dump(NamedTuple):
    """One rank's dump; `groups` holds the description and the member ranks of each process group."""

    file: str
    line: int
    rank: int
    host: str | None
    groups: Mapping[str, tuple[str, tuple[int, ...]]]
    status: Mapping[str, Mapping[str, int]]
    entries: tuple[Entry, ...]


class _PlainUnpickler(pickle.Unpickler):
    """Builds dicts, lists, tuples, numbers and text; any class or function in the file is refused."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"it wants to build {module}.{name}")

    def persistent_load(self, pid: object) -> object:
        raise pickle.UnpicklingError("it refers to an object outside the file")


def load_pickle(data: bytes, file: str) -> object:
    """The plain data in a pickle. Raises `InputError` for anything that is not only plain data."""
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        UnicodeDecodeError,
        RecursionError,
    ) as error:
        raise InputError(
            f"is no flight-recorder dump that is safe to read: {error}",
            where=file,
            fix="give the file that PyTorch wrote to TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        ) from error


def is_dump(document: object) -> bool:
    """Whether decoded JSON or a decoded pickle is one rank's dump, or a list of them."""
    return any(True for _ in _each(document))


def read(document: object, file: str) -> Iterator[Dump]:
    """Every dump in a decoded document. What an entry lacks is empty, not made up."""
    for index, raw in enumerate(_each(document)):
        rank = raw.get("rank")
        yield Dump(
            file=file,
            line=1,
            rank=rank if isinstance(rank, int) else _rank_of(file, index),
            host=_text(raw.get("host_name") or raw.get("hostname")) or None,
            groups=_groups(raw.get("pg_config")),
            status=_status(raw.get("pg_status")),
            entries=tuple(_entries(raw.get("entries"))),
        )


def _each(document: object) -> Iterator[dict[str, object]]:
    many = document.get("ranks") if isinstance(document, dict) and "entries" not in document else document
    if isinstance(many, dict) and "entries" not in many:
        many = [
            v if not isinstance(v, dict) or "rank" in v else v | {"rank": _int(k)} for k, v in many.items()
        ]
    for raw in many if isinstance(many, list) else [many]:
        if (
            isinstance(raw, dict)
            and isinstance(raw.get("entries"), list)
            and ("pg_config" in raw or "version" in raw or "pg_status" in raw)
        ):
            yield raw


def _rank_of(file: str, index: int) -> int:
    """PyTorch writes the rank only into the name of the file, as its last number."""
    found = re.findall(r"\d+", file.rsplit("/", 1)[-1])
    return int(found[-1][:9]) if found and index == 0 else index


def _groups(config: object) -> dict[str, tuple[str, tuple[int, ...]]]:
    groups: dict[str, tuple[str, tuple[int, ...]]] = {}
    for key, value in (config if isinstance(config, dict) else {}).items():
        if isinstance(value, dict):
            groups[str(key)] = (_text(value.get("desc") or value.get("name")), _ranks(value.get("ranks")))
        elif isinstance(value, list):
            groups[str(key)] = (str(key), _ranks(value))
    return groups


def _ranks(value: object) -> tuple[int, ...]:
    if isinstance(value, str):
        return tuple(int(number) for number in re.findall(r"\d{1,9}", value))
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, list) else ()


def _status(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        return {}
    return {
        str(group): {str(k): int(v) for k, v in counts.items() if _INTEGER.fullmatch(str(v))}
        for group, counts in value.items()
        if isinstance(counts, dict)
    }


def _entries(raw: object) -> Iterator[Entry]:
    """One row per collective. Shapes repeat, so the text of each is kept once."""
    shapes: dict[str, str] = {}
    for item in (raw if isinstance(raw, list) else [])[:MOST_ENTRIES]:
        if not isinstance(item, dict):
            continue
        get = item.get
        group, is_p2p, name = get("process_group"), bool(get("is_p2p")), get("profiling_name")
        seq, created = get("p2p_seq_id" if is_p2p else "collective_seq_id"), get("time_created_ns")
        sizes = f"{get('input_sizes')}->{get('output_sizes')}"
        dtypes = str(get("input_dtypes", ""))
        name = name if isinstance(name, str) else ""
        yield Entry(
            str(group[0]) if isinstance(group, list | tuple) and group else str(get("pg_id", "")),
            seq if isinstance(seq, int) else -1,
            is_p2p,
            name,
            shapes.setdefault(sizes, sizes),
            shapes.setdefault(dtypes, dtypes),
            _state(get("state"), get("retired"), name),
            created / 1e9 if isinstance(created, int) else None,
            _frame(get("frames")),
        )


def _state(state: object, retired: object, name: str) -> str:
    """`completed`, `started`, `scheduled`, or `retired`: Gloo's, done or failed, whose state never moves."""
    if isinstance(state, str) and not name.startswith("gloo:"):
        return state
    return "retired" if retired else "scheduled"


def _frame(frames: object) -> str:
    """The innermost frame that has a name, as `name file:line`."""
    for frame in frames if isinstance(frames, list) else []:
        if isinstance(frame, dict) and frame.get("name"):
            return f"{frame.get('name')} {frame.get('filename')}:{frame.get('line')}"
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _int(text: object) -> int | None:
    return (
        int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10 else None
    )
