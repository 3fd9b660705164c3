"""The ledger of the watch: a file that only grows, where each entry counts once.

A line is acknowledged when `append` returns: it is on the disk by then. A writer that is killed may leave
half a line, which the next one sets aside beside the file. Writers of one file take turns by a lock, and
read what the others have written before they write.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from assay.codec.ledger import decode, encode
from assay.codec.plain import read_object
from assay.codec.text_file import writing
from assay.domain.ledger import Entry
from assay.errors import InputError
from assay.store.append import LineFile, set_aside_torn_tail


class Ledger:
    """An open ledger. Several processes may have it open at once."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with self._writing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._ids: set[str] = set()
        self._read_bytes = 0

    def append(self, entries: Iterable[Entry]) -> int:
        """Write the entries that are not there yet, wait until they are on the disk, and say how many."""
        lines = [encode(entry) for entry in entries]
        if not lines:
            return 0
        with self._writing(), self._turn():
            set_aside_torn_tail(self.path, self.path.with_name(self.path.name + ".torn"))
            self._catch_up()
            new = [line for line in lines if line["id"] not in self._ids]
            if not new:
                return 0
            file = LineFile(self.path)
            try:
                for line in new:
                    file.append(line)
                file.sync()
            finally:
                file.close()
            self._ids |= {str(line["id"]) for line in new}
            self._read_bytes = self.path.stat().st_size
        return len({line["id"] for line in new})

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self.path, fix="name another ledger with --ledger")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Only one writer at a time; the lock goes with the process that holds it."""
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _catch_up(self) -> None:
        """Learn the ids of lines that others have written."""
        if not self.path.exists():
            self._read_bytes = 0
            return
        if self.path.stat().st_size < self._read_bytes:
            raise InputError(
                f"has become shorter: {self.path.stat().st_size} bytes, {self._read_bytes} before",
                where=str(self.path),
                fix="a ledger only grows: put the old file back, or begin a new one",
            )
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            for line in file:
                self._ids.add(str(read_object(line.decode()).get("id", "")))
            self._read_bytes = file.tell()


def read_ledger(path: Path | str) -> Iterator[Entry]:
    """Every entry of a ledger once, in the order of the file; half a line at its end is not there yet."""
    path = Path(path)
    try:
        file = path.open("rb")
    except OSError as fault:
        raise InputError(
            f"cannot read the ledger: {fault.strerror}",
            where=str(path),
            fix="assay watch --ledger FILE writes one",
        ) from None
    seen: set[str] = set()
    with file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            where = f"{path}:{number}"
            try:
                data = read_object(line.decode())
            except (InputError, UnicodeDecodeError) as fault:
                what = fault.what if isinstance(fault, InputError) else "not UTF-8"
                raise InputError(f"not a line of a ledger: {what}", where=where) from None
            name, entry = decode(data, where=where)
            if name not in seen:
                seen.add(name)
                yield entry
