"""Whether what was measured of a fabric went over it: what each node told and its devices counted."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay.domain.attestation import Attestation, Attested, Standing
from assay.domain.event import Event
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.subject import CLUSTER, Subject
from assay.judge.transport_cases import Case, Key, cases_of, cases_of_shares
from assay.judge.transport_results import attested_results, benchmark_of, texts_of_calls
from assay.units import show

_CODES = {Standing.SOCKETS: "TRANSPORT_SOCKETS", Standing.UNATTESTED: "TRANSPORT_UNATTESTED"}
#: Results of a fabric; what else crosses it, as a training step does, keeps its value beside its attestation.
_FABRIC = ("collective.", "leaf.", "peer.")
_EVIDENCE_MOST = 5
#: By benchmark and restart, then by node: what has no proof.
_Bad = dict[tuple[str | None, int], dict[str, Case]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The readings, those without a proof of their way not measured; why, as findings; and the proofs."""

    readings: tuple[Reading, ...]
    findings: tuple[Finding, ...] = ()
    attested: tuple[Attested, ...] = ()


def attest(
    readings: Sequence[Reading], attestations: Sequence[Attestation] = (), events: Iterable[Event] = ()
) -> Carried:
    """Take the value from every fabric reading whose bytes were not counted where they should be.

    Readings of runs that told nothing, as recorded before or imported, are left as they are.
    """
    choices = texts_of_calls(readings, "choice")
    told = cases_of(attestations, {key: r.value for key, r in choices.items() if isinstance(r.value, str)})
    cases = (*told, *cases_of_shares(readings), *_silent(told, readings, events))
    bad: _Bad = defaultdict(dict)
    for case in cases:
        if case.standing in _CODES:
            bad[case.benchmark, case.replicate or 0][case.node] = case
    return Carried(
        readings=tuple(_without_proof(r, bad) for r in readings) if bad else tuple(readings),
        findings=(*_unproved(cases), *_nvlink_idle(told), *_rails_idle(told)),
        attested=attested_results(readings, told, choices),
    )


def _key(case: Case) -> Key:
    return case.benchmark, case.replicate or 0, case.node


def _silent(told: Sequence[Case], readings: Iterable[Reading], events: Iterable[Event]) -> Iterable[Case]:
    """Nodes whose workers needed the proof of RDMA and ended before they told, having left results behind."""
    begun: dict[tuple[str, int, Subject], Event] = {}
    for event in events:
        details = event.details
        key = (str(details.get("benchmark")), int(details.get("replicate") or 0), event.subject)
        if event.kind == "worker_started" and details.get("proof") == "rdma":
            begun[key] = event
        elif event.kind in ("worker_done", "task_failed"):
            begun.pop(key, None)
    if not begun:
        return
    left = {_at(r) for r in readings if _is_fabric(r) and r.value is not None}
    heard = {_key(case) for case in told}
    silent = {(b, r, str(event.details.get("host"))): event for (b, r, _), event in begun.items()}
    for (benchmark, replicate, node), event in sorted(silent.items(), key=lambda item: item[0]):
        if (benchmark, replicate) in left and (benchmark, replicate, node) not in heard:
            yield Case(
                benchmark=benchmark,
                replicate=replicate,
                node=node,
                transport="",
                has_rdma=True,
                silent=True,
                source=event.source,
            )


def _at(r: Reading) -> tuple[str | None, int]:
    """The benchmark and the restart that a reading rests on."""
    return benchmark_of(r.quantity, r.recipe), r.replicate or 0


def _is_fabric(r: Reading) -> bool:
    """Whether a reading is about links between nodes."""
    if (
        r.origin is not Origin.MEASURED
        or not r.quantity.startswith(_FABRIC)
        or benchmark_of(r.quantity, r.recipe) is None
    ):
        return False
    return not r.quantity.startswith("peer.") or r.recipe.get("span") == "nodes"


def _without_proof(reading: Reading, bad: _Bad) -> Reading:
    if reading.value is None or not _is_fabric(reading):
        return reading
    nodes = bad.get(_at(reading), {})
    ends = reading.subject.ends if reading.quantity.startswith("peer.") else nodes
    case = next((nodes[node] for node in ends if node in nodes), None)
    if case is None:
        return reading
    return dataclasses.replace(
        reading, value=None, reason=_reason(case), low=None, high=None, samples=None, cpu_share_frac=None
    )


def _reason(case: Case) -> str:
    if case.silent:
        return f"node {case.node} ended before it told what carried its bytes"
    if case.standing is Standing.SOCKETS:
        return f"node {case.node} has RDMA ports, but its bytes went over sockets"
    unseen = next((w.reason for w in case.ways if w.over == "rdma" and case.has_rdma and w.reason), None)
    if unseen:
        return f"nothing shows which way the bytes of node {case.node} went: {unseen}"
    most = max(case.share_frac("rdma") or 0.0, case.share_frac("netdev") or 0.0)
    return f"node {case.node} counted {100 * most:.0f} % of what had to leave it"


def _unproved(cases: Sequence[Case]) -> Iterable[Finding]:
    """One finding per node, or a single one where it is every node's."""
    of_code: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        if case.standing in _CODES:
            of_code[_CODES[case.standing]].append(case)
    nodes = {case.node for case in cases}
    for code, those in sorted(of_code.items()):
        if len(nodes) > 2 and {case.node for case in those} == nodes:
            yield _finding(code, Severity.HIGH, CLUSTER, those, _because_of_bytes)
        else:
            yield from _by_node(code, Severity.HIGH, those, _because_of_bytes)


def _nvlink_idle(cases: Iterable[Case]) -> Iterable[Finding]:
    idle = [case for case in cases if case.nvlink_idle]
    return _by_node("TRANSPORT_NVLINK_IDLE", Severity.HIGH, idle, _because_of_nvlink)


def _by_node(
    code: str, severity: Severity, cases: Iterable[Case], because: Callable[[Case, str], Message]
) -> Iterable[Finding]:
    grouped: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        grouped[case.node].append(case)
    for node, those in sorted(grouped.items()):
        yield _finding(code, severity, Subject("node", node), those, because)


def _finding(
    code: str,
    severity: Severity,
    subject: Subject,
    cases: Sequence[Case],
    because: Callable[[Case, str], Message],
) -> Finding:
    worst = min(cases, key=lambda c: max(c.share_frac("rdma") or 0.0, c.share_frac("netdev") or 0.0))
    benchmarks = ", ".join(dict.fromkeys(case.benchmark for case in cases))
    return Finding(
        code=code,
        severity=severity,
        subject=subject,
        because=because(worst, benchmarks),
        evidence=tuple(Evidence.at(c.source, _evidence(c)) for c in cases[:_EVIDENCE_MOST]),
    )


def _because_of_bytes(case: Case, benchmarks: str) -> Message:
    if case.silent:
        return Message.of("because.transport_silent", benchmarks=benchmarks)
    values = {
        "benchmarks": benchmarks,
        "rdma_frac": case.share_frac("rdma"),
        "netdev_frac": case.share_frac("netdev"),
    }
    if not case.told:  # a run that kept shares alone
        return Message.of("because.transport_shares", **values)
    if case.standing is Standing.SOCKETS and case.says_sockets:
        return Message.of("because.transport_says_sockets", network=case.network, **values)
    unseen = next((w.reason for w in case.ways if w.over == "rdma" and case.has_rdma and w.reason), None)
    code = "because.transport_unseen" if unseen else "because.transport_bytes"
    return Message.of(code, expected_bytes=case.expected_bytes, reason=unseen, **values)


def _because_of_nvlink(case: Case, benchmarks: str) -> Message:
    way = next(way for way in case.ways if way.over == "nvlink")
    channels = case.told[0].channels
    return Message.of(
        "because.transport_nvlink_idle",
        benchmarks=benchmarks,
        expected_bytes=way.expected_bytes,
        counted_bytes=way.counted_bytes,
        channels=channels.value or channels.reason,
    )


def _rails_idle(cases: Iterable[Case]) -> Iterable[Finding]:
    grouped: dict[Subject, list[Case]] = defaultdict(list)
    for case in cases:
        for rail in case.idle_rails:
            adapter, _, port = rail.device.partition("/")
            grouped[Subject("port", f"{case.node}/{adapter}[{port}]")].append(case)
    for subject, those in sorted(grouped.items()):
        yield _finding("TRANSPORT_RAIL_IDLE", Severity.MEDIUM, subject, those, _because_of_rail(subject))


def _because_of_rail(subject: Subject) -> Callable[[Case, str], Message]:
    def because(case: Case, benchmarks: str) -> Message:
        device = subject.name.partition("/")[2].replace("[", "/").rstrip("]")
        rail = next(rail for rail in case.idle_rails if rail.device == device)
        return Message.of(
            "because.transport_rail_idle",
            benchmarks=benchmarks,
            expected_bytes=rail.expected_bytes,
            counted_bytes=rail.counted_bytes,
        )

    return because


def _evidence(case: Case) -> str:
    """What was expected and counted, in one line."""
    if case.silent:
        return f"{case.benchmark}, restart {case.replicate}: begun, and no attestation"
    counted = [
        f"{w.over} {show(w.counted_bytes, 'B') if w.counted_bytes is not None else f'unknown ({w.reason})'}"
        for w in case.ways
    ]
    if not case.told:
        shares = [f"{w.over} {100 * (w.share_frac or 0):.0f} %" for w in case.ways]
        return f"network.counted_share in {case.benchmark}: {', '.join(shares)}"
    expected = show(case.expected_bytes, "B")
    return (
        f"{case.benchmark}, restart {case.replicate}: {expected} had to leave; counted {', '.join(counted)}"
    )
