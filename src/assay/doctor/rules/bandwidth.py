"""What bandwidth tables show: by their shape, by comparing runs, pairs and GPUs, and against the NICs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import median

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, Place, found, gpu, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.bandwidth_text import Matrix, TableRow, TestRun
from assay.formats.nvidia_smi import Topology

#: Bandwidth of the NICs of one node that comes with each GPU in its usual server; NVIDIA's reference designs.
_NIC_PER_GPU_BPS = (
    (re.compile(r"\bG?B300\b"), 800e9 / 8),
    (re.compile(r"\bGB200\b|H100 80GB HBM3|\bH200\b|\bB200\b|\bH800\b|\bH20\b"), 400e9 / 8),
    (re.compile(r"A100-SXM|A800-SXM"), 200e9 / 8),
)
_LARGE_BYTES = 2**26


def nic_per_gpu_Bps(product: str) -> float | None:
    """Rate of the NICs of one node for each of its GPUs, in the usual server of this GPU; None if unknown."""
    return next((rate for pattern, rate in _NIC_PER_GPU_BPS if pattern.search(product)), None)


def _places(run: TestRun, rows: list[TableRow]) -> list[Place]:
    return [(run.file, row.line, row.text) for row in rows]


@rule("ROCE_LOSSY", "ROCE_CONGESTION", "ROCE_ECE_INSTABILITY", reads=("nccl-tests",))
def collapse(facts: Facts, job: Job) -> Iterator[Finding]:
    """Bandwidth that grows with size and then collapses, or jumps up and down at large sizes."""
    yield from _better_without_ece(facts.runs)
    for run in facts.runs:
        rows = sorted(run.rows, key=lambda row: row.bytes)
        if len(run.hosts) < 2 or len(rows) < 4:
            continue
        fall = next((i for i in range(1, len(rows)) if rows[i].busbw_Bps * 4 < rows[i - 1].busbw_Bps), None)
        if fall is not None and all(r.busbw_Bps * 2 < rows[fall - 1].busbw_Bps for r in rows[fall:]):
            yield from _collapsed(run, rows, fall)
            continue
        big = [row for row in rows if row.bytes >= 2**28]
        dips = [
            (a, b)
            for a, b in pairwise(big)
            if b.busbw_Bps < 0.8 * a.busbw_Bps
            and any(c.busbw_Bps > b.busbw_Bps * 1.15 for c in big if c.bytes > b.bytes)
        ]
        if dips:
            yield found(
                "ROCE_ECE_INSTABILITY",
                _places(run, [row for pair in dips for row in pair]),
                sure=POSSIBLE + 0.15,
                because=Message.of("doctor.unsteady", at_bytes=dips[0][1].bytes),
            )


def _better_without_ece(runs: list[TestRun]) -> Iterator[Finding]:
    """The same nodes, once with and once without enhanced connection establishment."""
    without = [run for run in runs if run.env.get("NCCL_IB_ECE_ENABLE") == "0" and run.rows]
    for off in without:
        for on in runs:
            alike = on not in without and set(on.hosts) == set(off.hosts) and on.rows
            if alike and on.rows[-1].busbw_Bps * 1.2 < off.rows[-1].busbw_Bps:
                proof = [*_places(on, on.rows[-2:]), *_places(off, off.rows[-1:])]
                yield found("ROCE_ECE_INSTABILITY", proof, sure=0.85)
                return


def _collapsed(run: TestRun, rows: list[TableRow], fall: int) -> Iterator[Finding]:
    """Drops make it worse than a tenth, below one GB/s; congestion leaves a steady rest."""
    before, after = rows[fall - 1], rows[fall]
    rest = median(row.busbw_Bps for row in rows[fall:])
    values = {
        "before_Bps": before.busbw_Bps,
        "after_Bps": rest,
        "at_bytes": after.bytes,
        "nodes": len(run.hosts),
    }
    because = Message("doctor.collapse", tuple(values.items()))
    proof = _places(run, [before, after, *rows[fall + 1 : fall + 3]])
    lost = rest < 1e9 or rest * 10 < before.busbw_Bps or len(run.hosts) == 2
    yield found("ROCE_LOSSY", proof, sure=LIKELY if lost else POSSIBLE - 0.02, because=because)
    if len(run.hosts) >= 3:
        yield found("ROCE_CONGESTION", proof, sure=POSSIBLE if not lost else POSSIBLE - 0.1, because=because)


@rule("ROCE_ECMP_LOW_ENTROPY", reads=("nccl-tests",))
def plateau(facts: Facts, job: Job) -> Iterator[Finding]:
    """A smooth plateau at about half of what the NICs of a node give together."""
    if facts.has("nccl.gdr_disabled") or (facts.ports and not job.roce):
        return
    for run in facts.runs:
        per_gpu = nic_per_gpu_Bps(run.product)
        rows = sorted(run.rows, key=lambda row: row.bytes)
        if per_gpu is None or len(run.hosts) < 2 or len(rows) < 5 or run.max_bytes < 2**30:
            continue
        total = per_gpu * len(run.devices) / len(run.hosts)
        top = rows[-1].busbw_Bps
        steady = all(b.busbw_Bps > 0.97 * a.busbw_Bps for a, b in pairwise(rows))
        few_paths = (
            job.roce
            or run.env.get("NCCL_IB_SPLIT_DATA_ON_QPS") == "0"
            or any(name.startswith("NCCL_IB_QPS") or name == "NCCL_IB_ADAPTIVE_ROUTING" for name in run.env)
        )
        limited = "NCCL_IB_HCA" in run.env
        if steady and few_paths and not limited and 0.35 <= top / total <= 0.7:
            yield found(
                "ROCE_ECMP_LOW_ENTROPY",
                _places(run, rows[-3:]),
                sure=POSSIBLE,
                because=Message.of("doctor.plateau", got_Bps=top, nics_Bps=total),
            )


@rule("COLLECTIVE_WRONG_RESULT", reads=("nccl-tests",))
def wrong_sums(facts: Facts, job: Job) -> Iterator[Finding]:
    """nccl-tests checked what the collective computed, and it was wrong: worse than any slowness."""
    for run in facts.runs:
        if rows := [row for row in run.rows if row.wrong]:
            places = [(run.file, row.line, row.text) for row in rows]
            because = Message.of("doctor.wrong_elements", n=sum(row.wrong for row in rows), sizes=len(rows))
            subject = node(run.hosts[0]) if len(run.hosts) == 1 else CLUSTER
            yield found("COLLECTIVE_WRONG_RESULT", places, subject=subject, because=because)


@rule("HW_BAD_NODE", "IB_ROUTING_COLLISION", reads=("pairs", "nccl-tests"))
def slow_pairs(facts: Facts, job: Job) -> Iterator[Finding]:
    """Slow pairs with one node in common accuse it; slow pairs of nodes fast elsewhere, the fabric."""
    kinds: dict[str, dict[tuple[str, str], tuple[float, Place]]] = defaultdict(dict)
    for table in facts.pairs:
        for a, b, rate, line, text in table.pairs:
            kinds[table.file][a, b] = (rate, (table.file, line, text))
    for run in facts.runs:
        if len(run.hosts) == 2 and run.peak is not None:
            place = (run.file, run.peak.line, f"{run.hosts[0]},{run.hosts[1]}: {run.peak.text}")
            kinds[f"{run.product} {run.program}"][run.hosts[0], run.hosts[1]] = (run.peak.busbw_Bps, place)
    for pairs in kinds.values():
        if len(pairs) >= 3:
            yield from _accused(pairs)


def _accused(pairs: Mapping[tuple[str, str], tuple[float, Place]]) -> Iterator[Finding]:
    """Which node, or which pair, the slow ones point to."""
    best = max(rate for rate, _ in pairs.values())
    slow = {ends for ends, (rate, _) in pairs.items() if rate < 0.8 * best}
    fast_nodes = {end for ends in pairs if ends not in slow for end in ends}
    guilty: dict[str, list[Place]] = defaultdict(list)
    for ends in slow:
        for one, other in (ends, ends[::-1]):
            if one not in fast_nodes and other in fast_nodes:
                guilty[one].append(pairs[ends][1])
    for name, proof in sorted(guilty.items(), key=lambda item: -len(item[1])):
        yield found(
            "HW_BAD_NODE",
            proof,
            sure=0.85 if len(proof) > 1 else 0.6,
            subject=node(name),
            because=Message.of("doctor.slow_with_everyone", node=name, n=len(proof)),
        )
    for a, b in sorted(slow):
        if a in fast_nodes and b in fast_nodes:
            fast = [
                place for ends, (_, place) in pairs.items() if ends not in slow and (a in ends or b in ends)
            ]
            yield found(
                "IB_ROUTING_COLLISION",
                [pairs[a, b][1], *fast[:3]],
                sure=0.85,
                subject=Subject("pair", f"{a}|{b}"),
                because=Message.of("doctor.slow_only_together", a=a, b=b),
            )


@rule("P2P_SLOWER_THAN_SHM", reads=("nccl-tests", "nccl log"))
def p2p_slower(facts: Facts, job: Job) -> Iterator[Finding]:
    """The same GPUs are faster through shared memory than by peer-to-peer."""
    single = [run for run in facts.runs if len(run.hosts) <= 1 and run.rows]
    without = [
        run
        for run in single
        if run.env.get("NCCL_P2P_DISABLE") == "1" or run.env.get("NCCL_P2P_LEVEL") in ("LOC", "0")
    ]
    for off in without:
        for on in single:
            same = [d[2:] for d in on.devices] == [d[2:] for d in off.devices]
            if on in without or not same or on.peak is None or off.peak is None:
                continue
            if on.peak.busbw_Bps < 0.85 * off.peak.busbw_Bps:
                p2p = [c for c in facts.channels.values() if c.transport.startswith("P2P")]
                yield found(
                    "P2P_SLOWER_THAN_SHM",
                    [*_places(on, [on.peak]), *_places(off, [off.peak]), *p2p[:1]],
                    because=Message.of(
                        "doctor.p2p_slower", on_Bps=on.peak.busbw_Bps, off_Bps=off.peak.busbw_Bps
                    ),
                )
                return


@rule("PCIE_ACS_ENABLED", "PCIE_CHIPSET_ATTACHED", reads=("nvidia-smi topo", "gpu matrix", "nccl-tests"))
def gpu_pairs(facts: Facts, job: Job) -> Iterator[Finding]:
    """Neighbours slower than strangers go through the root; a GPU slow with all hangs elsewhere."""
    table = facts.topologies[0] if facts.topologies else None
    rates: dict[tuple[int, int], tuple[float, Place]] = {}
    for run in facts.runs:
        if len(run.devices) == 2 and len(run.hosts) == 1 and run.peak and "NCCL_P2P_DISABLE" not in run.env:
            a, b = sorted(device for _, _, device, _ in run.devices)
            rates[a, b] = (run.peak.busbw_Bps, (run.file, run.peak.line, f"GPU{a}, GPU{b}: {run.peak.text}"))
    for matrix in facts.matrices:
        if "latency" not in matrix.title.lower() and "disabled" not in matrix.title.lower():
            rates.update(_of_matrix(matrix))
    yield from _near_and_far(rates, table)
    if not any(True for _ in _near_and_far(rates, table)):
        yield from _one_slow_gpu(rates, table)


def _of_matrix(matrix: Matrix) -> Mapping[tuple[int, int], tuple[float, Place]]:
    found_rates: dict[tuple[int, int], tuple[float, Place]] = {}
    for (row, column), rate in matrix.cells.items():
        if row != column:
            line, text = matrix.lines[row]
            key = (min(row, column), max(row, column))
            if key not in found_rates or rate < found_rates[key][0]:
                found_rates[key] = (rate, (matrix.file, line, text))
    return found_rates


def _label(table: Topology | None, pair: tuple[int, int]) -> str:
    return table.cells.get((f"GPU{pair[0]}", f"GPU{pair[1]}"), "") if table else ""


def _near_and_far(
    rates: Mapping[tuple[int, int], tuple[float, Place]], table: Topology | None
) -> Iterator[Finding]:
    near = [r for pair, r in rates.items() if _label(table, pair) in ("PIX", "PXB")]
    far = [r for pair, r in rates.items() if _label(table, pair) in ("PHB", "NODE", "SYS")]
    if near and far:
        slow, fast = median(r for r, _ in near), median(r for r, _ in far)
        if slow < 0.75 * fast:
            yield found(
                "PCIE_ACS_ENABLED",
                [near[0][1], far[0][1]],
                sure=LIKELY,
                because=Message.of("doctor.near_slower_than_far", near_Bps=slow, far_Bps=fast),
            )


def _one_slow_gpu(
    rates: Mapping[tuple[int, int], tuple[float, Place]], table: Topology | None
) -> Iterator[Finding]:
    gpus = sorted({end for pair in rates for end in pair})
    for one in gpus if len(gpus) >= 3 else []:
        own = [(pair, r) for pair, r in rates.items() if one in pair]
        rest = [(pair, r) for pair, r in rates.items() if one not in pair]
        if len(own) < 2 or not rest:
            continue
        alike = {_label(table, pair) for pair, _ in own} == {_label(table, pair) for pair, _ in rest}
        worst, best = max(r for _, (r, _) in own), min(r for _, (r, _) in rest)
        if alike and worst < 0.65 * best:
            yield found(
                "PCIE_CHIPSET_ATTACHED",
                [place for _, (_, place) in [*own[:2], *rest[:1]]],
                subject=gpu(str(one)),
                sure=0.85,
                because=Message.of("doctor.one_gpu_half", gpu=one, own_Bps=worst, rest_Bps=best),
            )


@rule("PERF_EXPECTED_LINE_RATE", "PERF_BUSBW_MISREAD", "PERF_SMALL_MESSAGES", reads=("nccl-tests", "ibstat"))
def read_right(facts: Facts, job: Job) -> Iterator[Finding]:
    """Numbers that look wrong and are right: line rate, more than line rate on two nodes, small messages."""
    rates = [
        p.rate_Bps
        for p in facts.ports
        if p.rate_Bps and (p.state or "").lower().startswith("active") and p.link_layer == "InfiniBand"
    ]
    for run in facts.runs:
        top = run.peak
        if top is None:
            continue
        if len(run.hosts) >= 2 and rates:
            share = top.busbw_Bps / sum(rates)
            if 0.9 <= share <= 1.0:
                yield found(
                    "PERF_EXPECTED_LINE_RATE",
                    _places(run, [top]),
                    because=Message.of("doctor.line_rate", got_Bps=top.busbw_Bps, nics_Bps=sum(rates)),
                )
            elif 1.0 < share <= 2.5 and run.env.get("NCCL_ALGO", "").upper() != "RING":
                yield found(
                    "PERF_BUSBW_MISREAD",
                    _places(run, [top]),
                    because=Message.of("doctor.over_line_rate", got_Bps=top.busbw_Bps, nics_Bps=sum(rates)),
                )
        if run.finished and 0 < run.max_bytes <= _LARGE_BYTES and run.rows:
            yield found("PERF_SMALL_MESSAGES", _places(run, [top]))
