"""Files that only grow: what was written stays, whatever happens to the writer.

The measuring worker uses this module, so it needs only the standard library and Python 3.10.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

from assay.errors import MeasurementError

_ITEM_BYTES = 8


class LineFile:
    """A file of JSON lines with one writer; each line goes out in one `write` and ends with a newline."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if torn_tail(self.path):
            raise MeasurementError(
                f"{self.path} ends in a line that was cut off",
                fix="set the cut-off line aside before appending (assay qualify --resume does)",
            )
        self._fd = _open(self.path)

    def append(self, record: Mapping[str, object]) -> None:
        """Write one object as one line; a line that does not fit on the disk is taken back whole."""
        try:
            line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        except ValueError as fault:
            raise MeasurementError(f"cannot write {record!r} to {self.path}: {fault}") from fault
        _write(self._fd, self.path, line.encode() + b"\n")

    def sync(self) -> None:
        """Wait until every line is on the disk."""
        _sync(self._fd, self.path)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


class SampleFile:
    """A file of little-endian float64; `name` is what readings call it, relative to the run folder."""

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        self.path = Path(path)
        self.name = name
        self._fd = _open(self.path)
        size = os.fstat(self._fd).st_size
        # A killed writer may leave part of a number; samples go out before the line that refers to
        # them, so no line knows of it.
        os.ftruncate(self._fd, size - size % _ITEM_BYTES)

    def append(self, samples: Iterable[float]) -> tuple[int, int]:
        """Write samples and return (offset, count) in items, for the reading that rests on them."""
        items = array("d", samples)
        if sys.byteorder == "big":
            items.byteswap()
        offset = os.fstat(self._fd).st_size // _ITEM_BYTES
        _write(self._fd, self.path, items.tobytes())
        return offset, len(items)

    def sync(self) -> None:
        """Wait until every sample is on the disk."""
        _sync(self._fd, self.path)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def torn_tail(path: str | os.PathLike[str]) -> int:
    """Bytes after the last newline of a file: 0 when its last line is whole, or there is no file."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            start, block = end, 65536
            while start > 0:
                step = min(block, start)
                start -= step
                file.seek(start)
                newline = file.read(step).rfind(b"\n")
                if newline >= 0:
                    return end - (start + newline + 1)
            return end
    except FileNotFoundError:
        return 0
    except OSError as fault:
        raise _failure("read", Path(path), fault) from fault


def set_aside_torn_tail(path: str | os.PathLike[str], into: str | os.PathLike[str]) -> int:
    """Move a cut-off last line to the end of the file `into`, and return how many bytes that was."""
    count = torn_tail(path)
    if not count:
        return 0
    try:
        with open(path, "r+b") as file:
            end = file.seek(-count, os.SEEK_END)
            tail = file.read()
            Path(into).parent.mkdir(parents=True, exist_ok=True)
            with open(into, "ab") as side:
                side.write(tail + b"\n")
                side.flush()
                os.fsync(side.fileno())
            file.truncate(end)
    except OSError as fault:
        raise _failure("set aside the cut-off line of", Path(path), fault) from fault
    return count


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as fault:
        raise _failure("open", path, fault) from fault


def _write(fd: int, path: Path, data: bytes) -> None:
    """Write all of `data`, or leave the file as it was and raise."""
    before = os.fstat(fd).st_size
    try:
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError as fault:
        os.ftruncate(fd, before)
        raise _failure("write", path, fault) from fault


def _sync(fd: int, path: Path) -> None:
    try:
        os.fsync(fd)
    except OSError as fault:
        raise _failure("write", path, fault) from fault


def _failure(verb: str, path: Path, fault: OSError) -> MeasurementError:
    return MeasurementError(
        f"cannot {verb} {path}: {fault.strerror or fault}",
        fix="free some space or take another folder with --out, then go on with --resume",
    )
