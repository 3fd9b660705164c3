"""Events in, incidents out: detectors speak, and what belongs together becomes one incident.

Pure: it reads no clock and no file, so that a recorded day gives the same incidents as the day itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.catalog.findings import finding as kind_of
from assay.domain.event import Event
from assay.domain.finding import Finding, Severity
from assay.domain.incident import Change, Incident, Step
from assay.domain.message import Message
from assay.watch.causes import APART, explains, is_symptom, place
from assay.watch.places import Places
from assay.watch.registry import TICK, Bench
from assay.watch.settings import Settings
from assay.watch.signal import Item, Key, Signal, seen


@dataclass(slots=True)
class _Open:
    """An incident that is not closed; `standing` are its findings that hold, with the time until when."""

    incident: Incident
    touched: frozenset[str]
    last_s: float
    standing: dict[Key, float] = field(default_factory=dict)
    raised_s: float = 0.0

    @property
    def explains(self) -> bool:
        """Whether a symptom may follow from it."""
        return explains(self.incident.code) and self.incident.severity.rank <= Severity.MEDIUM.rank


class Machine:
    """Feed it items in order of time (`Order` sees to that); it gives the changes of incidents."""

    def __init__(self, settings: Settings | None = None, places: Places | None = None) -> None:
        self.settings = settings or Settings()
        self.places = places or Places()
        self._bench = Bench(self.settings)
        self._open: dict[str, _Open] = {}
        self._of_key: dict[Key, str] = {}

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Those that are not closed, oldest first."""
        return tuple(one.incident for one in self._open.values())

    def feed(self, item: Item) -> Iterator[Change]:
        """Changes that follow from one more item."""
        for signal in self._bench.feed(item):
            yield from self._take(signal)
        if isinstance(item, Event):
            self.places.learn(item)
            if item.kind == "acknowledged":
                yield from self._acknowledge(str(item.details.get("incident", "")), item.time_s)
            elif item.kind == "diagnosed":
                yield from self._diagnosed(item)
            elif item.kind == TICK:
                yield from self._time(item.time_s)

    def _take(self, signal: Signal) -> Iterator[Change]:
        known = self._open.get(self._of_key.get(signal.key, ""))
        if not signal.on:
            if known:
                known.standing.pop(signal.key, None)
                yield from self._recovered(known, signal.time_s)
            return
        until_s = signal.time_s + signal.lasts_s if signal.lasts_s else math.inf
        if known:
            again = signal.key not in known.standing
            known.standing[signal.key] = max(until_s, known.standing.get(signal.key, 0.0))
            known.last_s = signal.time_s
            yield from self._relapsed(known, signal, again=again)
            return
        if signal.finding.severity is Severity.INFO:
            return
        touched = self.places.touched(signal.finding.subject)
        home = self._home(signal, touched)
        if home is None:
            yield self._opened(signal, touched, until_s)
        else:
            yield from self._joined(home, signal, touched, until_s)

    def _home(self, signal: Signal, touched: frozenset[str]) -> _Open | None:
        """The open incident that this signal belongs to, or None."""
        finding, join_s = signal.finding, self.settings.join_s
        if finding.code in APART:
            apart = (one for one in self._open.values() if one.incident.code in APART)
            return next((one for one in apart if one.incident.subject == finding.subject), None)
        near = [
            one
            for one in self._open.values()
            if signal.time_s - one.last_s <= join_s and one.incident.code not in APART
        ]
        for one in self._open.values():
            same = any(subject == finding.subject for _, subject in one.standing)
            if one.incident.code not in APART and (same or (touched & one.touched and one in near)):
                return one
        if is_symptom(finding):
            causes = [one for one in near if one.explains]
            causes.sort(key=lambda one: (place(one.incident.code), one.incident.opened_s))
            alike = [one for one in near if is_symptom(one.incident.lead)]
            return next(iter([*causes, *alike]), None)
        if explains(finding.code) and finding.severity.rank <= Severity.MEDIUM.rank:
            return next((one for one in near if is_symptom(one.incident.lead)), None)
        return None

    def _opened(self, signal: Signal, touched: frozenset[str], until_s: float) -> Change:
        finding = signal.finding
        name = f"{finding.code}|{finding.subject}|{signal.time_s:.3f}"
        coincides = tuple(self._open) if finding.code in APART else ()
        incident = Incident(
            id=hashlib.sha256(name.encode()).hexdigest()[:12],
            opened_s=signal.time_s,
            findings=(finding,),
            nodes=tuple(sorted(touched)),
            coincides=coincides,
        )
        self._open[incident.id] = _Open(
            incident=incident,
            touched=touched,
            last_s=signal.time_s,
            standing={signal.key: until_s},
            raised_s=signal.time_s,
        )
        self._of_key[signal.key] = incident.id
        return Change(step=Step.OPENED, time_s=signal.time_s, incident=incident)

    def _joined(
        self, home: _Open, signal: Signal, touched: frozenset[str], until_s: float
    ) -> Iterator[Change]:
        before = home.incident
        home.standing[signal.key] = until_s
        home.last_s = signal.time_s
        home.touched |= touched
        self._of_key[signal.key] = before.id
        home.incident = dataclasses.replace(
            before,
            findings=_ranked((*before.findings, signal.finding)),
            nodes=tuple(sorted(home.touched)),
            recovered_s=None,
        )
        yield Change(step=Step.JOINED, time_s=signal.time_s, incident=home.incident)
        if home.incident.severity.rank < before.severity.rank:
            yield self._escalated(home, signal.time_s)

    def _relapsed(self, one: _Open, signal: Signal, *, again: bool) -> Iterator[Change]:
        """The same finding: it is kept once, with its newest words; `again` when it had been over."""
        kept = tuple(f for f in one.incident.findings if (f.code, f.subject) != signal.key)
        worse = signal.finding.severity.rank < one.incident.severity.rank
        one.incident = dataclasses.replace(
            one.incident, findings=_ranked((*kept, signal.finding)), recovered_s=None
        )
        if again:
            yield Change(step=Step.RELAPSED, time_s=signal.time_s, incident=one.incident)
        if worse:
            yield self._escalated(one, signal.time_s)

    def _escalated(self, one: _Open, time_s: float) -> Change:
        one.incident = dataclasses.replace(one.incident, level=one.incident.level + 1)
        one.raised_s = time_s
        return Change(step=Step.ESCALATED, time_s=time_s, incident=one.incident)

    def _recovered(self, one: _Open, time_s: float) -> Iterator[Change]:
        if one.standing or one.incident.recovered_s is not None:
            return
        one.last_s = time_s
        one.incident = dataclasses.replace(one.incident, recovered_s=time_s)
        yield Change(step=Step.RECOVERED, time_s=time_s, incident=one.incident)

    def _acknowledge(self, incident: str, time_s: float) -> Iterator[Change]:
        one = self._open.get(incident)
        if one and one.incident.acknowledged_s is None:
            one.incident = dataclasses.replace(one.incident, acknowledged_s=time_s)
            yield Change(step=Step.ACKNOWLEDGED, time_s=time_s, incident=one.incident)

    def _diagnosed(self, event: Event) -> Iterator[Change]:
        """What the doctor found in the logs of an incident; it explains, and does not keep it open."""
        one = self._open.get(str(event.details.get("incident", "")))
        code, sure = str(event.details.get("code", "")), event.details.get("sure")
        if one is None or any(f.code == code for f in one.incident.findings):
            return
        finding = Finding(
            code=code,
            severity=kind_of(code).severity,
            subject=event.subject,
            because=Message(f"finding.{code}.why"),
            confidence_frac=float(sure) if isinstance(sure, float | int) else 0.5,
            evidence=(seen(event),),
        )
        one.incident = dataclasses.replace(one.incident, findings=_ranked((*one.incident.findings, finding)))
        yield Change(step=Step.JOINED, time_s=event.time_s, incident=one.incident)

    def _time(self, now_s: float) -> Iterator[Change]:
        """Let what was momentary pass, close what has recovered, escalate what nobody takes."""
        for one in list(self._open.values()):
            for key in [key for key, until_s in one.standing.items() if until_s <= now_s]:
                del one.standing[key]
            yield from self._recovered(one, now_s)
            incident = one.incident
            if incident.recovered_s is not None and now_s - incident.recovered_s >= self.settings.close_s:
                yield self._closed(one, now_s)
            elif (
                incident.recovered_s is None
                and incident.acknowledged_s is None
                and incident.severity.rank <= Severity.HIGH.rank
                and now_s - one.raised_s >= self.settings.escalate_s * 2**incident.level
            ):
                yield self._escalated(one, now_s)

    def _closed(self, one: _Open, now_s: float) -> Change:
        one.incident = dataclasses.replace(one.incident, closed_s=now_s)
        del self._open[one.incident.id]
        for key in [key for key, home in self._of_key.items() if home == one.incident.id]:
            del self._of_key[key]
        return Change(step=Step.CLOSED, time_s=now_s, incident=one.incident)


def _ranked(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The likeliest cause first; what it explains says so."""
    ordered = sorted(findings, key=lambda f: (place(f.code), f.severity.rank))
    lead = ordered[0]
    return (
        dataclasses.replace(lead, follows_from=None),
        *(dataclasses.replace(f, follows_from=lead.code) for f in ordered[1:]),
    )
