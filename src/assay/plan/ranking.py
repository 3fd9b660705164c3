"""The best layouts of a job on a cluster, each predicted in full and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from assay.domain.cluster import Cluster
from assay.domain.layout import PRECISIONS, Layout
from assay.domain.message import Message
from assay.errors import InputError
from assay.plan.explain import why
from assay.plan.flags import Flags, flags
from assay.plan.job import Job, with_layout
from assay.plan.search import Found, search
from assay.plan.space import quick, space_of
from assay.predict.calibration import calibrated_physics, network_of
from assay.predict.prediction import Prediction, predict
from assay.units import show_bytes

#: Clusters are tried up to so many times larger when a model fits nowhere.
_MOST_TIMES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One layout: its full prediction, what it does well or badly, and the flags of each framework."""

    prediction: Prediction
    why: tuple[Message, ...]
    flags: tuple[Flags, ...]

    @property
    def layout(self) -> Layout:
        """The layout itself."""
        return self.prediction.situation.layout

    @property
    def headroom_frac(self) -> float:
        """Part of the GPU's memory that stays free."""
        return 1 - self.prediction.total_bytes / self.prediction.capacity_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The fastest layouts, those that no other beats in both speed and memory, and each precision's
    fastest."""

    job: Job
    cluster: Cluster
    global_batch: int
    found: Found
    candidates: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    by_precision: Mapping[str, Candidate]


def rank(
    job: Job,
    cluster: Cluster,
    *,
    fixed: Mapping[str, object] | None = None,
    count: int = 10,
    front: int = 40,
    small: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Ranking:
    """Search the whole space, or with `small` the quick one, and predict what stands first.

    Raises `InputError` where nothing fits, with the smallest change that would.
    """
    base, network = job.on(cluster), network_of(cluster)
    space = space_of(base, cluster.gpus, fixed)
    physics = calibrated_physics(cluster.calibration)
    found = search(base, quick(space) if small else space, network, physics=physics, progress=progress)
    if not len(found.points):
        raise _fits_nowhere(job, cluster, found, fixed)
    best_s = float(found.time_s[0])

    def candidate(at: int) -> Candidate:
        one = predict(with_layout(base, found.points.layout(at)), network, physics=physics)
        # MFU stays against the datasheet where the prediction used measured peaks.
        peak = cluster.node.gpu.peak(one.peak_dtype) if cluster.node.gpu else None
        one = replace(one, mfu_frac=one.model_flop_per_s / peak if peak else None)
        return Candidate(
            prediction=one,
            why=why(one, cluster, best_s=best_s),
            flags=flags(one.situation.layout, job.workload, base.global_batch),
        )

    return Ranking(
        job=job,
        cluster=cluster,
        global_batch=base.global_batch,
        found=found,
        candidates=tuple(candidate(at) for at in range(min(count, len(found.points)))),
        front=tuple(candidate(int(at)) for at in found.front()[:front]),
        by_precision={PRECISIONS[kind]: candidate(at) for kind, at in found.first_of("precision").items()},
    )


def fits_from(job: Job, cluster: Cluster, fixed: Mapping[str, object] | None = None) -> int | None:
    """The fewest nodes, in doublings of the cluster's, on which any layout fits; None within 64 times."""
    times = 2
    while times <= _MOST_TIMES:
        larger = cluster.of(cluster.count * times)
        try:
            base = job.on(larger)
            space = quick(space_of(base, larger.gpus, fixed))
            if len(search(base, space, network_of(larger)).points):
                return larger.count
        except InputError:
            pass
        times *= 2
    return None


def _fits_nowhere(job: Job, cluster: Cluster, found: Found, fixed: Mapping[str, object] | None) -> InputError:
    layout, gpu = found.smallest, cluster.node.gpu
    shape = layout.product if layout else ""
    nodes = fits_from(job, cluster, fixed) if cluster.fabric is not None or cluster.domain_nodes > 1 else None
    name = gpu.id if gpu else cluster.id
    held = gpu.memory_bytes if gpu else 0.0
    fix = f"take {nodes} nodes, the smallest of the doublings that fits" if nodes else None
    return InputError(
        f"{job.workload.model.name} fits nowhere on {cluster.count} nodes of {cluster.id}: the smallest of "
        f"{found.evaluated:,} layouts ({shape}) needs {show_bytes(found.least_bytes)} on a GPU, "
        f"{name} has {show_bytes(held)}",
        fix=fix or f"use a GPU with at least {show_bytes(found.least_bytes)}, LoRA, or a smaller model",
    )
