"""Naming what is odd: cards, nodes, links and clocks that depart from their siblings, and lost ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.quantity import Better, Quantity, Scope
from assay.domain.subject import Subject
from assay.judge.bounds import odd_ones
from assay.judge.doubt import Doubt
from assay.judge.families import Family, Measured
from assay.judge.links import between_nodes, find_slow_links


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Effects that matter, as fractions, by the first part of a quantity id; smaller ones are not named.

    5 % for compute and memory: SuperBench's documented defect rule. 20 % for links and 50 % for latencies:
    host networks of healthy machines differ that much between runs. `starved_frac` is the share of the
    siblings' CPU time below which a rank is called starved.
    """

    effect_frac: Mapping[str, float] = field(
        default_factory=lambda: {
            "gemm": 0.05,
            "memory": 0.05,
            "kernel": 0.10,
            "host_device": 0.05,
            "peer": 0.20,
        }
    )
    latency_frac: float = 0.5
    starved_frac: float = 0.7
    clock_offset_s: float = 1e-3


_SLOW_CODE = {
    Scope.GPU: "GPU_SLOW",
    Scope.NODE: "NODE_SLOW",
    Scope.LINK: "LINK_SLOW_ONE_WAY",
    Scope.PAIR: "LINK_SLOW",
}


def find_odd(
    measured: Measured,
    events: Iterable[Event],
    limits: Limits | None = None,
    *,
    told: Collection[Family] = (),
) -> tuple[Finding, ...]:
    """Findings about ranks, links and clocks, worst first; an empty tuple says that none is odd.

    `told` are families whose slow subjects another method has named already (`find_fleet`).
    """
    limits = limits or Limits()
    families = [family for group in measured.families.values() for family in group]
    found = [*_lost_ranks(events), *_starved(families, limits), *_clocks(families, limits)]
    starved = {finding.subject for finding in found if finding.code == "RANK_STARVED"}
    ids = {id(family) for family in told}
    open_ones = [family for family in families if id(family) not in ids]
    found += find_slow_links(open_ones)
    found += _slow([family for family in open_ones if not between_nodes(family)], limits, starved)
    return tuple(sorted(found, key=lambda f: (f.severity.rank, f.code, f.subject)))


def _slow(families: Iterable[Family], limits: Limits, starved: set[Subject]) -> list[Finding]:
    """One finding per subject, with every quantity in which it is slow as evidence.

    The error rate holds for all families together: with twenty of them, each is asked twenty times as much.
    """
    worst: dict[tuple[str, Subject], list[tuple[float, Family]]] = {}
    asked = [
        (family, limit)
        for family in families
        if (limit := limit_of(family.quantity, limits)) is not None and family.quantity.scope in _SLOW_CODE
    ]
    doubt = Doubt(alpha=Doubt().alpha / max(1, len(asked)))
    for family, limit in asked:
        for subject, departure in odd_ones(family, limit, doubt):
            slower = departure < 0 if family.quantity.better is Better.HIGHER else departure > 0
            if slower:
                key = (_SLOW_CODE[family.quantity.scope], subject)
                worst.setdefault(key, []).append((departure, family))
    return [_slow_finding(code, subject, evidence, starved) for (code, subject), evidence in worst.items()]


def _slow_finding(
    code: str, subject: Subject, slow: list[tuple[float, Family]], starved: set[Subject]
) -> Finding:
    departure, family = max(slow, key=lambda item: abs(item[0]))
    severity = Severity.MEDIUM if subject in starved else Severity.HIGH
    if family.recipe.get("threads") is not None and subject.kind == "rank":
        # Cores are shared with the operating system, and with a hypervisor's other guests.
        severity = Severity.LOW
    return Finding(
        code=code,
        severity=severity,
        subject=subject,
        because=Message.of(
            "because.slower_than_siblings",
            deviation_frac=departure,
            quantity=family.quantity.id,
            recipe=str(family.recipe),
            subjects=len(family.readings),
            n=len(slow),
        ),
        evidence=tuple(
            Evidence.at(source, text) for source, text in (_proof(subject, d, f) for d, f in slow[:5])
        ),
        follows_from="RANK_STARVED" if subject in starved else None,
    )


def _proof(subject: Subject, departure: float, family: Family) -> tuple[str, str]:
    reading = next(r for r in family.readings if r.subject == subject)
    return reading.source, f"{family.quantity.id} of {subject}: {departure:+.1%} against its siblings"


def limit_of(quantity: Quantity, limits: Limits) -> float | None:
    """The effect that matters for a quantity, or None where departures are not faults."""
    if quantity.better is Better.NEITHER or quantity.exact or quantity.id.endswith(".fluctuation"):
        return None
    if quantity.id.startswith("kernel.") and quantity.id.endswith(".time"):
        return None  # its bandwidth is the same reading
    if quantity.id == "peer.latency":
        return limits.latency_frac
    return limits.effect_frac.get(quantity.id.split(".")[0])


def _starved(families: Iterable[Family], limits: Limits) -> list[Finding]:
    """Ranks whose process got much less CPU time than its siblings' while computing on the CPU."""
    found: dict[Subject, Finding] = {}
    for family in families:
        if not family.quantity.id.startswith("gemm.") or family.quantity.better is not Better.HIGHER:
            continue
        shares = {r.subject: r.cpu_share_frac for r in family.readings if r.cpu_share_frac is not None}
        if len(shares) < 2 or family.recipe.get("threads") is None:
            continue
        best = max(shares.values())
        for subject, share in shares.items():
            if share < limits.starved_frac * best:
                found.setdefault(
                    subject,
                    Finding(
                        code="RANK_STARVED",
                        severity=Severity.HIGH,
                        subject=subject,
                        because=Message.of("because.starved", share_frac=share, best_frac=best),
                    ),
                )
    return list(found.values())


def _clocks(families: Iterable[Family], limits: Limits) -> list[Finding]:
    """Clocks whose offset is shown to exceed the bound."""
    return [
        Finding(
            code="CLOCK_OFFSET",
            severity=Severity.MEDIUM,
            subject=r.subject,
            because=Message.of(
                "because.clock_offset",
                offset_s=r.number,
                low_s=r.low,
                high_s=r.high,
                bound_s=limits.clock_offset_s,
                reference=str(family.recipe.get("reference") or ""),
            ),
        )
        for family in families
        if family.quantity.id == "clock.offset"
        for r in family.readings
        if r.low is not None
        and r.high is not None
        and (r.low > limits.clock_offset_s or r.high < -limits.clock_offset_s)
    ]


_LOST_CODE = {"rank_lost": "RANK_LOST", "rank_late": "RANK_STOPPED"}


def _lost_ranks(events: Iterable[Event]) -> list[Finding]:
    """Ranks that were killed, or that did not end by their deadline, with the events that say so."""
    by_rank: dict[tuple[str, Subject], list[Event]] = {}
    again: dict[Subject, list[Event]] = {}
    for event in events:
        if event.kind == "rank_retested":
            again.setdefault(event.subject, []).append(event)
        if event.kind in _LOST_CODE:
            by_rank.setdefault((_LOST_CODE[event.kind], event.subject), []).append(event)
    return [
        Finding(
            code=code,
            severity=Severity.CRITICAL,
            subject=subject,
            because=_because_lost(events),
            evidence=tuple(
                Evidence.at(e.source, f"{e.kind}: {e.text}") for e in (*events[:5], *again.get(subject, ()))
            ),
        )
        for (code, subject), events in by_rank.items()
    ]


def _because_lost(events: list[Event]) -> Message:
    """What is told of the first loss; one between benchmarks, or before the first, belongs to none."""
    text, benchmark = events[0].text, events[0].details.get("benchmark")
    if benchmark is None:
        return Message.of("because.rank_absent", text=text)
    return Message.of("because.rank_lost", text=text, benchmark=str(benchmark), n=len(events))
