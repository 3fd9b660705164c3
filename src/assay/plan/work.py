"""What a job does on a cluster, whatever kind it is: hours, speed-up, utilisation, what it saves and carries
away.

Money, failures, sizes and growth ask only this; a language model's training and a job of phases (a stencil,
an FFT, a rendering) answer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay.domain.cluster import Cluster
from assay.domain.job import Job as Phases
from assay.domain.message import Message
from assay.errors import InputError
from assay.plan.job import Job
from assay.plan.ranking import Candidate, rank
from assay.plan.storage import (
    TOKEN_BYTES,
    WEIGHT_BYTES,
    Checkpoint,
    Storage,
    checkpoint,
    save_of,
)
from assay.predict.calibration import calibrated_physics, network_of
from assay.predict.jobs.price import JobPrediction, predict_job, scaling
from assay.predict.network import Network
from assay.predict.prediction import speedup_frac
from assay.units import show_bytes

_MOST_TIMES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedJob:
    """A job of phases and how many steps of it are wanted; `network_of` is the network its messages meet."""

    phases: Phases
    values: Mapping[str, float]
    steps: float
    network_of: Callable[[Cluster], Network]
    assumed: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise InputError(f"{self.steps:g} steps of {self.phases.id}", fix="say --steps, for example 1e6")

    @property
    def name(self) -> str:
        """What people call it."""
        return self.phases.name

    @property
    def amount(self) -> Message:
        """How much of it is to be done."""
        return Message.of("plan.amount.steps", count=f"{self.steps:.3g}")


AnyJob = Job | PhasedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job on one cluster without failures. One of `candidate` (training) and `phased` is there.

    `rate_per_s` is tokens or steps a second of the whole cluster, `speedup_frac` its rate against linear.
    """

    job: AnyJob
    ideal_h: float
    rate_per_s: float
    mfu_frac: float | None
    speedup_frac: float | None
    stored_GB: float
    egress_GB: float
    candidate: Candidate | None = None
    phased: JobPrediction | None = None

    def save(self, storage: Storage, *, nodes: int, asynchronous: bool = True) -> Checkpoint:
        """A checkpoint on this storage; a job of phases saves all that its ranks hold."""
        if self.candidate is not None and isinstance(self.job, Job):
            layout = self.candidate.layout
            return checkpoint(self.job.workload, layout, storage, nodes=nodes, asynchronous=asynchronous)
        held = sum(self.phased.memory_bytes.values()) if self.phased else 0.0
        ranks = self.phased.ranks if self.phased else 1
        total = max(held * ranks, 1.0)
        return save_of(total, total / ranks, storage, nodes=nodes, reread=total, asynchronous=asynchronous)


def work_on(job: AnyJob, cluster: Cluster, *, fixed: Mapping[str, object] | None = None) -> Work:
    """The best that the job does on the cluster; `InputError` where it does not fit, with the smallest
    change."""
    return _phased(job, cluster) if isinstance(job, PhasedJob) else _trained(job, cluster, fixed)


def _trained(job: Job, cluster: Cluster, fixed: Mapping[str, object] | None) -> Work:
    best = rank(job, cluster, fixed=fixed, count=1, front=0, small=True).candidates[0]
    prediction = best.prediction
    return Work(
        job=job,
        ideal_h=prediction.days(job.tokens) * 24,
        rate_per_s=prediction.tokens_per_s_per_gpu * cluster.gpus,
        mfu_frac=prediction.mfu_frac,
        speedup_frac=speedup_frac(
            prediction,
            lambda nodes: network_of(cluster.of(nodes)),
            node_gpus=len(cluster.node.gpus),
            physics=calibrated_physics(cluster.calibration),
        ),
        stored_GB=job.tokens * TOKEN_BYTES / 1e9,
        egress_GB=WEIGHT_BYTES * job.workload.model.parameters / 1e9,
        candidate=best,
    )


def _phased(job: PhasedJob, cluster: Cluster) -> Work:
    one = predict_job(job.phases, cluster, job.values, job.network_of(cluster))
    held = sum(one.memory_bytes.values())
    if not one.fits:
        nodes = _fits_from(job, cluster)
        raise InputError(
            f"{job.name} does not fit on {cluster.count} nodes of {cluster.id}: a rank holds "
            f"{show_bytes(held)}, its GPU has {show_bytes(one.capacity_bytes)}",
            fix=f"take {nodes} nodes, the smallest of the doublings that fits" if nodes else "a smaller job",
        )
    curve = scaling(job.phases, cluster, job.values, job.network_of, weak=False)
    fitting = [point for point in curve if point.fits]
    first = fitting[0] if fitting else None
    total = held * one.ranks
    return Work(
        job=job,
        ideal_h=job.steps * one.step_s / 3600,
        rate_per_s=1 / one.step_s,
        mfu_frac=None,
        speedup_frac=None if first is None else first.step_s * first.nodes / (one.step_s * cluster.count),
        stored_GB=total / 1e9,
        egress_GB=total / 1e9,
        phased=one,
    )


def _fits_from(job: PhasedJob, cluster: Cluster) -> int | None:
    """The fewest nodes, in doublings of the cluster's, on which a rank's data fit."""
    times = 2
    while times <= _MOST_TIMES:
        larger = cluster.of(cluster.count * times)
        try:
            if predict_job(job.phases, larger, job.values, job.network_of(larger)).fits:
                return larger.count
        except InputError:
            pass
        times *= 2
    return None
