"""Making facts, and writing them: one thing read from one machine, or the reason why it could not be read."""

from __future__ import annotations

from collections.abc import Iterable

from assay.domain.fact import Fact
from assay.domain.subject import Subject

__all__ = ["Fact", "Value", "facts_to_json", "known", "missing"]

Value = float | int | str | bool


def known(subject: str, key: str, value: Value, unit: str, source: str) -> Fact:
    """A value that was read; True and False are told as "yes" and "no"."""
    told = ("yes" if value else "no") if isinstance(value, bool) else value
    return Fact(key=key, subject=Subject.parse(subject), value=told, unit=unit, source=source)


def missing(subject: str, key: str, unit: str, reason: str, source: str) -> Fact:
    """A value that could not be read, and why."""
    return Fact(key=key, subject=Subject.parse(subject), value=None, unit=unit, reason=reason, source=source)


def facts_to_json(facts: Iterable[Fact]) -> list[dict[str, float | str | None]]:
    """Each fact as the object of one line of a run folder; `assay.codec.lines` reads it back."""
    return [_line(fact) for fact in facts]


def _line(fact: Fact) -> dict[str, float | str | None]:
    line: dict[str, float | str | None] = {
        "type": "fact",
        "key": fact.key,
        "subject": str(fact.subject),
        "value": fact.value,
        "unit": fact.unit,
    }
    return line | {name: text for name, text in (("reason", fact.reason), ("source", fact.source)) if text}
