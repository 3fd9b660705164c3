"""Whether what was measured of a fabric went over it: by the bytes that each node's devices counted."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.subject import Subject

QUANTITY = "network.counted_share"
#: Of the bytes that had to leave a node, the part that must have been counted. Counters are read a moment
#: before and after, and lag by milliseconds.
_COUNTED_FRAC = 0.9
#: Transports that use RDMA where there is any.
_RDMA_TRANSPORTS = ("nccl", "rccl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The readings, those without a proof of their way made not measured; and why, as findings."""

    readings: tuple[Reading, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One node in one benchmark: shares counted, None where nothing counts."""

    node: str
    benchmark: str
    rdma: float | None
    netdev: float | None
    can_rdma: bool
    source: str

    @property
    def code(self) -> str | None:
        """What is wrong, if anything is."""
        rdma, netdev = self.rdma or 0.0, self.netdev or 0.0
        if rdma >= _COUNTED_FRAC:
            return None
        if netdev >= _COUNTED_FRAC:
            return "TRANSPORT_SOCKETS" if self.can_rdma and self.rdma is not None else None
        return "TRANSPORT_UNATTESTED"


def attest(readings: Sequence[Reading]) -> Carried:
    """Take the value from every fabric reading whose bytes were not counted where they should be.

    Readings of runs that counted nothing, as recorded before or imported, are left as they are.
    """
    bad = [case for case in _cases(readings) if case.code]
    if not bad:
        return Carried(readings=tuple(readings))
    reasons = {(case.benchmark, case.node): _reason(case) for case in bad}
    return Carried(
        readings=tuple(_without_proof(reading, reasons) for reading in readings),
        findings=tuple(_findings(bad)),
    )


def _cases(readings: Iterable[Reading]) -> Iterable[_Case]:
    counted: dict[tuple[str, str, str], dict[str, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    for r in readings:
        if r.quantity == QUANTITY and r.origin is Origin.MEASURED:
            told = r.recipe.as_dict()
            key = (str(told.get("benchmark")), r.subject.name, str(told.get("transport")))
            counted[key][str(told.get("over"))].append(r)
    for (benchmark, node, transport), over in counted.items():
        yield _Case(
            node=node,
            benchmark=benchmark,
            rdma=_share(over["rdma"]),
            netdev=_share(over["netdev"]),
            can_rdma=transport in _RDMA_TRANSPORTS,
            source=next((r.source for rs in over.values() for r in rs), ""),
        )


def _share(readings: Iterable[Reading]) -> float | None:
    values = [r.number for r in readings if r.number is not None]
    return statistics.median(values) if values else None


def _reason(case: _Case) -> str:
    if case.code == "TRANSPORT_SOCKETS":
        return f"node {case.node} has RDMA ports, but its bytes went over sockets"
    most = max(case.rdma or 0.0, case.netdev or 0.0)
    return f"node {case.node} counted {100 * most:.0f} % of what had to leave it"


def _without_proof(reading: Reading, reasons: dict[tuple[str, str], str]) -> Reading:
    reason = None
    if reading.quantity.endswith(".choice"):
        return reading  # what was chosen holds, whichever way the bytes went
    if reading.quantity.startswith("collective."):
        reason = next((text for (benchmark, _), text in reasons.items() if benchmark == "collectives"), None)
    elif reading.quantity.startswith("leaf."):
        reason = next((text for (benchmark, _), text in reasons.items() if benchmark == "groups"), None)
    elif reading.quantity.startswith("peer.") and reading.recipe.get("span") == "nodes":
        benchmark = "pairs_alone" if reading.recipe.get("load") == "alone" else "pairs"
        found = (reasons.get((benchmark, end)) for end in reading.subject.ends)
        reason = next((text for text in found if text), None)
    if reason is None or reading.value is None or reading.origin is not Origin.MEASURED:
        return reading
    return dataclasses.replace(
        reading, value=None, reason=reason, low=None, high=None, samples=None, cpu_share_frac=None
    )


def _findings(bad: Iterable[_Case]) -> Iterable[Finding]:
    grouped: dict[tuple[str, str], list[_Case]] = defaultdict(list)
    for case in bad:
        grouped[case.code or "", case.node].append(case)
    for (code, node), cases in sorted(grouped.items()):
        worst = min(cases, key=lambda case: max(case.rdma or 0.0, case.netdev or 0.0))
        yield Finding(
            code=code,
            severity=Severity.HIGH,
            subject=Subject("node", node),
            because=Message.of(
                f"because.{code.lower()}",
                benchmarks=", ".join(case.benchmark for case in cases),
                rdma_frac=worst.rdma or 0.0,
                netdev_frac=worst.netdev or 0.0,
            ),
            evidence=tuple(Evidence.at(case.source, f"{QUANTITY} in {case.benchmark}") for case in cases[:5]),
        )
