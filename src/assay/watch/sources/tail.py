"""Following files as they grow: rotation, truncation and half-written lines are part of life."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: A line that never ends is handed on in pieces of this size.
LONGEST_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One whole line without its end, or (`note`) what happened to the file."""

    file: str
    number: int
    text: str = ""
    note: str = ""


class Tail:
    """One file. `from_end` leaves out what is in it already. Not there yet is no error."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self.path = path
        self._fd: int | None = None
        self._inode = 0
        self._at = 0
        self._half = b""
        self._number = 0
        if from_end:
            fd = self._open()
            if fd is not None:
                self._at = os.lseek(fd, 0, os.SEEK_END)
                self._half = _unfinished(fd, self._at)

    def lines(self) -> Iterator[Line]:
        """Every line that has become whole since the last call."""
        if self._fd is None and self._open() is None:
            return
        yield from self._rest()
        try:
            there = self.path.stat()
        except OSError:
            return  # moved away; what is still written to it is read until a new one is there
        if there.st_ino != self._inode:
            yield from self._rest()
            self._close()
            self._open()
            yield Line(file=str(self.path), number=0, note="rotated")
            yield from self._rest()
        elif there.st_size < self._at:
            self._at, self._half, self._number = 0, b"", 0
            yield Line(file=str(self.path), number=0, note="truncated")
            yield from self._rest()

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def _rest(self) -> Iterator[Line]:
        fd = self._fd
        while fd is not None and (piece := os.pread(fd, _PIECE_BYTES, self._at)):
            self._at += len(piece)
            *whole, self._half = (self._half + piece).split(b"\n")
            if len(self._half) > LONGEST_BYTES:
                whole, self._half = [*whole, self._half], b""
            for line in whole:
                self._number += 1
                text = line.rstrip(b"\r").decode("utf-8", "replace")
                yield Line(file=str(self.path), number=self._number, text=text)

    def _open(self) -> int | None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._fd, self._inode = fd, os.fstat(fd).st_ino
        self._at, self._half, self._number = 0, b"", 0
        return fd

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _unfinished(fd: int, end: int) -> bytes:
    """The half line at the end, so that its other half is not taken for a line."""
    start = max(0, end - 65536)
    return os.pread(fd, end - start, start).rpartition(b"\n")[2]


class Folder:
    """The log files under paths and patterns; new ones are found as they come."""

    def __init__(self, given: tuple[str, ...], *, from_end: bool = False) -> None:
        self._given = given
        self._tails: dict[Path, Tail] = {}
        self._find(from_end=from_end)

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self._tails)

    def lines(self) -> Iterator[Line]:
        """New whole lines of all files."""
        self._find(from_end=False)
        for tail in self._tails.values():
            yield from tail.lines()

    def close(self) -> None:
        """Let go of all files."""
        for tail in self._tails.values():
            tail.close()

    def _find(self, *, from_end: bool) -> None:
        for given in self._given:
            path = Path(given)
            if any(c in given for c in "*?["):
                found = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor or "."))))
            elif path.is_dir():
                found = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
            else:
                found = [path] if path.is_file() else []
            for one in found:
                if one not in self._tails and not one.is_dir():
                    self._tails[one] = Tail(one, from_end=from_end)


_SUFFIXES = ("", ".log", ".txt", ".out", ".err")
