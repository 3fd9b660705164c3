"""Slow and lossy links between a few nodes over ordinary sockets: hosts first, then single pairs.

The best restart of each link counts, because others' load only ever makes a link look worse. A host is
named when every one of its links is bad while the rest is not; then it is taken out, and the search goes on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.quantity import Better
from assay.domain.reading import Reading
from assay.domain.subject import Subject
from assay.judge.families import Family

#: A link between nodes is slow beyond these factors: minima of round trips differ by up to 1.8 between
#: clean runs over sockets, and the rate of a single link by up to 2.2 where hosts share processors.
RATE_FACTOR = 3.0
LATENCY_FACTOR = 3.0
#: Part of the segments sent again, in every restart, from which on a link loses. A busy processor makes the
#: kernel send a few again that were only late.
LOSS_FRAC = 1e-3

#: What each directed link costs: a time, or one over a rate; (from, to) -> cost.
Costs = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A host's links (`far` is `*`), or one; `out`, `into` or both ways; how often slower than the rest."""

    near: str
    far: str
    out: bool
    into: bool
    factor: float

    @property
    def subject(self) -> Subject:
        """`link:h2>*`, `link:*>h2`, `pair:h1|h3` or `link:h1>h3`."""
        if self.out and self.into and self.far != "*":
            return Subject("pair", f"{self.near}|{self.far}")
        ends = (self.near, self.far) if self.out else (self.far, self.near)
        return Subject("link", ">".join(ends))

    @property
    def code(self) -> str:
        """Both ways or one."""
        return "LINK_SLOW" if self.out and self.into else "LINK_SLOW_ONE_WAY"


def between_nodes(family: Family) -> bool:
    """Whether a family is about links between nodes."""
    return family.recipe.get("span") == "nodes"


def find_slow_links(families: Iterable[Family]) -> list[Finding]:
    """Links, directions and pairs that are slow, and links that lose; at least three nodes are needed."""
    families = list(families)
    lossy = [
        f for family in families if family.quantity.id == "network.tcp_retransmits" for f in _lossy(family)
    ]
    slow: dict[Subject, Finding] = {}
    for family in sorted(filter(between_nodes, families), key=lambda family: family.quantity.id):
        if family.quantity.id == "peer.bidirectional_bandwidth" or len(family.readings) < 3:
            continue
        limit = RATE_FACTOR if family.quantity.better is Better.HIGHER else LATENCY_FACTOR
        if family.recipe.get("statistic") == _statistic(family, families):
            for found in slow_links(_costs(family), limit):
                slow.setdefault(found.subject, _slow_finding(found, family, lossy))
    return [*_once(lossy), *slow.values()]


def _statistic(family: Family, families: Iterable[Family]) -> str:
    """By what a link is judged: what the way itself takes or gives, or else the median."""
    itself, usual = ("max", "median") if family.quantity.better is Better.HIGHER else ("min", "p50")
    recorded = (f.recipe.get("statistic") == itself for f in families if f.quantity.id == family.quantity.id)
    return itself if any(recorded) else usual


def _costs(family: Family) -> Costs:
    """The best restart of each link; what is told of a pair holds both ways."""
    costs: dict[tuple[str, str], float] = {}
    for reading, values in zip(family.readings, family.values, strict=True):
        near, far = reading.subject.ends
        best = 1 / max(values) if family.quantity.better is Better.HIGHER else min(values)
        costs[near, far] = float(best)
        if reading.subject.kind == "pair":
            costs[far, near] = float(best)
    return costs


def slow_links(costs: Costs, limit: float) -> list[Slow]:
    """What is slower than the median of what is left by more than `limit` times, hosts before pairs."""
    left, found = dict(costs), list[Slow]()
    while True:
        usual = statistics.median(left.values()) if left else math.inf
        hosts = {host for ends in left for host in ends}
        candidates = [host for host in hosts if len(hosts) > 2 and _is_slow(host, left, limit)]
        if not candidates:
            return found + _single(left, usual * limit, usual)
        worst = max(candidates, key=lambda host: _weight(host, left))
        found.append(_host(worst, left, limit))
        left = {ends: cost for ends, cost in left.items() if worst not in ends}


def _is_slow(host: str, costs: Costs, limit: float) -> bool:
    out, into, usual = _split(host, costs)
    return bool(out and into) and (min(out) > limit * usual or min(into) > limit * usual)


def _split(host: str, costs: Costs) -> tuple[list[float], list[float], float]:
    """Costs out of the host, into it, and the usual cost among the others."""
    out = [cost for (near, _), cost in costs.items() if near == host]
    into = [cost for (_, far), cost in costs.items() if far == host]
    others = [cost for ends, cost in costs.items() if host not in ends]
    return out, into, statistics.median(others) if others else math.inf


def _weight(host: str, costs: Costs) -> float:
    out, into, usual = _split(host, costs)
    return max(min(out), min(into)) / usual


def _host(host: str, costs: Costs, limit: float) -> Slow:
    out, into, usual = _split(host, costs)
    return Slow(
        near=host,
        far="*",
        out=min(out) > limit * usual,
        into=min(into) > limit * usual,
        factor=max(statistics.median(out), statistics.median(into)) / usual,
    )


def _single(costs: Costs, bound: float, usual: float) -> list[Slow]:
    slow = {ends for ends, cost in costs.items() if cost > bound}
    found = []
    for near, far in sorted(slow):
        both = (far, near) in slow
        if not both or near < far:
            factor = costs[near, far] / usual
            found.append(Slow(near=near, far=far, out=True, into=both, factor=factor))
    return found


def _slow_finding(found: Slow, family: Family, lossy: Iterable[Finding]) -> Finding:
    """A lossy link is slow because it loses."""
    follows = any(set(loss.subject.ends) & {found.near} for loss in lossy)
    departure = found.factor - 1 if family.quantity.better is Better.LOWER else 1 / found.factor - 1
    return Finding(
        code=found.code,
        severity=Severity.HIGH,
        subject=found.subject,
        because=Message.of(
            "because.slower_than_siblings",
            deviation_frac=departure,
            quantity=family.quantity.id,
            recipe=str(family.recipe),
            subjects=len(family.readings),
            n=1,
        ),
        evidence=_evidence(found.near, found.far, family),
        follows_from="LINK_LOSS" if follows else None,
    )


def _evidence(near: str, far: str, family: Family) -> tuple[Evidence, ...]:
    wanted = {near} if far == "*" else {near, far}
    readings: list[Reading] = [r for r in family.readings if wanted <= set(r.subject.ends)]
    return tuple(
        Evidence.at(r.source, f"{family.quantity.id} of {r.subject}: {r.number:.3g} {family.quantity.unit}")
        for r in readings[:5]
    )


def _lossy(family: Family) -> list[Finding]:
    """Hosts all of whose links send again, else single pairs; a pair's worse direction counts."""
    again: dict[tuple[str, str], float] = {}
    for reading, values in zip(family.readings, family.values, strict=True):
        near, far = reading.subject.ends
        for ends in ((near, far), (far, near)):
            again[ends] = max(again.get(ends, 0.0), float(min(values)))
    hosts = sorted({host for ends in again for host in ends})
    bad = {ends for ends, frac in again.items() if frac > LOSS_FRAC}
    found = []
    for host in sorted(hosts, key=lambda host: -sum(again.get((host, other), 0.0) for other in hosts)):
        mine = {ends for ends in again if ends[0] == host}
        if len(mine) > 1 and mine <= bad:
            found.append(Subject("link", f"{host}>*"))
            bad = {ends for ends in bad if host not in ends}
            again = {ends: frac for ends, frac in again.items() if host not in ends}
    found += [Subject("pair", "|".join(ends)) for ends in sorted(bad) if ends[0] < ends[1]]
    return [_loss_finding(subject, family) for subject in found]


def _loss_finding(subject: Subject, family: Family) -> Finding:
    near, far = subject.ends
    wanted = {near} if far == "*" else {near, far}
    most = max(r.number or 0.0 for r in family.readings if wanted <= set(r.subject.ends))
    return Finding(
        code="LINK_LOSS",
        severity=Severity.HIGH,
        subject=subject,
        because=Message.of("because.loss", loss_frac=most, bound_frac=LOSS_FRAC),
        evidence=_evidence(near, far, family),
    )


def _once(findings: Iterable[Finding]) -> list[Finding]:
    return list({finding.subject: finding for finding in findings}.values())
