"""A step predicted from a trace, on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.app.say import say
from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.api.tracing import FromTrace


def answer(done: FromTrace) -> dict[str, object]:
    """The JSON object; what a trace cannot tell is null beside a reason."""
    p = done.prediction
    t = p.step_time_s
    unknown = "a trace does not tell the model: give --workload for a prediction by formulas"
    return headed("predict") | {
        "cluster": done.cluster.id,
        "nodes": done.cluster.count,
        "gpus": p.ranks,
        "from_trace": done.traced.file,
        "step_time_s": {"value": t.value, "low": t.low, "high": t.high},
        "tokens_per_s_per_gpu": done.tokens_per_s_per_gpu,
        "tokens_reason": None if done.tokens else "give --global-batch and --seq-len of the larger job",
        "model_flop_per_s": None,
        "mfu_frac": None,
        "mfu_formula": None,
        "mfu_reason": unknown,
        "speedup_frac": done.speedup_frac,
        "breakdown": p.breakdown_s,
        "memory_bytes": None,
        "memory_reason": unknown,
        "traced": {
            "world": p.world,
            "steps": done.traced.steps,
            "step_time_s": p.measured_s,
            "breakdown": p.measured_breakdown_s,
            "replayed_step_time_s": p.replayed_s,
            "replay_error_frac": p.replayed_s / p.measured_s - 1,
            "launch_s": done.traced.launch_s,
        },
        "assumptions": [*p.assumptions, *done.assumed],
        "sensitivity": [],
        "extrapolated": [],
    }


def show_trace(done: FromTrace) -> None:
    """Print it: the step, where it goes beside where the traced one went, and what the replay is worth."""
    from assay.units import show

    p = done.prediction
    t = p.step_time_s
    say(f"{done.traced.file}: {p.world} ranks, {done.traced.steps} steps traced")
    say(f"on {done.cluster.name}: {done.cluster.count} nodes, {p.ranks} GPUs")
    say(f"step       {show(t.value, 's')}  (80 %: {show(t.low, 's')} to {show(t.high, 's')})")
    say(f"traced     {show(p.measured_s, 's')}")
    error = p.replayed_s / p.measured_s - 1
    told = f"{show(p.replayed_s, 's')} ({error:+.1%}): the traced job with its collectives predicted"
    say(f"replay     {told}", hang=11)
    if done.tokens_per_s_per_gpu is not None:
        say(f"rate       {done.tokens_per_s_per_gpu:,.0f} tokens/s/GPU")
    say(f"speed-up   {done.speedup_frac:.1%} of linear against the traced job")
    say(f"\n{'where the step goes':<28} {'predicted':>12} {'':>6} {'traced':>12}")
    names = dict.fromkeys((*p.breakdown_s, *p.measured_breakdown_s))
    for name in names:
        new, old = p.breakdown_s.get(name), p.measured_breakdown_s.get(name)
        share = f"{new / t.value:6.1%}" if new else ""
        say(f"  {name:<26} {_time(new):>12} {share:>6} {_time(old):>12}")
    for line in (*p.assumptions, *done.assumed):
        say(f"assumed: {line}", hang=9)


def _time(seconds: float | None) -> str:
    from assay.units import show

    return show(seconds, "s") if seconds else "–"
