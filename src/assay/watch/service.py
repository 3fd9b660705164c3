"""The books folded: availability, no-disconnect rates, response times, goodput, and a contract's credit."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assay.catalog.findings import finding as kind_of
from assay.domain.contract import Terms
from assay.domain.finding import Severity
from assay.domain.incident import Change, Incident
from assay.domain.ledger import Entry, JobTime, Recovery, Session, Spent, Taken, Watched
from assay.errors import InputError

Span = tuple[float, float]
#: Findings with which a node is out of service, whatever their severity in the catalogue.
_DOWN = frozenset({"NODE_DOWN", "GPU_LOST", "GPU_XID_79", "GPU_ROW_REMAP_FAILURE", "IB_PORT_DOWN"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the books say of a window. A share is None where nothing was watched, with nothing to divide by.

    `node_frac` is the mean over nodes, `job_frac` the share of time in which all of them were up: a job over
    all nodes needs the latter. `allowed_down_s` is what the promised availability leaves of the window.
    """

    from_s: float
    to_s: float
    watched_s: float
    nodes: int
    node_frac: float | None
    job_frac: float | None
    down_s: float
    allowed_down_s: float
    expected_job_frac: float | None
    by_time_frac: float | None
    by_session_frac: float | None
    by_node_frac: float | None
    sessions: int
    incidents: tuple[Incident, ...]
    acknowledged_s: float | None
    recovered_s: float | None
    spent: Spent
    credit_frac: float | None
    credit: float | None
    recoveries: tuple[Recovery, ...] = ()
    actions: tuple[Taken, ...] = ()


def incidents_of(entries: Iterable[Entry]) -> tuple[Incident, ...]:
    """Each incident as its last change left it, oldest first.

    Incidents of one code and subject that overlap are one, seen by two watchers: the earliest opening, the
    latest recovery.
    """
    last: dict[str, Incident] = {}
    for entry in entries:
        if isinstance(entry, Change):
            last[entry.incident.id] = entry.incident
    alike: dict[tuple[str, str], list[Incident]] = defaultdict(list)
    for incident in sorted(last.values(), key=lambda i: (i.opened_s, i.id)):
        group = alike[incident.code, str(incident.subject)]
        if group and _end_s(group[-1]) >= incident.opened_s:
            group[-1] = _merged(group[-1], incident)
        else:
            group.append(incident)
    return tuple(sorted((i for g in alike.values() for i in g), key=lambda i: (i.opened_s, i.id)))


def fold(
    entries: Sequence[Entry], *, from_s: float, to_s: float, terms: Terms, nodes: Sequence[str] = ()
) -> Service:
    """The books of the window. `nodes` are those of the contract; by default those that were watched."""
    if to_s <= from_s:
        raise InputError(f"the window ends at {to_s} s, before it begins at {from_s} s")
    window = (from_s, to_s)
    watched = _watched(entries, window)
    names = tuple(sorted(set(nodes) or {name for e in entries if isinstance(e, Watched) for name in e.nodes}))
    incidents = tuple(i for i in incidents_of(entries) if i.opened_s < to_s and _end_s(i) > from_s)
    down = {name: _union(_down_of(name, incidents, window)) for name in names}
    watched_s = _length(watched)
    lost = {name: _length(_common(spans, watched)) for name, spans in down.items()}
    any_s = _length(_common(_union([span for spans in down.values() for span in spans]), watched))
    node_frac = _share(watched_s * len(names) - sum(lost.values()), watched_s * len(names))
    job_frac = _share(watched_s - any_s, watched_s)
    sessions = _sessions(entries, window)
    counted = node_frac if terms.basis == "node" else job_frac
    credit_frac = None if counted is None else terms.credit_frac(counted)
    return Service(
        from_s=from_s,
        to_s=to_s,
        watched_s=watched_s,
        nodes=len(names),
        node_frac=node_frac,
        job_frac=job_frac,
        down_s=sum(lost.values()),
        allowed_down_s=(1 - terms.available_frac) * (to_s - from_s),
        expected_job_frac=all_up_frac(terms.available_frac, len(names)) if names else None,
        by_time_frac=job_frac,
        by_session_frac=_share(sum(not s.broken for s in sessions), len(sessions)),
        by_node_frac=_share(sum(not spans for spans in down.values()), len(names)) if watched_s else None,
        sessions=len(sessions),
        incidents=incidents,
        acknowledged_s=_median([i.acknowledged_s - i.opened_s for i in incidents if i.acknowledged_s]),
        recovered_s=_median([i.recovered_s - i.opened_s for i in incidents if i.recovered_s]),
        spent=_spent(entries, window),
        credit_frac=credit_frac,
        credit=None if credit_frac is None or terms.fee is None else credit_frac * terms.fee,
        recoveries=tuple(e for e in entries if isinstance(e, Recovery) and from_s <= e.time_s < to_s),
        actions=tuple(e for e in entries if isinstance(e, Taken) and from_s <= e.time_s < to_s),
    )


def all_up_frac(node_frac: float, nodes: int) -> float:
    """The share of time in which all of `nodes` independent nodes are up: 125 at 99.9 % give 88.2 %."""
    return node_frac**nodes


def takes_down(incident: Incident) -> bool:
    """Whether the nodes of an incident are out of service while it lasts."""
    return any(
        f.code in _DOWN
        or (f.severity is Severity.CRITICAL and kind_of(f.code).scope.value in ("gpu", "node", "port"))
        for f in incident.findings
        if f.follows_from is None
    )


def _down_of(name: str, incidents: Iterable[Incident], window: Span) -> list[Span]:
    return [
        (max(i.opened_s, window[0]), min(_end_s(i), window[1]))
        for i in incidents
        if name in i.nodes and takes_down(i)
    ]


def _end_s(incident: Incident) -> float:
    return incident.recovered_s if incident.recovered_s is not None else math.inf


def _merged(a: Incident, b: Incident) -> Incident:
    acknowledged = [t for t in (a.acknowledged_s, b.acknowledged_s) if t is not None]
    ended = a.recovered_s is not None and b.recovered_s is not None
    return replace(
        a,
        acknowledged_s=min(acknowledged) if acknowledged else None,
        recovered_s=max(a.recovered_s or 0, b.recovered_s or 0) if ended else None,
        closed_s=max(a.closed_s or 0, b.closed_s or 0) if a.closed_s and b.closed_s else None,
        nodes=tuple(sorted({*a.nodes, *b.nodes})),
    )


def _watched(entries: Iterable[Entry], window: Span) -> list[Span]:
    spans = [(e.from_s, e.to_s) for e in entries if isinstance(e, Watched)]
    return _common(_union(spans), [window])


def _sessions(entries: Iterable[Entry], window: Span) -> list[Session]:
    """Each session once; one of the same job that overlaps was told by another watcher."""
    last: dict[tuple[str, float], Session] = {}
    for e in entries:
        if isinstance(e, Session):
            last[e.job, e.started_s] = e
    kept: list[Session] = []
    for session in sorted(last.values(), key=lambda s: (s.job, s.started_s)):
        before = kept[-1] if kept and kept[-1].job == session.job else None
        overlaps = before is not None and session.started_s < (before.ended_s or math.inf)
        if not overlaps and session.started_s < window[1] and (session.ended_s or math.inf) > window[0]:
            kept.append(session)
    return kept


def _spent(entries: Iterable[Entry], window: Span) -> Spent:
    total = Spent()
    for e in entries:
        if isinstance(e, JobTime) and window[0] <= e.from_s < window[1]:
            total = total.plus(e.spent)
    return total


def _union(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > begin:
            merged.append((begin, end))
    return merged


def _common(a: Sequence[Span], b: Sequence[Span]) -> list[Span]:
    """What two sorted lists of disjoint spans have in common."""
    found, i, j = list[Span](), 0, 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            found.append((begin, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def _length(spans: Iterable[Span]) -> float:
    return sum(end - begin for begin, end in spans)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None
