"""One figure of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured, its value as text, and what is to be reached."""

    what: str
    value: str
    reach: str = ""
