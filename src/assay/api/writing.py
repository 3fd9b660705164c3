"""Files that a user asked for: written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from assay.errors import InputError


def write_text(path: Path, text: str, *, fix: str = "give another file") -> None:
    """Replace a file in one step, so that a reader never sees half of it.

    Raises `InputError` where it cannot be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror}", fix=fix) from None


def write_json(data: Mapping[str, object], path: Path) -> None:
    """Write one JSON object, in UTF-8 without escapes, which Perfetto shows as they stand."""
    write_text(path, json.dumps(data, ensure_ascii=False))
