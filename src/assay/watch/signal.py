"""What a detector says: a finding that holds from now on, or no longer."""

from __future__ import annotations

from dataclasses import dataclass

from assay.catalog.findings import finding as kind_of
from assay.domain.event import Event
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message, MessageValue
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.errors import InputError

#: What a detector is fed with, in order of time.
Item = Event | Samples
#: (finding code, subject): one signal of each stands at a time.
Key = tuple[str, Subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A finding at a time. `on` false takes it back.

    `lasts_s` is for what happens in a moment and is never taken back, such as an Xid: so long it counts.
    """

    time_s: float
    finding: Finding
    on: bool = True
    lasts_s: float | None = None

    def __post_init__(self) -> None:
        if self.lasts_s is not None and self.lasts_s <= 0:
            raise InputError(f"{self.finding.code}: lasts {self.lasts_s} s")

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.finding.code, self.finding.subject


def raised(
    code: str,
    subject: Subject,
    time_s: float,
    because: str,
    /,
    *,
    severity: Severity | None = None,
    sure: float = 0.9,
    proof: Evidence | None = None,
    lasts_s: float | None = None,
    **values: MessageValue,
) -> Signal:
    """A signal that something is wrong; `because` names a message under `watch.because`."""
    return Signal(
        time_s=time_s,
        lasts_s=lasts_s,
        finding=Finding(
            code=code,
            severity=severity or kind_of(code).severity,
            subject=subject,
            confidence_frac=sure,
            because=Message.of(f"watch.because.{because}", **values),
            evidence=(proof,) if proof else (),
        ),
    )


def over(code: str, subject: Subject, time_s: float) -> Signal:
    """A signal that it is right again."""
    return Signal(
        time_s=time_s,
        on=False,
        finding=Finding(
            code=code,
            severity=Severity.INFO,
            subject=subject,
            because=Message("watch.because.over"),
        ),
    )


def seen(event: Event) -> Evidence:
    """The line that an event was read from, as evidence."""
    file, _, line = event.source.rpartition(":")
    known = bool(file) and line.isdigit()
    return Evidence(
        file=file if known else event.source or event.kind,
        line=int(line) if known else None,
        text=event.text[:400] or event.kind,
    )
