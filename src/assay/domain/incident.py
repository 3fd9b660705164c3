"""An incident: the findings of one cause, from the first sign to the recovery."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from assay.domain.finding import Finding, Severity
from assay.domain.subject import Subject
from assay.errors import InputError


class Step(str, Enum):
    """What happened to an incident; each is one line of the ledger."""

    OPENED = "opened"
    JOINED = "joined"
    ESCALATED = "escalated"
    ACKNOWLEDGED = "acknowledged"
    RECOVERED = "recovered"
    RELAPSED = "relapsed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Findings, the likeliest cause first. `recovered_s` is when the last of them was over.

    `nodes` are those that it touches; `coincides` are ids of incidents of the same time, which may or may
    not have to do with it. `level` counts how often it was escalated.
    """

    id: str
    opened_s: float
    findings: tuple[Finding, ...]
    nodes: tuple[str, ...] = ()
    acknowledged_s: float | None = None
    recovered_s: float | None = None
    closed_s: float | None = None
    level: int = 0
    coincides: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.findings:
            raise InputError(f"incident {self.id} has no finding")
        for name in ("acknowledged_s", "recovered_s", "closed_s"):
            value = getattr(self, name)
            if value is not None and value < self.opened_s:
                raise InputError(f"incident {self.id}: {name} {value} is before {self.opened_s}")

    @property
    def lead(self) -> Finding:
        """The likeliest cause."""
        return self.findings[0]

    @property
    def code(self) -> str:
        """The code of the likeliest cause."""
        return self.lead.code

    @property
    def subject(self) -> Subject:
        """What the likeliest cause is about."""
        return self.lead.subject

    @property
    def severity(self) -> Severity:
        """The worst of its findings."""
        return min((f.severity for f in self.findings), key=lambda severity: severity.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step of one incident, and the incident after it."""

    step: Step
    time_s: float
    incident: Incident
