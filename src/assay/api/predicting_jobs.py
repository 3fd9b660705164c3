"""`assay predict --workload halo3d …`: a job of phases on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assay.api.clusters import read_cluster
from assay.api.predicting import is_job as is_job
from assay.catalog.jobs import job
from assay.codec.job import load_job, parameter_value
from assay.domain.cluster import Cluster
from assay.domain.job import Job, PublishedRun
from assay.errors import InputError, unknown_name
from assay.fabric.collective import Options
from assay.fabric.failures.impact import Conditions, Impact, impact
from assay.predict.fabric_network import FabricNetwork
from assay.predict.impaired import ImpairedNetwork
from assay.predict.jobs.price import JobPrediction, ScalingPoint, predict_job, scaling, settings
from assay.predict.network import LinkNetwork, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedJob:
    """A job's step on a cluster, how it scales, and public figures with what the model says to them.

    `weak` is empty where nothing grows.
    """

    cluster: Cluster
    prediction: JobPrediction
    strong: tuple[ScalingPoint, ...]
    weak: tuple[ScalingPoint, ...]
    published: tuple[tuple[PublishedRun, float | None], ...]
    impact: Impact | None = None
    healthy_s: float | None = None


def read_job(workload: str, said: Sequence[str] = ()) -> tuple[Job, Mapping[str, float]]:
    """A shipped job or one from a file, and its parameters with those that are said as `name=value`."""
    path = Path(workload)
    found = load_job(path) if path.is_file() else job(workload)
    return found, settings(found, _values(found, said))


def predict_named_job(
    system: str,
    nodes: int,
    workload: str,
    said: Sequence[str],
    conditions: Conditions | None = None,
    *,
    sharp: bool = False,
) -> PredictedJob:
    """The step of a job on `nodes` nodes; `said` are parameters as `name=value`. Raises `InputError`.

    `conditions` are what is wrong on all of them; smaller numbers of nodes are of the healthy fabric. `sharp`
    has switches add up what nodes reduce.
    """
    found, values = read_job(workload, said)
    built = read_cluster(system).of(nodes)
    grows = any(parameter.grows for parameter in found.parameters)
    network = network_of(built, found.library, sharp=sharp)
    harm = impact(built, conditions) if conditions is not None and conditions.any else None
    healthy = predict_job(found, built, values, network)
    result = healthy
    if harm is not None:
        result = predict_job(
            found, built, values, ImpairedNetwork(network, harm.slowdown), gpu_part=harm.gpu_part
        )
    networks = partial(network_of, library=found.library, sharp=sharp)
    return PredictedJob(
        cluster=built,
        prediction=result,
        impact=harm,
        healthy_s=None if harm is None else healthy.step_s,
        strong=scaling(found, built, values, networks, weak=False),
        weak=scaling(found, built, values, networks, weak=True) if grows else (),
        published=tuple((run, _modelled_s(found, run)) for run in found.published),
    )


def network_of(cluster: Cluster, library: str = "nccl", *, sharp: bool = False) -> Network:
    """The fabric's model of a library; rings over plain links where NCCL has none for the node."""
    if library != "nccl" or sharp:
        return FabricNetwork(cluster, Options(library=library, sharp=sharp or None))
    gpu = cluster.node.gpu
    return FabricNetwork(cluster) if gpu is not None and gpu.vendor == "NVIDIA" else LinkNetwork.of(cluster)


def _values(found: Job, said: Sequence[str]) -> dict[str, float]:
    units = {parameter.name: parameter.unit for parameter in found.parameters}
    values: dict[str, float] = {}
    for pair in said:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals:
            raise InputError(f"{pair!r} sets nothing", fix="write --set name=value")
        if name not in units:
            raise unknown_name(f"parameter of {found.id}", name, units)
        values[name] = parameter_value(text.strip(), units[name], f"--set {name}")
    return values


def _modelled_s(found: Job, run: PublishedRun) -> float | None:
    """What the model says for a published run, on the shipped system nearest to it; None without one."""
    if not run.cluster:
        return None
    system = read_cluster(run.cluster)
    cluster = system.of(-(-run.gpus // len(system.node.gpus)))
    values: Mapping[str, float] = settings(found, _values(found, run.set.split(",") if run.set else []))
    return predict_job(found, cluster, values, network_of(cluster, found.library)).step_s
