"""A job of phases in `assay predict`: where its step goes, how it scales, what others have measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.app.predict_impact import impact_object, show_impact
from assay.app.say import say, say_json

if TYPE_CHECKING:
    from assay.api.predicting_jobs import PredictedJob
    from assay.predict.jobs.price import ScalingPoint


def show_job(done: PredictedJob, *, as_json: bool) -> int:
    """Print the prediction; 1 where a rank's data do not fit in its GPU."""
    if as_json:
        say_json(_answer(done))
    else:
        _show(done)
    return 0 if done.prediction.fits else 1


def _answer(done: PredictedJob) -> dict[str, object]:
    from assay.codec.answer import headed
    from assay.predict.jobs.price import RANGE

    p = done.prediction
    return headed("predict") | {
        "cluster": done.cluster.id,
        "nodes": p.nodes,
        "gpus": p.ranks,
        "workload": p.job.id,
        "library": p.job.library,
        "parameters": dict(p.values),
        "step_time_s": {"value": p.step_s, "low": p.step_s * RANGE[0], "high": p.step_s * RANGE[1]},
        "breakdown": p.breakdown_s,
        "phases": [
            {"name": q.name, "kind": q.kind, "time_s": q.time_s, "exposed_s": q.exposed_s} for q in p.phases
        ],
        "memory_bytes": dict(p.memory_bytes),
        "capacity_bytes": p.capacity_bytes,
        "fits": p.fits,
        "scaling": {"strong": _points(done.strong), "weak": _points(done.weak)},
        "published": [
            {
                "what": run.what,
                "system": run.system,
                "gpus": run.gpus,
                "figure": run.figure,
                "source": run.source,
                "step_time_s": run.step_time_s,
                "predicted_s": modelled_s,
                "predicted_on": run.cluster or None,
            }
            for run, modelled_s in done.published
        ],
        "assumptions": _assumed(done),
        "extrapolated": ["no measured run of this kind stands behind the range"],
        "source": p.job.source,
        **({} if done.impact is None else impact_object(done.impact, done.healthy_s, p.step_s)),
    }


def _points(points: tuple[ScalingPoint, ...]) -> list[dict[str, object]]:
    return [
        {
            "nodes": p.nodes,
            "gpus": p.ranks,
            "step_time_s": p.step_s,
            "efficiency_frac": p.efficiency_frac,
            "fits": p.fits,
        }
        for p in points
    ]


def _assumed(done: PredictedJob) -> list[str]:
    values = done.prediction.values
    parts = {p.name: p.about for p in done.prediction.job.parameters if p.name.endswith("_frac")}
    return [f"{about}: {values[name]:g}" for name, about in parts.items()]


def _show(done: PredictedJob) -> None:
    from assay.predict.jobs.price import RANGE
    from assay.units import show, show_bytes

    p = done.prediction
    step_s = p.step_s
    say(f"{p.job.name}\non {done.cluster.name}: {p.nodes:,} nodes, {p.ranks:,} GPUs")
    low, high = (show(step_s * part, "s") for part in RANGE)
    say(f"step       {show(step_s, 's')}  (assumed range {low} to {high})\n\nwhere the step goes")
    for q in sorted(p.phases, key=lambda q: -q.exposed_s):
        hidden = f"   ({show(q.time_s, 's')}, the rest hidden)" if q.exposed_s < q.time_s else ""
        say(f"  {q.name:18s} {show(q.exposed_s, 's'):>10s} {q.exposed_s / step_s:6.1%}{hidden}")
    total = sum(p.memory_bytes.values())
    verdict = "fits" if p.fits else "DOES NOT FIT"
    say(f"\nmemory of a rank: {show_bytes(round(total))}, {verdict} in {show_bytes(p.capacity_bytes)}")
    for title, points in (("the same job", done.strong), ("the same work on each GPU", done.weak)):
        if points:
            say(f"\nscaling, {title}\n  {'nodes':>7} {'GPUs':>8} {'step':>10} {'efficiency':>11}")
        for point in points:
            fits = "" if point.fits else "   does not fit"
            say(
                f"  {point.nodes:7,} {point.ranks:8,} {show(point.step_s, 's'):>10} "
                f"{point.efficiency_frac:11.1%}{fits}"
            )
    for run, modelled_s in done.published:
        say(f"\npublished: {run.what}: {run.figure}\n  {run.gpus:,} on {run.system} [{run.source}]")
        if modelled_s is not None:
            say(f"  the model on {run.cluster}, as many GPUs: {show(modelled_s, 's')}")
    if done.impact is not None:
        show_impact(done.impact, done.healthy_s, step_s)
    for line in _assumed(done):
        say(f"assumed: {line}")
    say(f"source: {p.job.source}")
