"""A place on the storage to measure: a folder that goes away again, its filesystem, and its free space."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from assay.errors import MeasurementError
from assay.measure.context import Context

#: Free space asked for, as a multiple of what is written.
_SPACE = 2.0


def place(context: Context, name: str) -> Path:
    """Where a benchmark writes its test files: under the setting `path`, or else in the run folder."""
    return Path(context.settings.get("path") or context.folder) / "scratch" / f"{context.run}-{name}"


@contextlib.contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """The folder, empty now and removed afterwards; after a kill, the agent or the next use removes it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # the files of another node may be beside it
            folder.parent.rmdir()


def require_room(folder: Path, total_bytes: int) -> None:
    """Refuse to write what would take more than half of the free space."""
    room = os.statvfs(folder)
    free_bytes = room.f_bavail * room.f_frsize
    if free_bytes < _SPACE * total_bytes:
        raise MeasurementError(
            f"{total_bytes >> 20} MiB of test files want {_SPACE:g} times that free, "
            f"and {folder} has {free_bytes >> 20} MiB"
        )


def takes_direct(folder: Path) -> bool:
    """Whether a file in the folder can be written past the page cache."""
    path = folder / "direct"
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_DIRECT", 0)
    if not hasattr(os, "O_DIRECT"):
        return False
    try:
        file = os.open(path, flags, 0o600)
        try:
            with mmap.mmap(-1, mmap.PAGESIZE) as page:  # direct I/O wants aligned memory
                return os.pwrite(file, page, 0) == mmap.PAGESIZE
        finally:
            os.close(file)
    except OSError:
        return False
    finally:
        path.unlink(missing_ok=True)


def filesystem_of(folder: Path) -> str:
    """The type of the filesystem that holds the folder, as the kernel names it."""
    best, kind = "", "unknown"
    place = os.path.realpath(folder)
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return kind
    for mount in mounts:
        point, found = mount.split()[1:3]
        point = point.encode().decode("unicode_escape")  # blanks are written as \040
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind
