"""A `Fact`: one thing read from one machine, or the reason why it could not be read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.errors import InputError
from assay.units import BASE_UNITS

Value = float | int | str | bool

_SUBJECTS = ("node", "gpu", "port")
_FIELDS = ("subject", "key", "value", "unit", "reason", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The value of `key` for `subject`, read from `source` (a file or a call).

    `subject` is "node:<host>", "gpu:<host>/<index>" or "port:<host>/<device>[<port>]". `unit` is one of
    `BASE_UNITS`; names, states and yes/no carry "text". Exactly one of `value` and `reason` is there.
    """

    subject: str
    key: str
    value: Value | None
    unit: str
    reason: str | None
    source: str

    def __post_init__(self) -> None:
        if self.subject.partition(":")[0] not in _SUBJECTS:
            raise InputError(f"fact {self.key!r} has subject {self.subject!r}", fix=f"one of {_SUBJECTS}")
        if self.unit not in BASE_UNITS:
            raise InputError(f"fact {self.key!r} has unit {self.unit!r}, which is no base unit")
        if (self.value is None) != bool(self.reason):
            raise InputError(
                f"fact {self.key!r} has value {self.value!r} and reason {self.reason!r}: want one"
            )
        if isinstance(self.value, str | bool) != (self.unit == "text") and self.value is not None:
            raise InputError(f"fact {self.key!r} has value {self.value!r} with unit {self.unit!r}")
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise InputError(f"fact {self.key!r} has value {self.value!r}, which is not finite")


def known(subject: str, key: str, value: Value, unit: str, source: str) -> Fact:
    """A value that was read."""
    return Fact(subject=subject, key=key, value=value, unit=unit, reason=None, source=source)


def missing(subject: str, key: str, unit: str, reason: str, source: str) -> Fact:
    """A value that could not be read, and why."""
    return Fact(subject=subject, key=key, value=None, unit=unit, reason=reason, source=source)


def facts_to_json(facts: Iterable[Fact]) -> list[dict[str, Value | None]]:
    """Each fact as a flat object of scalars, ready for one line of JSON."""
    return [{name: getattr(fact, name) for name in _FIELDS} for fact in facts]


def facts_from_json(records: Iterable[Mapping[str, object]]) -> tuple[Fact, ...]:
    """The inverse of `facts_to_json`; raises `InputError` for a record that is no fact."""
    return tuple(_fact_from(record) for record in records)


def _fact_from(record: Mapping[str, object]) -> Fact:
    if set(record) != set(_FIELDS):
        raise InputError(f"a fact has the fields {sorted(_FIELDS)}, this one has {sorted(record)}")
    value, reason = record["value"], record["reason"]
    if not isinstance(value, float | int | str | bool | None):
        raise InputError(f"the value of a fact is a scalar or null, not {value!r}")
    if not isinstance(reason, str | None):
        raise InputError(f"the reason of a fact is a text or null, not {reason!r}")
    return Fact(
        subject=_text(record, "subject"),
        key=_text(record, "key"),
        value=value,
        unit=_text(record, "unit"),
        reason=reason,
        source=_text(record, "source"),
    )


def _text(record: Mapping[str, object], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise InputError(f"the {name} of a fact is a text, not {value!r}")
    return value
