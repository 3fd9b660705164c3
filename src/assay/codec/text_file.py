"""Text files that people name: read whole, replaced in one step, faults told with the file and the fix."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.errors import InputError

_GZIP = b"\x1f\x8b"


def read_text(file: Path, *, undecodable: str = "strict") -> str:
    """The text of a file, also of one packed with gzip; raises `InputError` that names the file.

    `undecodable` is what becomes of bytes that are not UTF-8, as in `bytes.decode`.
    """
    try:
        raw = file.read_bytes()
        return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8", undecodable)
    except FileNotFoundError:
        raise InputError(f"no file {str(file)!r}", fix="check the path") from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(file), fix="give a text file") from None
    except (OSError, EOFError, zlib.error) as fault:
        told = getattr(fault, "strerror", None) or fault
        raise InputError(
            f"cannot read: {told}", where=str(file), fix="give a file that can be read"
        ) from None


def read_lines(file: Path) -> list[str]:
    """The lines of a text file, also of one packed with gzip."""
    return read_text(file).splitlines()


def write_text(file: Path, text: str, *, fix: str = "give another file") -> None:
    """Replace a file in one step, so that a reader never sees half of it; raises `InputError`.

    What is no plain file (a pipe, /dev/stdout) is written to and not replaced.
    """
    with writing(file, fix=fix):
        if file.exists() and not file.is_file():
            file.write_text(text, encoding="utf-8")
            return
        beside = file.with_name(f".{file.name}.new")
        try:
            beside.write_text(text, encoding="utf-8")
            os.replace(beside, file)
        except OSError:
            beside.unlink(missing_ok=True)
            raise


def write_json(file: Path, answer: Mapping[str, object]) -> None:
    """Write one JSON object, in UTF-8 without escapes."""
    write_text(file, json.dumps(answer, ensure_ascii=False))


@contextlib.contextmanager
def writing(file: Path, *, fix: str = "give another file") -> Iterator[None]:
    """Where the system refuses a write within, say which file it was for."""
    try:
        yield
    except OSError as fault:
        raise InputError(f"cannot write {file}: {fault.strerror}", fix=fix) from None
