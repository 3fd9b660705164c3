"""`assay predict`: files and catalogues joined with the predictor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.clusters import candidates, find_cluster
from assay.api.clusters import read_cluster as read_cluster
from assay.catalog.jobs import job_ids
from assay.catalog.model_arguments import model_from_megatron
from assay.catalog.model_config import model_from_config
from assay.catalog.models import model, model_from_file, models
from assay.codec.document import read_document
from assay.codec.text_file import read_text
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.layout import parse_layout
from assay.domain.workload import Transformer, Workload
from assay.errors import InputError
from assay.predict.calibration import calibrated_gpu, calibrated_physics, network_of
from assay.predict.network import Network
from assay.predict.physics import Physics
from assay.predict.prediction import (
    Prediction,
    ScalingPoint,
    predict,
    scaling_curve,
    smallest_change_that_fits,
)
from assay.predict.sensitivity import Effect, sensitivity
from assay.predict.situation import Situation
from assay.predict.stack import DEFAULT_STACK, stack
from assay.predict.trace_file import step_trace

if TYPE_CHECKING:
    from assay.fabric.failures.impact import Conditions, Impact
    from assay.predict.inputs import Input

_NO_CHANGE = "more GPUs, or GPUs with more memory: no recomputation, sharding, tp or pp makes it fit"
_SHARP = "what nodes all-reduce is added up in the switches (SHARP)"
_UNSTACKED = f"no stack named: {DEFAULT_STACK} taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """What `assay predict` was asked; `base` is the system of a measured run, `gpu` that of a topology."""

    cluster: str
    workload: str
    nodes: int | None = None
    base: str | None = None
    gpu: str | None = None
    layout: str
    global_batch: int
    seq_len: int | None = None
    task: str = "pretrain"
    stack: str | None = None
    tokens: float | None = None
    sensitivity: bool = False
    sharp: bool = False
    conditions: Conditions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction with the cluster it is for, and what was asked besides.

    `impact` is what failures, loss and routing do, and `healthy_s` the step without them.
    """

    cluster: Cluster
    prediction: Prediction
    speedup_frac: float | None
    curve: tuple[ScalingPoint, ...] = ()
    fix: str | None = None
    effects: tuple[Effect, ...] = ()
    tokens: float | None = None
    impact: Impact | None = None
    healthy_s: float | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The figures of the cluster that the prediction rests on, each with its origin."""
        from assay.predict.inputs import inputs_of

        return inputs_of(self.cluster, self.prediction.peak_dtype)

    @property
    def why_no_mfu(self) -> str:
        """The reason for a missing MFU."""
        gpu = self.cluster.node.gpu
        dtype = self.prediction.peak_dtype
        if gpu is None or gpu.source == "run":
            return "no datasheet gives this device's peak"
        return gpu.why_no_peak(dtype) or f"no {dtype} peak"

    @property
    def why_no_speedup(self) -> str:
        """The reason for a missing speed-up."""
        return "the batch or the groups do not divide over the fewest nodes that hold a replica"


def predict_step(options: PredictOptions) -> Predicted:
    """Predict a step; an `InputError` says which input does not fit the others."""
    found = find_cluster(options.cluster, nodes=options.nodes, base=options.base, gpu=options.gpu)
    built = found.cluster
    gpu = _gpu_of(built)
    workload = _workload(options)
    layout = parse_layout(options.layout, gpus=built.gpus)
    shape = workload.model
    layout.check(gpus=built.gpus, layers=shape.layers, heads=shape.heads, seq_len=workload.seq_len)
    one = Situation(
        workload=workload,
        layout=layout,
        global_batch=options.global_batch,
        gpu=calibrated_gpu(gpu, built.calibration),
        stack=stack(options.stack or DEFAULT_STACK),
    )
    network, physics = _network(built, sharp=options.sharp), calibrated_physics(built.calibration)
    assumed = (*(() if options.stack else (_UNSTACKED,)), *found.assumed)
    if options.sharp:
        assumed = (*assumed, _SHARP)
    whole = predict(one, network, physics=physics, assumptions=assumed)
    harm = _impact(built, options.conditions)
    result = whole if harm is None else _impaired(one, network, physics, harm, assumed)
    curve = scaling_curve(
        result,
        lambda nodes: _network(built.of(nodes), sharp=options.sharp),
        node_gpus=len(built.node.gpus),
        physics=physics,
    )
    return Predicted(
        cluster=built,
        prediction=replace(result, mfu_frac=_mfu_frac(result, gpu)),
        impact=harm,
        healthy_s=None if harm is None else whole.step_time_s.value,
        speedup_frac=curve[-1].frac if curve else None,
        curve=curve,
        fix=None if result.fits else smallest_change_that_fits(one) or _NO_CHANGE,
        effects=sensitivity(one, network, physics=physics) if options.sensitivity else (),
        tokens=options.tokens,
    )


def _network(built: Cluster, *, sharp: bool) -> Network:
    """What groups of ranks talk over; the fabric's own model is loaded only where switches are to add."""
    if not sharp:
        return network_of(built)
    from assay.predict.fabric_network import SharpNetwork

    return SharpNetwork(network_of(built), built)


def _impact(built: Cluster, conditions: Conditions | None) -> Impact | None:
    """What failures, loss and routing do; the fabric behind it is loaded only where something is asked."""
    if conditions is None or not conditions.any:
        return None
    from assay.fabric.failures.impact import impact

    return impact(built, conditions)


def _impaired(
    one: Situation, network: Network, physics: Physics, harm: Impact, assumed: tuple[str, ...]
) -> Prediction:
    """The step with everything that is asked to be wrong."""
    from assay.predict.impaired import ImpairedNetwork, slowed_gpu

    endless = [name for name, factor in harm.slowdown.items() if not math.isfinite(factor)]
    if endless:
        raise InputError(
            f"{harm.left.stranded:,} flows have no way left ({', '.join(endless)}), so that no step ends",
            fix="let fewer things fail at once, or look at assay predict fabric --fail …",
        )
    slowed = replace(one, gpu=slowed_gpu(one.gpu, harm.gpu_part))
    words = [f"{failure}" for failure in harm.conditions.failures]
    told = (f"failed: {', '.join(words)}",) if words else ()
    return predict(
        slowed, ImpairedNetwork(network, harm.slowdown), physics=physics, assumptions=(*assumed, *told)
    )


def _gpu_of(built: Cluster) -> Gpu:
    if built.node.gpu is None:
        raise InputError(
            f"{built.id} does not say which GPU it has",
            fix=f"say --gpu, one of {', '.join(candidates(built.node))}, or name a shipped system",
        )
    return built.node.gpu


def _mfu_frac(result: Prediction, gpu: Gpu) -> float | None:
    """MFU against the datasheet, also where the prediction used measured peaks; None without a datasheet."""
    peak = None if gpu.source == "run" else gpu.peak(result.peak_dtype)
    return None if peak is None else result.model_flop_per_s / peak


def timeline(predicted: Predicted) -> dict[str, object]:
    """The step in Chrome's trace format: the pipeline, and what follows it."""
    return step_trace(predicted.prediction, cluster=predicted.cluster.name)


def _workload(options: PredictOptions) -> Workload:
    shape = read_model(options.workload)
    return Workload(model=shape, seq_len=options.seq_len or shape.seq_len, task=options.task)


def read_model(said: str) -> Transformer:
    """A shipped model by name, or one from a config.json, Megatron-LM arguments or YAML."""
    path = Path(said)
    if path.suffix == ".json" or path.is_dir():
        file = path / "config.json" if path.is_dir() else path
        return model_from_config(read_text(file), where=str(file))
    if path.suffix in (".yaml", ".yml", ".toml"):
        return model_from_file(path)
    if path.suffix in (".sh", ".args", ".txt") and path.is_file():
        return model_from_megatron(read_text(path), where=str(path))
    return model(said)


def is_job(said: str) -> bool:
    """Whether a workload's name or file is a job of phases and not a language model."""
    path = Path(said)
    if path.suffix in (".yaml", ".yml", ".toml") and path.is_file():
        return "phases" in read_document(path).data
    return said.strip().lower() in job_ids()


def model_names() -> tuple[str, ...]:
    """Ids of the shipped models."""
    return tuple(one.id for one in models())
