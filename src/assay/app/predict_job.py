"""A job of phases in `assay predict`: where its step goes, how it scales, what others have measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.app.answers import show_answer
from assay.app.predict_impact import impact_object
from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.api.predicting_jobs import PredictedJob
    from assay.catalog.messages import Texts
    from assay.domain.job import PublishedRun
    from assay.predict.jobs.price import JobPrediction, ScalingPoint
    from assay.report.answer_page import Page, Table


def show_job(done: PredictedJob, *, html: Path | None, lang: str, as_json: bool) -> int:
    """Show the prediction; 1 where a rank's data do not fit in its GPU."""
    show_answer(
        lambda _: _answer(done), lambda texts: _page(done, texts), lang=lang, html=html, as_json=as_json
    )
    return 0 if done.prediction.fits else 1


def _answer(done: PredictedJob) -> dict[str, object]:
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


def _page(done: PredictedJob, texts: Texts) -> Page:
    from assay.app.predict_impact import impact_lines
    from assay.domain.message import Message
    from assay.predict.jobs.price import RANGE
    from assay.report.answer_page import Page, Section
    from assay.report.prediction_page import breakdown_bars
    from assay.units import show_bytes

    p, label = done.prediction, texts.label
    low, high = (p.step_s * part for part in RANGE)
    named = {name.replace("_", " "): s for name, s in p.breakdown_s.items()}
    held = texts.say(
        Message.of(
            "job.memory.fits" if p.fits else "job.memory.no_fit",
            text=show_bytes(round(sum(p.memory_bytes.values()))),
            capacity=show_bytes(p.capacity_bytes),
        )
    )
    where = Section(
        title=label("prediction.breakdown"),
        table=_phases(p, texts),
        figures=(lambda: breakdown_bars(named, texts),),
    )
    sections = [where]
    for code, points in (("job.strong", done.strong), ("job.weak", done.weak)):
        if points:
            sections.append(Section(title=label(code), table=_scaling(points, texts)))
    if done.published:
        lines = tuple(_published(run, modelled_s, texts) for run, modelled_s in done.published)
        sections.append(Section(title=label("job.published"), lines=lines))
    if done.impact is not None:
        what, *effects = impact_lines(done.impact, done.healthy_s, p.step_s)
        sections.append(Section(title=label("job.wrong"), blocks=((what, "\n".join(effects)),)))
    return Page(
        kind="prediction.title",
        title=texts.say(
            Message.of("job.title", name=p.job.name, cluster=done.cluster.name, nodes=p.nodes, gpus=p.ranks)
        ),
        lead=(texts.say(Message.of("job.step", step_s=p.step_s, low_s=low, high_s=high)), held),
        sections=tuple(sections),
        notes=(
            *(texts.say(Message.of("trace.assumed", text=line)) for line in _assumed(done)),
            texts.say(Message.of("job.source", text=p.job.source)),
        ),
    )


def _phases(p: JobPrediction, texts: Texts) -> Table:
    from assay.report.answer_page import Table
    from assay.units import show

    rows = tuple(
        (
            q.name.replace("_", " "),
            show(q.exposed_s, "s"),
            f"{q.exposed_s / p.step_s:.1%}",
            show(q.time_s - q.exposed_s, "s"),
        )
        for q in sorted(p.phases, key=lambda q: -q.exposed_s)
    )
    return Table(headers=tuple(texts.label(f"job.head.{name}") for name in _PHASE_HEADS), rows=rows)


def _scaling(points: tuple[ScalingPoint, ...], texts: Texts) -> Table:
    from assay.report.answer_page import Table
    from assay.units import show

    rows = tuple(
        (
            f"{point.nodes:,}",
            f"{point.ranks:,}",
            show(point.step_s, "s"),
            f"{point.efficiency_frac:.1%}",
            texts.label("job.fits" if point.fits else "job.no_fit"),
        )
        for point in points
    )
    heads = tuple(texts.label(f"job.head.{name}") for name in _SCALING_HEADS)
    return Table(headers=heads, rows=rows, words=frozenset({4}))


def _published(run: PublishedRun, modelled_s: float | None, texts: Texts) -> str:
    from assay.domain.message import Message

    said = texts.say(
        Message.of(
            "job.run",
            what=run.what,
            figure=run.figure,
            gpus=run.gpus,
            system=run.system,
            source=run.source,
        )
    )
    if modelled_s is None:
        return said
    return f"{said} {texts.say(Message.of('job.modelled', cluster=run.cluster, step_s=modelled_s))}"


_PHASE_HEADS = ("phase", "exposed", "share", "hidden")
_SCALING_HEADS = ("nodes", "gpus", "step", "efficiency", "memory")
