"""Files that people hand in: single ones, folders, `.tar`, `.tar.gz`, `.zip` and `.gz`, standard input.

Everything is read as a stream. An archive may come from anywhere: a member that would leave the
archive's folder, a link, a device, or a bomb refuses the whole archive.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from assay.errors import InputError

#: One artefact: its name, and its lines, or its bytes where it is a pickle.
Artefact = tuple[str, Iterable[str] | bytes]
#: A line longer than this is handed on in pieces, so that a file without a line end needs no memory.
LONGEST_LINE = 2**20
MOST_MEMBERS = 20_000
#: An archive that unpacks to more than this, or grows by more than the ratio, is refused.
MOST_UNPACKED_BYTES = 64 * 2**30
MOST_GROWTH, GROWTH_FROM_BYTES = 400, 64 * 2**20
MOST_PICKLE_BYTES = 2**30
_BROKEN = (EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile, ValueError, RuntimeError)


def read_artefacts(paths: Sequence[str], stdin: IO[bytes]) -> Iterator[Artefact]:
    """Every artefact under the paths, `-` being standard input; each must be read before the next.

    Raises `InputError` for a path that is not there and for an archive that is broken or unsafe.
    """
    for given in paths:
        path = Path(given)
        if given == "-":
            yield from _opened("standard input", io.BufferedReader(_Raw(stdin)))
        elif path.is_dir():
            for file, name in _folder(path):
                yield from read_file(file, name)
        elif path.is_file():
            yield from read_file(path, given)
        else:
            raise InputError("is no file and no folder", where=given, fix="check the path")


class Readable(Protocol):
    """What can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


class _Raw(io.RawIOBase):
    """Any binary stream, so that it can be looked at before it is read."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def files_of(paths: Sequence[str]) -> list[tuple[Path, str]] | None:
    """Every file with the name it goes by; None where standard input, or nothing, is among the paths."""
    files: list[tuple[Path, str]] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            files += _folder(path)
        elif path.is_file():
            files.append((path, given))
        else:
            return None
    return files


def _folder(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below the folder in order of their names; links are not followed."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path, str(path.relative_to(folder))


def read_file(path: Path, name: str) -> Iterator[Artefact]:
    """The artefacts of one file: itself, or the members of an archive."""
    try:
        with path.open("rb") as file:
            head = file.peek(600)[:600]
            if head.startswith(b"PK\x03\x04"):
                yield from _zip(path, name)
            elif (head.startswith(b"\x1f\x8b") and _is_tar(path)) or head[257:262] == b"ustar":
                yield from _tar(path, name)
            elif head.startswith(b"\x1f\x8b"):
                with gzip.open(file) as unpacked:
                    bounded = _Bounded(unpacked, name, path.stat().st_size)
                    yield from _opened(name, io.BufferedReader(_Raw(bounded)))
            else:
                yield from _opened(name, file)
    except PermissionError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", where=name, fix="run as who may read it"
        ) from error


def _is_tar(path: Path) -> bool:
    try:
        with gzip.open(path) as file:
            return file.read(262)[257:262] == b"ustar"
    except _BROKEN:
        return False


def _opened(name: str, file: io.BufferedReader) -> Iterator[Artefact]:
    """A stream as lines, or as bytes where it is a pickle."""
    head = file.peek(2)[:2]
    if len(head) == 2 and head[0] == 0x80 and head[1] <= 5:
        data = file.read(MOST_PICKLE_BYTES + 1)
        if len(data) > MOST_PICKLE_BYTES:
            raise InputError(f"is larger than {MOST_PICKLE_BYTES} bytes", where=name, fix="is it a dump?")
        yield name, data
    else:
        yield name, _lines(name, file)


def _lines(name: str, file: io.BufferedReader) -> Iterator[str]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="\n")
    try:
        while line := text.readline(LONGEST_LINE):
            yield line
    except (EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
        raise InputError(f"is cut off or damaged: {error}", where=name, fix="copy it again") from error
    finally:
        text.detach()


class _Bounded:
    """A decompressed stream that stops being read when it grows beyond reason."""

    def __init__(self, stream: Readable, name: str, packed_bytes: int) -> None:
        self._stream, self._name, self._packed, self._read = stream, name, max(packed_bytes, 1), 0

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._read += len(data)
        _check_growth(self._read, self._packed, self._name)
        return data


def _check_growth(unpacked: int, packed: int, name: str) -> None:
    if unpacked > MOST_UNPACKED_BYTES or (unpacked > GROWTH_FROM_BYTES and unpacked > packed * MOST_GROWTH):
        raise InputError(
            f"unpacks {packed} bytes to more than {unpacked}, as archives made to fill a disk do",
            where=name,
            fix="unpack it by hand and give the files",
        )


def _safe_name(name: str, archive: str) -> str:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or (parts.parts and ":" in parts.parts[0][1:2]):
        raise InputError(
            f"the member {name[:80]!r} would leave the archive's folder",
            where=archive,
            fix="do not trust this archive",
        )
    return str(parts)


def _tar(path: Path, name: str) -> Iterator[Artefact]:
    total = 0
    try:
        with tarfile.open(path, mode="r|*") as archive:
            for count, member in enumerate(archive, 1):
                inner = _safe_name(member.name, name)
                total += member.size
                _refuse(member.issym() or member.islnk(), "a link", inner, name)
                _refuse(not (member.isfile() or member.isdir()), "a device", inner, name)
                _refuse(count > MOST_MEMBERS, f"member {count}", inner, name)
                _check_growth(total, path.stat().st_size, name)
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None:
                    yield from _opened(inner, io.BufferedReader(_Raw(file)))
    except _BROKEN as error:
        raise InputError(f"is a damaged archive: {error}", where=name, fix="make it again") from error


def _zip(path: Path, name: str) -> Iterator[Artefact]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _refuse(len(members) > MOST_MEMBERS, f"{len(members)} members", "", name)
            _check_growth(sum(member.file_size for member in members), path.stat().st_size, name)
            for member in members:
                inner = _safe_name(member.filename, name)
                _refuse(stat.S_ISLNK(member.external_attr >> 16), "a link", inner, name)
                if not member.is_dir():
                    with archive.open(member) as file:
                        bounded = _Bounded(file, name, path.stat().st_size)
                        yield from _opened(inner, io.BufferedReader(_Raw(bounded)))
    except _BROKEN as error:
        raise InputError(f"is a damaged archive: {error}", where=name, fix="make it again") from error


def _refuse(bad: bool, what: str, member: str, archive: str) -> None:
    if bad:
        raise InputError(
            f"holds {what} {member[:80]!r}".rstrip(), where=archive, fix="do not trust this archive"
        )
