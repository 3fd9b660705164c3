"""Reading what people give, with a process for every core where several large documents are among it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from assay.api.pool import process_pool
from assay.errors import InputError
from assay.formats.artefact import Read, Reading, read
from assay.store.bundle import Artefact, files_of, read_artefacts, read_file

#: Dumps and traces are decoded whole and are worth a process from this size on, all of them together.
_HEAVY_BYTES, _WORTH_BYTES = 100_000, 4_000_000


def read_given(paths: Sequence[str], stdin: IO[bytes]) -> Iterator[Artefact | Read]:
    """Every artefact under the paths, in order; dumps and traces are read ahead by other processes."""
    files = files_of(paths)
    heavy = [(path, name) for path, name in files or () if _is_heavy(path)]
    cores = len(os.sched_getaffinity(0))
    worth = len(heavy) > 1 and sum(path.stat().st_size for path, _ in heavy) >= _WORTH_BYTES
    if files is None or cores < 2 or not worth:
        yield from read_artefacts(paths, stdin)
        return
    ahead = set(heavy)
    with process_pool(min(cores, len(heavy)), start="fork" if _alone() else "spawn") as pool:
        done = pool.map(_read, heavy)
        for path, name in files:
            if (path, name) in ahead:
                yield from next(done)
            else:
                yield from read_file(path, name)


def _alone() -> bool:
    """Whether this process has one thread, so that it can be forked."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def _is_heavy(path: Path) -> bool:
    """Whether a file is large, and JSON or a pickle by its first byte."""
    try:
        with path.open("rb") as file:
            return path.stat().st_size >= _HEAVY_BYTES and file.read(1) in (b"{", b"[", b"\x80", b"\x1f")
    except OSError:
        return False


def _read(given: tuple[Path, str]) -> list[Read]:
    """Read one file in a process of the pool."""
    answers: list[Read] = []
    for name, lines in read_file(*given):
        reading = Reading(file=name)
        try:
            records = tuple(read(name, lines, reading))
        except InputError as error:
            records, reading.problem = (), str(error.what)
        answers.append(Read(reading=reading, records=records))
    return answers
