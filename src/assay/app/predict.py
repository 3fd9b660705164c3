"""`assay predict`: how long a step takes, and why; and the group that also has `collective`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option
from assay.app.predict_collective import collective
from assay.app.predict_fabric import fabric
from assay.app.predict_impact import impact_object, show_impact
from assay.app.predict_job import show_job
from assay.app.predict_memory_pool import memory_pool

if TYPE_CHECKING:
    from assay.api.predicting import Predicted


class _StepFirst(click.Group):
    """`assay predict --cluster …` is `assay predict step --cluster …`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `step` in front where no command is named."""
        if args and args[0] not in (*self.list_commands(ctx), "-h", "--help"):
            args = ["step", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_StepFirst)
def predict() -> None:
    """How long a step or a collective takes on a cluster, and why.

    Without a command's name a training step is predicted: `assay predict --cluster dgx-h100 --nodes 128 …`.
    """


predict.add_command(collective)
predict.add_command(fabric)
predict.add_command(memory_pool)


@predict.command()
@click.option("--cluster", required=True, metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option("--nodes", required=True, type=click.IntRange(min=1), metavar="N", help="Nodes of it.")
@click.option(
    "--workload",
    required=True,
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
@click.option("--tokens", type=float, help="A token budget: how many days it takes.")
@click.option("--explain", is_flag=True, help="For each term the formula and its source.")
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
@json_option
def step(
    cluster: str,
    nodes: int,
    workload: str,
    layout: str,
    global_batch: int | None,
    settings: tuple[str, ...],
    seq_len: int | None,
    task: str,
    stack: str | None,
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
    as_json: bool,
) -> int:
    """Predict the time of one training step: where it goes, how sure that is, and what would change it.

    Exit code 0; 1 where the model does not fit in memory.
    """
    from assay.api.predicting import PredictOptions, predict_step, timeline
    from assay.api.predicting_jobs import is_job, predict_named_job
    from assay.fabric.failures.impact import Conditions

    conditions = Conditions.of(
        fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, adaptive=adaptive, repeat=repeat
    )
    if is_job(workload):
        done_job = predict_named_job(cluster, nodes, workload, settings, conditions)
        return show_job(done_job, as_json=as_json)
    if global_batch is None or settings:
        raise click.UsageError(
            "--set is for jobs, not for models" if settings else "a model needs --global-batch"
        )
    done = predict_step(
        PredictOptions(
            cluster=cluster,
            nodes=nodes,
            workload=workload,
            layout=layout,
            global_batch=global_batch,
            seq_len=seq_len,
            task=task,
            stack=stack,
            tokens=tokens,
            sensitivity=sensitivity,
            conditions=conditions,
        )
    )
    if trace:
        trace.write_text(json.dumps(timeline(done)), encoding="utf-8")
        click.echo(f"wrote {trace}", err=True)
    if as_json:
        click.echo(json.dumps(_answer(done), indent=1))
    else:
        _show(done, explain=explain)
    return 0 if done.prediction.fits else 1


def _answer(done: Predicted) -> dict[str, object]:
    """The prediction as one JSON object; names carry units, a missing value is null."""
    from assay import __version__
    from assay.codec.answer import SCHEMA_VERSION

    p = done.prediction
    layout = p.situation.layout
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "predict",
        "assay_version": __version__,
        "cluster": done.cluster.id,
        "nodes": done.cluster.count,
        "gpus": layout.ranks,
        "workload": p.situation.workload.model.id,
        "layout": layout.product,
        "step_time_s": {"value": p.step_time_s.value, "low": p.step_time_s.low, "high": p.step_time_s.high},
        "tokens_per_s_per_gpu": p.tokens_per_s_per_gpu,
        "model_flop_per_s": p.model_flop_per_s,
        "mfu_frac": p.mfu_frac,
        "mfu_formula": p.mfu_formula,
        "speedup_frac": done.speedup_frac,
        "days": p.days(done.tokens) if done.tokens else None,
        "breakdown": p.breakdown_s,
        "memory_bytes": p.memory_bytes,
        "capacity_bytes": p.capacity_bytes,
        "fits": p.fits,
        "assumptions": list(p.assumptions),
        "sensitivity": [
            {"input": e.input, "by": e.by, "step_frac": e.step_frac, "changes": e.changes}
            for e in done.effects
        ],
        "extrapolated": list(p.extrapolated),
        **({} if done.impact is None else impact_object(done.impact, done.healthy_s, p.step_time_s.value)),
    }


def _show(done: Predicted, *, explain: bool) -> None:
    from assay.predict.explain import MEMORY, STEP
    from assay.units import show, show_bytes

    p = done.prediction
    t = p.step_time_s
    model = p.situation.workload.model
    click.echo(f"{model.name} on {done.cluster.name}: {p.situation.layout.product} GPUs")
    click.echo(f"step       {show(t.value, 's')}  (80 %: {show(t.low, 's')} to {show(t.high, 's')})")
    click.echo(
        f"rate       {p.tokens_per_s_per_gpu:,.0f} tokens/s/GPU, {show(p.model_flop_per_s, 'FLOP/s')} a GPU"
    )
    if p.mfu_frac is not None:
        click.echo(f"MFU        {p.mfu_frac:.1%}  ({p.mfu_formula})")
    if done.speedup_frac is not None:
        click.echo(
            f"speed-up   {done.speedup_frac:.1%} of linear against the fewest nodes that hold a replica"
        )
    if done.tokens:
        click.echo(f"days       {p.days(done.tokens):,.1f} for {done.tokens:.3g} tokens")
    click.echo("\nwhere the step goes")
    for name, seconds in sorted(p.breakdown_s.items(), key=lambda item: -item[1]):
        if seconds > 0:
            why = f"   {STEP[name].formula} [{STEP[name].source}]" if explain else ""
            click.echo(f"  {name:14s} {show(seconds, 's'):>10s} {seconds / t.value:6.1%}{why}")
    verdict = "fits" if p.fits else "DOES NOT FIT"
    click.echo(f"\nmemory of the fullest rank: {verdict} in {show_bytes(p.capacity_bytes)}")
    for name, size in p.memory_bytes.items():
        why = f"   {MEMORY[name].formula} [{MEMORY[name].source}]" if explain else ""
        click.echo(f"  {name:14s} {show_bytes(size):>10s}{why}")
    click.echo(f"  {'total':14s} {show_bytes(p.total_bytes):>10s}")
    if not p.fits:
        from assay.api.predicting import smallest_fix

        click.echo(f"  fix: {smallest_fix(done)}")
    for line in p.assumptions:
        click.echo(f"assumed: {line}")
    for line in p.extrapolated:
        click.echo(f"extrapolated: {line}")
    if done.impact is not None:
        show_impact(done.impact, done.healthy_s, t.value)
    if done.effects:
        click.echo("\nwhat moves the answer (each input 10 % larger, or the setting named)")
        for effect in done.effects:
            change = f"{effect.step_frac:+.2%}" if effect.changes else "changed nothing"
            click.echo(f"  {effect.input:36s} {change}")
