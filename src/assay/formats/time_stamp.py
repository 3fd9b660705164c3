"""The time that a line of a log begins with, in seconds since the epoch; UTC where it names no zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_STAMP = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
#: A stamp stands at the beginning; what stands later is what the line speaks of.
_WITHIN = 60


def stamp_s(line: str) -> float | None:
    """`[2024-05-01 10:20:30]`, `2024-05-01T10:20:30.123Z`, `2024-05-01 10:20:30,123`; None without one."""
    found = _STAMP.search(line, 0, _WITHIN)
    if found is None:
        return None
    try:
        time = datetime.strptime(f"{found['day']} {found['clock']}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    part = float(f"0.{found['part']}") if found["part"] else 0.0
    return time.replace(tzinfo=_zone(found["zone"])).timestamp() + part


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
