"""Something that happened at a time, to a subject, while a run or a job went on."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.domain.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Kind (`task_started`, `rank_lost`, …), subject, seconds since the epoch, and plain details."""

    kind: str
    time_s: float
    subject: Subject
    text: str = ""
    details: dict[str, str | int | float | None] = field(default_factory=dict)
    source: str = ""
