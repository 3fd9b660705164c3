"""A predicted step on the terminal, 80 columns wide, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.app.predict_impact import impact_object, show_impact
from assay.app.say import say
from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.api.predicting import Predicted
    from assay.predict.explain import Reason
    from assay.predict.inputs import Input


def answer(done: Predicted) -> dict[str, object]:
    """The prediction as one JSON object; names carry units, a missing value is null beside its reason."""
    p = done.prediction
    layout = p.situation.layout
    t = p.step_time_s
    return headed("predict") | {
        "cluster": done.cluster.id,
        "nodes": done.cluster.count,
        "gpus": layout.ranks,
        "workload": p.situation.workload.model.id,
        "layout": layout.product,
        "step_time_s": {"value": t.value, "low": t.low, "high": t.high},
        "tokens_per_s_per_gpu": p.tokens_per_s_per_gpu,
        "model_flop_per_s": p.model_flop_per_s,
        "mfu_frac": p.mfu_frac,
        "mfu_formula": p.mfu_formula,
        "mfu_reason": None if p.mfu_frac is not None else done.why_no_mfu,
        "speedup_frac": done.speedup_frac,
        "speedup_reason": None if done.speedup_frac is not None else done.why_no_speedup,
        "speedup": [
            {
                "nodes": point.nodes,
                "gpus": point.gpus,
                "speedup": point.speedup,
                "efficiency_frac": point.frac,
            }
            for point in done.curve
        ],
        "days": p.days(done.tokens) if done.tokens else None,
        "days_reason": None if done.tokens else "no token budget was given (--tokens)",
        "tokens": done.tokens,
        "breakdown": p.breakdown_s,
        "memory_bytes": p.memory_bytes,
        "capacity_bytes": p.capacity_bytes,
        "fits": p.fits,
        "smallest_change_that_fits": done.fix,
        "inputs": [input_object(one) for one in done.inputs],
        "assumptions": list(p.assumptions),
        "sensitivity": [
            {"input": e.input, "by": e.by, "step_frac": e.step_frac, "changes": e.changes}
            for e in done.effects
        ],
        "extrapolated": list(p.extrapolated),
        **({} if done.impact is None else impact_object(done.impact, done.healthy_s, t.value)),
    }


def input_object(one: Input) -> dict[str, object]:
    """One figure that the prediction rests on."""
    return {
        "name": one.name,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unit": one.unit,
        "origin": one.origin.value,
        "source": one.source,
        "datasheet": one.datasheet,
    }


def show_prediction(done: Predicted, *, explain: bool, sensitivity: bool) -> None:
    """Print it: the answer first, then where the step and the memory go, then what it rests on."""
    from assay.units import show

    p = done.prediction
    t = p.step_time_s
    say(f"{p.situation.workload.model.name} on {done.cluster.name}")
    say(f"{p.situation.layout.product} GPUs")
    say(f"step       {show(t.value, 's')}  (80 %: {show(t.low, 's')} to {show(t.high, 's')})")
    say(f"rate       {p.tokens_per_s_per_gpu:,.0f} tokens/s/GPU, {show(p.model_flop_per_s, 'FLOP/s')} a GPU")
    mfu = f"{p.mfu_frac:.1%}" if p.mfu_frac is not None else f"– ({done.why_no_mfu})"
    say(f"MFU        {mfu}  ({p.mfu_formula})", hang=11)
    told = f"– ({done.why_no_speedup})"
    if done.speedup_frac is not None:
        fewest = done.curve[0].nodes if done.curve else done.cluster.count
        told = f"{done.speedup_frac:.1%} of linear against the fewest nodes that hold a replica ({fewest})"
    say(f"speed-up   {told}", hang=11)
    if done.tokens:
        say(f"days       {p.days(done.tokens):,.1f} for {done.tokens:.3g} tokens")
    _show_terms(done, explain=explain)
    _show_memory(done, explain=explain)
    if explain or done.cluster.calibration is not None:
        _show_inputs(done)
    for line in p.assumptions:
        say(f"assumed: {line}", hang=9)
    for line in p.extrapolated:
        say(f"extrapolated: {line}", hang=14)
    if done.impact is not None:
        show_impact(done.impact, done.healthy_s, t.value)
    if sensitivity:
        say("\nwhat moves the answer (each input 10 % larger, or the setting named)")
        for effect in done.effects:
            change = f"{effect.step_frac:+.2%}" if effect.changes else "changed nothing"
            say(f"  {effect.input:36s} {change}")


def _show_terms(done: Predicted, *, explain: bool) -> None:
    from assay.predict.explain import STEP
    from assay.units import show

    say("\nwhere the step goes")
    whole = done.prediction.step_time_s.value
    for name, seconds in sorted(done.prediction.breakdown_s.items(), key=lambda item: -item[1]):
        if seconds > 0:
            say(f"  {name:14s} {show(seconds, 's'):>10s} {seconds / whole:6.1%}")
            if explain:
                _show_reason(STEP[name])


def _show_memory(done: Predicted, *, explain: bool) -> None:
    from assay.predict.explain import MEMORY
    from assay.units import show_bytes

    p = done.prediction
    verdict = "fits" if p.fits else "DOES NOT FIT"
    say(f"\nmemory of the fullest rank: {verdict} in {show_bytes(p.capacity_bytes)}")
    for name, size in p.memory_bytes.items():
        say(f"  {name:14s} {show_bytes(size):>10s}")
        if explain:
            _show_reason(MEMORY[name])
    say(f"  {'total':14s} {show_bytes(p.total_bytes):>10s}")
    if not p.fits:
        name, most = max(p.memory_bytes.items(), key=lambda item: item[1])
        say(f"  the largest term is {name} with {show_bytes(most)}")
        say(f"  fix: {done.fix}")


def _show_inputs(done: Predicted) -> None:
    from assay.units import show

    say("\nwhat it rests on")
    for one in done.inputs:
        told = f" (datasheet {show(one.datasheet, one.unit)})" if one.datasheet is not None else ""
        say(f"  {one.name}: {show(one.value, one.unit)}{told}, {one.origin.value}", hang=6)
        say(f"      {one.source}", hang=6)


def _show_reason(reason: Reason) -> None:
    say(f"      {reason.formula} [{reason.source}]", hang=6)
