"""`assay predict collective`: the fabric's model, what was measured on the cluster, and a measured curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from assay.api.clusters import read_cluster
from assay.domain.calibration import COLLECTIVES
from assay.domain.cluster import Cluster
from assay.errors import InputError
from assay.fabric.collective import CollectiveTimes, Options, collective_time
from assay.fabric.failures.impact import Conditions, Impact, impact, slowed_cluster
from assay.fabric.loss.latency import Tail, ring_tail
from assay.fabric.placement import Placement
from assay.predict.calibration import network_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveOptions:
    """What `assay predict collective` was asked; `sizes` None: the measured file's, or 8 B to 16 GiB."""

    cluster: str
    op: str
    sizes: tuple[int, ...] | None = None
    nodes: int | None = None
    per_node: int | None = None
    library: Options = field(default_factory=Options)
    conditions: Conditions = field(default_factory=Conditions)
    measured: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedCollective:
    """A curve; `measured_s` maps a size to what a file has for it, `source` is the run behind the times.

    `tails` of the smallest and largest size: what waiting for late messages makes of rings, one a NIC.
    """

    cluster: Cluster
    times: CollectiveTimes
    impact: Impact | None
    measured_s: Mapping[int, float]
    source: str | None
    tails: Mapping[float, Tail] = field(default_factory=dict)


def predict_collective(options: CollectiveOptions) -> PredictedCollective:
    """Predict a collective; `InputError` where group, sizes and measured file do not fit one another."""
    nodes = options.nodes or 1
    cluster = read_cluster(options.cluster)
    cluster = cluster.of(max(cluster.count, nodes))
    harm = impact(cluster.of(nodes), options.conditions) if options.conditions.any else None
    if harm is not None:
        cluster = slowed_cluster(cluster, harm, options.op)
    width = options.per_node or len(cluster.node.gpus)
    measured = _measured(options.measured, options.op, width * nodes) if options.measured else {}
    sizes = options.sizes or tuple(sorted(measured)) or tuple(2**power for power in range(3, 35))
    times = collective_time(cluster, options.op, sizes, Placement.of(width, nodes), options=options.library)
    # A run is measured with NCCL, RCCL or Gloo, which says nothing of an MPI.
    told = cluster.calibration is not None and times.op in COLLECTIVES and options.library.library != "mpi"
    return PredictedCollective(
        cluster=cluster,
        times=_as_measured(times, cluster, width) if told else times,
        impact=harm,
        measured_s=measured,
        source=cluster.calibration.source if told and cluster.calibration is not None else None,
        tails={} if harm is None else _tails(harm, cluster.of(nodes), sizes),
    )


def _tails(harm: Impact, cluster: Cluster, sizes: Sequence[int]) -> dict[float, Tail]:
    asked = harm.conditions
    if cluster.count < 2 or not (asked.jitter_s or asked.loss_frac):
        return {}
    return {
        float(size): ring_tail(
            harm.connection, cluster.count, size / len(cluster.node.nics), asked.loss_frac, asked.jitter_s
        )
        for size in sorted({sizes[0], sizes[-1]})
    }


def _as_measured(times: CollectiveTimes, cluster: Cluster, width: int) -> CollectiveTimes:
    """The times of the cluster's own calibrated network, with the fabric's choices and relative ranges."""
    stride = max(1, len(cluster.node.gpus) // width)
    own = network_of(cluster).time_s(times.op, times.bytes, times.ranks, stride)
    ratio = np.divide(own, times.time_s, out=np.ones_like(own), where=times.time_s > 0)
    return replace(times, time_s=own, low_s=times.low_s * ratio, high_s=times.high_s * ratio, extrapolated=())


def _measured(file: Path, op: str, ranks: int) -> dict[int, float]:
    """Size → seconds of an nccl-tests file (text or JSON)."""
    # Reading other tools' results loads more than a prediction needs.
    from assay.api.importing import read_results
    from assay.fabric.operations import operation

    name = operation(op)
    readings = [r for r in read_results(file, collective=name).readings if r.number]
    own = [r for r in readings if r.quantity == f"collective.{name}.time"]
    if not own:
        found = sorted({r.quantity.split(".")[1] for r in readings if r.quantity.startswith("collective.")})
        raise InputError(
            f"no time of {name}: the file has {', '.join(found) or 'no collective'}", where=str(file)
        )
    counts: Sequence[object] = sorted({str(r.recipe.get("ranks")) for r in own})
    if counts != [str(ranks)]:
        raise InputError(
            f"the file was measured on {', '.join(map(str, counts))} ranks, the prediction is for {ranks}",
            where=str(file),
            fix="say --nodes and --per-node as they were measured",
        )
    return {
        size: r.number
        for r in own
        if isinstance(size := r.recipe.get("bytes"), int) and size > 0 and r.number is not None
    }
