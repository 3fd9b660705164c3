"""`assay predict`: how long a step takes, and why; and the group that also has `collective`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.groups import Commands, LazyGroup
from assay.app.options import failing, json_option, page_options
from assay.app.say import say_json, say_wrote
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.api.predicting_jobs import PredictedJob
    from assay.api.tracing import FromTrace
    from assay.fabric.failures.impact import Conditions


COMMANDS: Commands = {
    "step": ("assay.app.predict", "step", "A training step or a job: time, where it goes, memory."),
    "collective": (
        "assay.app.predict_collective",
        "collective",
        "Time and bandwidth by size, what NCCL takes.",
    ),
    "fabric": ("assay.app.predict_fabric", "fabric", "Size, draw, break or check a fabric."),
    "memory-pool": (
        "assay.app.predict_memory_pool",
        "memory_pool",
        "Data in the memory of all GPUs of an NVLink domain.",
    ),
}


@click.group(cls=LazyGroup, lazily=COMMANDS, otherwise="step")
def predict() -> None:
    """How long a step or a collective takes on a cluster, and why.

    Without a command's name a training step is predicted: `assay predict --cluster dgx-h100 --nodes 128 …`.
    """


@click.command()
@click.option(
    "--cluster",
    required=True,
    metavar="NAME|FILE|RUN",
    help="A shipped system, a cluster file, an NCCL topology (.xml), or a measured run's folder.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes.  [default: the file's or run's]"
)
@click.option("--base", metavar="NAME", help="The system that a measured run was made on.")
@click.option("--gpu", metavar="NAME", help="The GPU of an NCCL topology, which does not name it.")
@click.option(
    "--workload",
    metavar="NAME|FILE",
    help="A shipped model or job (halo3d, spectral, montecarlo, composite, raytrace, volume), a Hugging Face "
    "config.json, Megatron-LM arguments (.sh, .args), or YAML.",
)
@click.option(
    "--layout",
    default="",
    metavar="tp=4,pp=4,…",
    help="tp pp vpp cp ep etp dp micro_batch sharding recompute …",
)
@click.option("--global-batch", type=click.IntRange(min=1), help="Sequences of one step (models only).")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of a job; may be repeated."
)
@click.option("--seq-len", type=click.IntRange(min=1), help="Tokens of a sequence.  [default: the model's]")
@click.option("--task", type=click.Choice(["pretrain", "sft", "lora"]), default="pretrain", show_default=True)
@click.option("--stack", metavar="NAME", help="Framework: megatron, nemo, torchtitan, fsdp, maxtext, …")
@click.option(
    "--from-trace",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A Kineto trace of the job on fewer nodes: its kernels and host gaps stay, its collectives are "
    "predicted for --nodes. Takes the place of --workload.",
)
@click.option(
    "--tokens", type=click.FloatRange(min=1), metavar="N", help="A token budget: how many days it takes."
)
@click.option("--explain", is_flag=True, help="For each term the formula, its inputs and their sources.")
@click.option("--sensitivity", is_flag=True, help="Which inputs move the answer, and by how much.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the pipeline as a timeline that Perfetto opens.",
)
@failing
@click.option(
    "--adaptive/--no-adaptive", default=None, help="Adaptive routing.  [default: as the fabric has it]"
)
@click.option("--sharp", is_flag=True, help="InfiniBand switches add up what nodes all-reduce.")
@page_options
@json_option
def step(
    cluster: str,
    nodes: int | None,
    base: str | None,
    gpu: str | None,
    workload: str | None,
    layout: str,
    global_batch: int | None,
    settings: tuple[str, ...],
    seq_len: int | None,
    task: str,
    stack: str | None,
    from_trace: Path | None,
    tokens: float | None,
    explain: bool,
    sensitivity: bool,
    trace: Path | None,
    fail: tuple[str, ...],
    degrade: tuple[str, ...],
    loss: float,
    ecmp: bool,
    repeat: str | None,
    adaptive: bool | None,
    sharp: bool,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Predict the time of one training step: where it goes, how sure that is, and what would change it.

    Exit code 0; 1 where the model does not fit in memory.
    """
    if from_trace:
        asked = (workload, task != "pretrain", stack, tokens, sensitivity, trace, gpu, settings, fail)
        _require_trace_options(*asked)
        traced = _from_trace(from_trace, cluster, nodes, base, layout, global_batch, seq_len)
        return _show_trace(traced, html=html, lang=lang, as_json=as_json)
    from assay.api.predicting import PredictOptions, is_job, predict_step, timeline
    from assay.app.prediction import answer, show_prediction

    if workload is None:
        raise InputError("--workload is missing", fix="name a model or a job, or give --from-trace")
    conditions = None
    if fail or degrade or loss or ecmp or repeat or adaptive is not None:
        from assay.fabric.failures.impact import Conditions

        conditions = Conditions.of(
            fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, adaptive=adaptive, repeat=repeat
        )
    if is_job(workload):
        job = _job(cluster, nodes, workload, settings, conditions, sharp=sharp)
        from assay.app.predict_job import show_job

        return show_job(job, html=html, lang=lang, as_json=as_json)
    if global_batch is None or settings:
        raise click.UsageError(
            "--set is for jobs, not for models" if settings else "a model needs --global-batch"
        )
    done = predict_step(
        PredictOptions(
            cluster=cluster,
            nodes=nodes,
            base=base,
            gpu=gpu,
            workload=workload,
            layout=layout,
            global_batch=global_batch,
            seq_len=seq_len,
            task=task,
            stack=stack,
            tokens=tokens,
            sensitivity=sensitivity or html is not None,
            conditions=conditions,
            sharp=sharp,
        )
    )
    if trace:
        from assay.codec.text_file import write_json

        write_json(trace, timeline(done))
        say_wrote(trace)
    if html:
        from assay.api.pages import write_prediction_page

        write_prediction_page(done, html, lang=lang, answer=answer(done))
        say_wrote(html)
    if as_json:
        say_json(answer(done))
    else:
        show_prediction(done, explain=explain, sensitivity=sensitivity)
    return 0 if done.prediction.fits else 1


def _job(
    cluster: str,
    nodes: int | None,
    workload: str,
    settings: tuple[str, ...],
    conditions: Conditions | None,
    *,
    sharp: bool,
) -> PredictedJob:
    from assay.api.predicting_jobs import predict_named_job

    if nodes is None:
        raise InputError("--nodes is missing", fix="a job needs the number of nodes")
    return predict_named_job(cluster, nodes, workload, settings, conditions, sharp=sharp)


def _require_trace_options(*asked: object) -> None:
    names = ("--workload", "--task", "--stack", "--tokens", "--sensitivity", "--trace", "--gpu")
    for name, value in zip((*names, "--set", "--fail"), asked, strict=True):
        if value:
            raise InputError(f"{name} has no meaning beside --from-trace", fix=f"leave {name} out")


def _from_trace(
    file: Path,
    cluster: str,
    nodes: int | None,
    base: str | None,
    layout: str,
    global_batch: int | None,
    seq_len: int | None,
) -> FromTrace:
    from assay.api.tracing import predict_trace, shard_ranks_of

    return predict_trace(
        file,
        cluster=cluster,
        nodes=nodes,
        base=base,
        shard_ranks=shard_ranks_of(layout),
        global_batch=global_batch,
        seq_len=seq_len,
    )


def _show_trace(done: FromTrace, *, html: Path | None, lang: str, as_json: bool) -> int:
    from assay.app.answers import show_answer
    from assay.app.predict_trace import answer, page

    show_answer(
        lambda _: answer(done), lambda texts: page(done, texts), lang=lang, html=html, as_json=as_json
    )
    return 0
