"""Bandwidth against what this hardware should give, by the catalogue and the fabric model.

The model is asked only for whole nodes of GPUs that the catalogue knows, at large sizes. Between nodes it
also needs the rate of the ports: theirs where ibstat is given, else the one of the GPU's usual server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import POSSIBLE, PROVEN, Place, found, rule
from assay.doctor.rules.bandwidth import nic_per_gpu_Bps
from assay.doctor.rules.network import sockets_between_nodes
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.errors import InputError
from assay.formats.bandwidth_text import TableRow, TestRun

#: Below this share of the least that is expected, something is wrong.
_TOO_LOW = 0.75
_LARGE_BYTES, _LEAST_GPUS = 2**28, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the model gives for a run's largest size, with its 80 % interval, in B/s of bus bandwidth."""

    row: TableRow
    busbw_Bps: float
    low_Bps: float
    high_Bps: float
    algorithm: str
    wire_Bps: float
    nodes: int
    nics: int


@rule("NET_SOCKET_FALLBACK", "PERF_BELOW_EXPECTED", "PERF_BUSBW_MISREAD", reads=("nccl-tests",))
def against_the_model(facts: Facts, job: Job) -> Iterator[Finding]:
    """What was measured beside what the hardware should give: far below, or above the wire by NVLS."""
    for run in facts.runs:
        expected = expected_of(run, facts, job)
        if expected is None:
            continue
        got, row = expected.row.busbw_Bps, expected.row
        place: Place = (run.file, row.line, row.text)
        sockets = [f for f in sockets_between_nodes(facts, job) if f.code == "NET_SOCKET_FALLBACK"]
        if expected.nodes > 1 and sockets and got < _TOO_LOW * expected.low_Bps:
            because = Message.of(
                "doctor.expected_per_nic",
                got_Bps=got / expected.nics,
                expected_Bps=expected.busbw_Bps / expected.nics,
            )
            proof = [place, *((e.file, e.line or 1, e.text) for e in sockets[0].evidence[:4])]
            yield found("NET_SOCKET_FALLBACK", proof, sure=PROVEN + 0.02, because=because)
        elif got < _TOO_LOW * expected.low_Bps and _rates_known(expected, facts) and not _limited(run):
            because = Message.of(
                "doctor.below_expected",
                got_Bps=got,
                expected_Bps=expected.busbw_Bps,
                low_Bps=expected.low_Bps,
                algorithm=expected.algorithm,
            )
            yield found("PERF_BELOW_EXPECTED", [place], sure=POSSIBLE, because=because)
        elif expected.nodes == 1 and expected.algorithm == "NVLS" and got > expected.wire_Bps:
            because = Message.of(
                "doctor.nvls_over_wire",
                got_Bps=got,
                expected_Bps=expected.busbw_Bps,
                wire_Bps=expected.wire_Bps,
            )
            yield found("PERF_BUSBW_MISREAD", [place], because=because)


def _rates_known(expected: Expected, facts: Facts) -> bool:
    return expected.nodes == 1 or bool(facts.ports)


def _limited(run: TestRun) -> bool:
    """Settings that hold the bandwidth back on purpose, for a comparison."""
    return any(
        name.endswith(("_DISABLE", "_ALGO", "_PROTO", "_HCA", "NCHANNELS", "_LEVEL", "NVLS_ENABLE"))
        for name in run.env
    )


def expected_of(run: TestRun, facts: Facts, job: Job) -> Expected | None:
    """The model's answer for the largest size of a run; None where it cannot be asked."""
    # The model brings NumPy with it, which only a table of bandwidths is worth.
    import numpy as np

    from assay.fabric.collective import collective_time
    from assay.fabric.placement import Placement
    from assay.fabric.systems import described_cluster

    nodes = len(run.hosts)
    row = max(run.rows, key=lambda r: r.bytes, default=None)
    if row is None or row.bytes < _LARGE_BYTES or not nodes or len(run.devices) % nodes:
        return None
    per_node = len(run.devices) // nodes
    network = _network(run, facts, job, per_node) if nodes > 1 else (0, "")
    if per_node < _LEAST_GPUS or network is None:
        return None
    try:
        cluster = described_cluster(run.product, nodes, per_node, "", network[1])
        groups = (np.array([n]) for n in (per_node, nodes, 1))
        placement = Placement(**dict(zip(("per_node", "nodes", "stride"), groups, strict=True)))
        times = collective_time(cluster, run.program or "all_reduce", float(row.bytes), placement)
    except InputError:
        return None
    gpu, busbw, time = cluster.node.gpu, float(times.busbw_Bps[0]), float(times.time_s[0])
    if gpu is None or times.extrapolated or time <= 0:
        return None
    return Expected(
        row=row,
        busbw_Bps=busbw,
        low_Bps=busbw * time / float(times.high_s[0]),
        high_Bps=busbw * time / float(times.low_s[0]),
        algorithm=str(times.algorithm[0]),
        wire_Bps=gpu.links_Bps or 0.0,
        nodes=nodes,
        nics=network[0],
    )


def _network(run: TestRun, facts: Facts, job: Job, per_node: int) -> tuple[int, str] | None:
    """Ports of one node and their rate, in words: as ibstat of one node shows them, else as usual."""
    kind = "RoCE" if job.roce else "InfiniBand"
    for file in dict.fromkeys(port.file for port in facts.ports):
        rates = [p.rate_Bps for p in facts.ports if p.file == file and p.rate_Bps and _is_up(p.state)]
        fast = [rate for rate in rates if rate == max(rates)]
        if fast:
            return len(fast), f"{len(fast)}x{fast[0] * 8 / 1e9:.0f}G {kind}"
    usual = nic_per_gpu_Bps(run.product)
    return (per_node, f"{per_node}x{usual * 8 / 1e9:.0f}G {kind}") if usual else None


def _is_up(state: str | None) -> bool:
    return (state or "").lower().startswith("active")
