"""Reading other programs' text line by line: launcher prefixes, whole numbers and real numbers."""

from __future__ import annotations

import math
import re

from assay.errors import InputError

# What mpirun --tag-output, srun --label, torchrun and `kubectl logs --timestamps` put before a line.
_PREFIXES = re.compile(
    r"(?:\[\d+,\d+\]<std(?:out|err)>:"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)\s(?:std(?:out|err)\s[FP]\s)?"
    r"|\s*\[(?:rank)?\d+\]:?(?=\s*[#\d])"
    r"|\s*\d+:(?=\s)"
    r"|[A-Za-z][\w.-]*:(?=\s+[#\d]))",
    re.ASCII,
)
_REAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,18}", re.ASCII)
#: How the tools print "there is no value".
NOTHING = frozenset({"n/a", "na", "nan", "-nan", "inf", "-inf", "+inf"})


def strip_launcher(line: str) -> str:
    """The line as the program printed it, without up to two launcher prefixes and the line end."""
    line = line.rstrip("\r\n")
    for _ in range(2):
        match = _PREFIXES.match(line)
        if match is None:
            break
        line = line[match.end() :]
    return line


def whole(text: str) -> int | None:
    """The integer that `text` spells, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def count(text: str, where: str) -> int:
    """The integer that `text` spells. Raises `InputError` for thousands of digits or none."""
    value = whole(text)
    if value is None:
        raise InputError(
            f"{text[:40]!r} is not a sensible whole number", where=where, fix="was the line damaged?"
        )
    return value


def real(text: str) -> float | None:
    """The finite number that `text` spells, or None."""
    if not _REAL.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def is_nothing(text: str) -> bool:
    """Whether the tool says that there is no value here: `N/A`, `nan`, `inf`."""
    return text.lower() in NOTHING


def scaled(value: float | None, factor: float) -> float | None:
    """The value in its base unit; None stays None."""
    return None if value is None else value * factor
