"""What the phases of a job cost on a cluster, how its step scales, and whether it fits.

A kernel takes the longer of its FLOPs at a part of the peak and its bytes at a part of the memory's
bandwidth (the roofline; Williams, Waterman, Patterson 2009). Messages of a halo that leave the node share
its NICs, the others the GPUs' links; both kinds go at the same time. Collectives are the network model's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.job import Job, Phase
from assay.errors import InputError, unknown_name
from assay.predict.impaired import slowed_gpu
from assay.predict.jobs.formula import evaluate
from assay.predict.network import Network

#: No measurement stands behind a job's prediction; this is what rooflines and rings miss by elsewhere.
RANGE = (0.7, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTime:
    """Seconds of a phase in one step, and the part of them that nothing hides."""

    name: str
    kind: str
    time_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPrediction:
    """A step of a job. `breakdown_s` adds up to the step, `memory_bytes` to what a rank holds."""

    job: Job
    ranks: int
    nodes: int
    values: Mapping[str, float]
    phases: tuple[PhaseTime, ...]
    memory_bytes: Mapping[str, float]
    capacity_bytes: float

    @property
    def step_s(self) -> float:
        """The whole step."""
        return sum(phase.exposed_s for phase in self.phases)

    @property
    def breakdown_s(self) -> dict[str, float]:
        """What each phase adds to the step."""
        return {phase.name: phase.exposed_s for phase in self.phases}

    @property
    def fits(self) -> bool:
        """Whether a rank's data fit in its GPU."""
        return sum(self.memory_bytes.values()) <= self.capacity_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """A step at a number of nodes, and the efficiency against the smallest number."""

    nodes: int
    ranks: int
    step_s: float
    efficiency_frac: float
    fits: bool


def settings(job: Job, said: Mapping[str, float]) -> dict[str, float]:
    """The job's parameters with those that the user sets; raises for an unknown one."""
    known = {parameter.name: parameter.value for parameter in job.parameters}
    for name in said:
        if name not in known:
            raise unknown_name(f"parameter of {job.id}", name, known)
    return known | dict(said)


def predict_job(
    job: Job, cluster: Cluster, values: Mapping[str, float], network: Network, *, gpu_part: float = 1.0
) -> JobPrediction:
    """A step of `job` on all nodes of `cluster`, one rank a GPU. Raises `InputError` with the formula.

    All wait for the slowest GPU, which runs at `gpu_part` of its speed.
    """
    gpu = cluster.node.gpu
    if gpu is None:
        raise InputError(f"the GPU of {cluster.id} is not known by name", fix="name gpu: in the cluster file")
    gpu = slowed_gpu(gpu, gpu_part)
    names = dict(values) | {
        "ranks": float(cluster.gpus),
        "nodes": float(cluster.count),
        "node_gpus": float(len(cluster.node.gpus)),
    }
    for name, text in job.derived:
        names[name] = evaluate(text, names, of=f"{job.id}.{name}")
    price = _Price(job, gpu, names, network)
    times = {phase.name: price.time_s(phase) for phase in job.phases}
    phases = []
    for phase in job.phases:
        hidden = 0.0
        if phase.overlaps:
            hidden = price.amount(phase, "overlap_frac") * min(times[phase.name], times[phase.overlaps])
        phases.append(
            PhaseTime(
                name=phase.name,
                kind=phase.kind,
                time_s=times[phase.name],
                exposed_s=times[phase.name] - hidden,
            )
        )
    return JobPrediction(
        job=job,
        ranks=cluster.gpus,
        nodes=cluster.count,
        values=values,
        phases=tuple(phases),
        memory_bytes={name: evaluate(text, names, of=f"{job.id}.memory") for name, text in job.memory},
        capacity_bytes=gpu.memory_bytes,
    )


def scaling(
    job: Job,
    cluster: Cluster,
    values: Mapping[str, float],
    network_of: Callable[[Cluster], Network],
    *,
    weak: bool,
) -> tuple[ScalingPoint, ...]:
    """Steps from one node (a quarter of a rack) up to all of them by doubling.

    Strong: the same job. Weak: parameters that grow do, so that the last point is the job as given.
    """
    counts = sorted({cluster.count >> shift for shift in range(cluster.count.bit_length())} - {0})
    found: list[ScalingPoint] = []
    for count in counts:
        part = count / cluster.count
        shrunk = {p.name: values[p.name] * (part**p.grows if weak else 1.0) for p in job.parameters}
        here = cluster.of(count)
        one = predict_job(job, here, shrunk, network_of(here))
        first = found[0] if found else None
        base_s = one.step_s if first is None else first.step_s
        less = 1.0 if weak or first is None else first.nodes / count
        found.append(
            ScalingPoint(
                nodes=count,
                ranks=one.ranks,
                step_s=one.step_s,
                efficiency_frac=base_s * less / one.step_s if one.step_s else 1.0,
                fits=one.fits,
            )
        )
    return tuple(found)


class _Price:
    """The cost of each kind of phase, with the values that its formulas see."""

    def __init__(self, job: Job, gpu: Gpu, names: Mapping[str, float], network: Network) -> None:
        self.job, self.gpu, self.names, self.network = job, gpu, names, network

    def amount(self, phase: Phase, key: str) -> float:
        """The value of one formula of a phase."""
        value = evaluate(getattr(phase, key), self.names, of=f"{self.job.id}.{phase.name}.{key}")
        if value < 0:
            raise InputError(f"{self.job.id}.{phase.name}.{key} is {value:g}, below 0")
        return value

    def time_s(self, phase: Phase) -> float:
        """Seconds of the phase in one step, with nothing hidden."""
        price: Callable[[Phase], float] = getattr(self, f"_{phase.kind}")
        return self.amount(phase, "repeat") * price(phase)

    def _compute(self, phase: Phase) -> float:
        peaks = self.gpu.peak_flop_per_s
        if phase.dtype not in peaks:
            raise InputError(f"{self.gpu.name} has no {phase.dtype} peak", fix=f"it has {', '.join(peaks)}")
        busy = self.amount(phase, "flop") / (peaks[phase.dtype] * self._part("flop_frac"))
        return max(busy, self._memory(phase)) if phase.bytes else busy

    def _memory(self, phase: Phase) -> float:
        return self.amount(phase, "bytes") / (self.gpu.memory_Bps * self._part("memory_frac"))

    def _halo(self, phase: Phase) -> float:
        if self.names["ranks"] < 2:
            return 0.0
        size, messages = self.amount(phase, "bytes"), self.amount(phase, "messages")
        local = self.amount(phase, "local_frac") if phase.local_frac else self._face_local_frac()
        local = 1.0 if self.names["nodes"] == 1 else min(local, 1.0)
        width = int(self.names["node_gpus"])
        inside = self._one(local * messages * size, 1) if width > 1 else 0.0
        return max(inside, self._one((1 - local) * messages * size, width))

    def _one(self, size: float, stride: int) -> float:
        """So many bytes to a peer `stride` ranks away, all ranks of a node at once."""
        return self._asked("send_recv", size, 2, stride) if size else 0.0

    def _asked(self, op: str, size: float, ranks: int, stride: int) -> float:
        """One answer of the network, which answers in arrays."""
        return float(np.ravel(self.network.time_s(op, size, ranks, stride))[0])

    def _face_local_frac(self) -> float:
        """Of the six faces of a rank's block those whose neighbour is in the node, blocks of a node cubic."""
        edges = _cubic(int(self.names["node_gpus"]))
        return 1 - sum(2 / edge for edge in edges) / 6

    def _all_to_all(self, phase: Phase) -> float:
        return self._collective("all_to_all", phase)

    def _reduce(self, phase: Phase) -> float:
        return self._collective("all_reduce", phase)

    def _gather(self, phase: Phase) -> float:
        """Everybody's bytes at one rank, which receives through its own link."""
        ranks = int(self.amount(phase, "group"))
        if ranks < 2:
            return 0.0
        away = self.names["nodes"] > 1
        stride = int(self.names["node_gpus"]) if away else 1
        return self._asked("send_recv", self.amount(phase, "bytes") * (ranks - 1), 2, stride)

    def _collective(self, op: str, phase: Phase) -> float:
        ranks, stride = (max(1, round(self.amount(phase, key))) for key in ("group", "stride"))
        return self._asked(op, self.amount(phase, "bytes"), ranks, stride) if ranks > 1 else 0.0

    def _input(self, phase: Phase) -> float:
        return self.amount(phase, "bytes") / self._rate("read_Bps")

    def _output(self, phase: Phase) -> float:
        return self.amount(phase, "bytes") / self._rate("write_Bps")

    def _part(self, name: str) -> float:
        part = self.names.get(name, 1.0)
        if not 0 < part <= 1:
            raise InputError(f"{self.job.id}: {name} is {part:g}, not between 0 and 1")
        return part

    def _rate(self, name: str) -> float:
        rate = self.names.get(name, 0.0)
        if rate <= 0:
            raise InputError(f"{self.job.id} reads or writes, but {name} is {rate:g}", fix=f"set {name}")
        return rate


def _cubic(count: int) -> tuple[int, int, int]:
    """Three factors of `count` that are as equal as can be."""
    options = [
        (a, b, count // a // b)
        for a in range(1, count + 1)
        if count % a == 0
        for b in range(1, count // a + 1)
        if count // a % b == 0
    ]
    return min(options, key=lambda edges: sum(1 / edge for edge in edges))
