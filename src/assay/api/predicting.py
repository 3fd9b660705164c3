"""`assay predict`: files and catalogues joined with the predictor."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass, replace
from pathlib import Path

from assay.catalog.clusters import cluster, cluster_ids, load_cluster
from assay.catalog.models import model, model_from_config, model_from_file, model_from_megatron, models
from assay.domain.cluster import Cluster
from assay.domain.layout import parse_layout
from assay.domain.workload import Transformer, Workload
from assay.errors import InputError
from assay.fabric.failures.impact import Conditions, Impact, impact
from assay.predict.impaired import ImpairedNetwork, slowed_gpu
from assay.predict.network import LinkNetwork
from assay.predict.prediction import Prediction, predict, smallest_change_that_fits, speedup_frac
from assay.predict.sensitivity import Effect, sensitivity
from assay.predict.situation import Situation
from assay.predict.stack import DEFAULT_STACK, stack
from assay.predict.timeline import pipeline, trace_events

#: Where no run, stack or layout says otherwise, all ranks wait for nothing but each other.
_UNSTACKED = f"no stack named: {DEFAULT_STACK} taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """What `assay predict` was asked."""

    cluster: str
    nodes: int
    workload: str
    layout: str
    global_batch: int
    seq_len: int | None = None
    task: str = "pretrain"
    stack: str | None = None
    tokens: float | None = None
    sensitivity: bool = False
    conditions: Conditions = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A prediction with the cluster it is for, and what was asked besides.

    `impact` is what failures, loss and routing do, and `healthy_s` the step without them.
    """

    cluster: Cluster
    prediction: Prediction
    speedup_frac: float | None
    effects: tuple[Effect, ...] = ()
    tokens: float | None = None
    impact: Impact | None = None
    healthy_s: float | None = None


def predict_step(options: PredictOptions) -> Predicted:
    """Predict a step; an `InputError` says which input does not fit the others."""
    built = read_cluster(options.cluster).of(options.nodes)
    gpu = built.node.gpu
    if gpu is None:
        raise InputError(
            f"the GPU of {built.id} is not known", fix="name a shipped system, or gpu in its file"
        )
    workload = _workload(options)
    layout = parse_layout(options.layout, gpus=built.gpus)
    shape = workload.model
    layout.check(gpus=built.gpus, layers=shape.layers, heads=shape.heads, seq_len=workload.seq_len)
    one = Situation(
        workload=workload,
        layout=layout,
        global_batch=options.global_batch,
        gpu=gpu,
        stack=stack(options.stack or DEFAULT_STACK),
    )
    network = LinkNetwork.of(built)
    assumed = () if options.stack else (_UNSTACKED,)
    whole = predict(one, network, assumptions=assumed)
    harm = impact(built, options.conditions) if options.conditions.any else None
    result = whole if harm is None else _impaired(one, network, harm, assumed)
    return Predicted(
        cluster=built,
        prediction=result,
        impact=harm,
        healthy_s=None if harm is None else whole.step_time_s.value,
        speedup_frac=speedup_frac(
            result, lambda nodes: LinkNetwork.of(built.of(nodes)), node_gpus=len(built.node.gpus)
        ),
        effects=sensitivity(one, network) if options.sensitivity else (),
        tokens=options.tokens,
    )


def _impaired(one: Situation, network: LinkNetwork, harm: Impact, assumed: tuple[str, ...]) -> Prediction:
    """The step with everything that is asked to be wrong."""
    endless = [name for name, factor in harm.slowdown.items() if not math.isfinite(factor)]
    if endless:
        raise InputError(
            f"{harm.left.stranded:,} flows have no way left ({', '.join(endless)}), so that no step ends",
            fix="let fewer things fail at once, or look at assay predict fabric --fail …",
        )
    slowed = replace(one, gpu=slowed_gpu(one.gpu, harm.gpu_part))
    words = [f"{failure}" for failure in harm.conditions.failures]
    told = (f"failed: {', '.join(words)}",) if words else ()
    return predict(slowed, ImpairedNetwork(network, harm.slowdown), assumptions=(*assumed, *told))


def timeline(predicted: Predicted) -> dict[str, object]:
    """The step's pipeline in Chrome's trace format."""
    result = predicted.prediction
    layout = result.situation.layout
    tail = {
        name: result.breakdown_s[name] for name in ("dp_gradients", "optimizer", "dp_weights", "step_host")
    }
    passes = pipeline(
        pp=layout.pp,
        vpp=layout.vpp,
        micro_batches=result.micro_batches,
        forward_s=result.forward_s,
        backward_s=result.backward_s,
    )
    return trace_events(
        passes, name=f"{result.situation.workload.model.name} on {predicted.cluster.name}", tail=tail
    )


def text_lines(file: Path) -> list[str]:
    """The lines of a text file, also of one packed with gzip."""
    try:
        raw = file.read_bytes()
        text = gzip.decompress(raw) if file.suffix == ".gz" else raw
        return text.decode("utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"no file {str(file)!r}", fix="check the path") from None
    except (OSError, EOFError) as fault:
        raise InputError(f"cannot read: {fault}", where=str(file)) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(file)) from None


def read_cluster(said: str) -> Cluster:
    """A shipped system by name, or a cluster file."""
    path = Path(said)
    if path.suffix in (".yaml", ".yml", ".toml") or path.is_file():
        return load_cluster(path)
    if said.strip().lower() not in cluster_ids() and path.suffix == ".xml":
        raise InputError(f"{said} is an NCCL topology; give a cluster file that names it")
    return cluster(said)


def _workload(options: PredictOptions) -> Workload:
    shape = read_model(options.workload)
    return Workload(model=shape, seq_len=options.seq_len or shape.seq_len, task=options.task)


def read_model(said: str) -> Transformer:
    """A shipped model by name, or one from a config.json, Megatron-LM arguments or YAML."""
    path = Path(said)
    if path.suffix == ".json" or path.is_dir():
        file = path / "config.json" if path.is_dir() else path
        return model_from_config("\n".join(text_lines(file)), where=str(file))
    if path.suffix in (".yaml", ".yml", ".toml"):
        return model_from_file(path)
    if path.suffix in (".sh", ".args", ".txt") and path.is_file():
        return model_from_megatron("\n".join(text_lines(path)), where=str(path))
    return model(said)


def model_names() -> tuple[str, ...]:
    """Ids of the shipped models."""
    return tuple(one.id for one in models())


def smallest_fix(done: Predicted) -> str:
    """The mildest change that makes a layout fit, in words."""
    change = smallest_change_that_fits(done.prediction.situation)
    return change or "more model parallelism, or a GPU with more memory"
