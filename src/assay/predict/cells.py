"""Cells of a table of training runs as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.errors import InputError

Row = Mapping[str, str]


def need(row: Row, key: str) -> int:
    """A whole number that must be there."""
    value = whole(row, key)
    if value is None:
        raise InputError(f"{key} is not given")
    return value


def whole(row: Row, key: str) -> int | None:
    """A number rounded to a whole one, or None where the cell is empty."""
    value = number(row, key)
    return None if value is None else round(value)


def number(row: Row, key: str) -> float | None:
    """A finite number, or None where the cell is empty or holds words."""
    text = (row.get(key) or "").strip().replace(",", "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
