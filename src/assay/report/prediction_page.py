"""A prediction as one HTML page that opens offline: the answer, its terms, its scaling, what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.catalog.messages import Texts
from assay.domain.cluster import Cluster
from assay.domain.message import Message
from assay.predict.explain import MEMORY, STEP, Reason
from assay.predict.inputs import Input
from assay.predict.prediction import Prediction, ScalingPoint
from assay.predict.sensitivity import Effect
from assay.predict.timeline import BACKWARD, FORWARD, WEIGHT_GRADIENT, Pass
from assay.report import charts
from assay.report.charts import Words
from assay.report.page import LANG, embedded, page_environment
from assay.report.prediction_charts import Bar, Span, bars, timeline
from assay.units import show, show_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionData:
    """All that the page shows. `passes` is the pipeline, empty without one; `shown_micro_batches` of it."""

    prediction: Prediction
    cluster: Cluster
    speedup_frac: float | None
    curve: tuple[ScalingPoint, ...]
    inputs: tuple[Input, ...]
    effects: tuple[Effect, ...]
    fix: str | None
    tokens: float | None
    passes: tuple[Pass, ...]
    shown_micro_batches: int
    why_no_mfu: str
    why_no_speedup: str
    assay_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One row of a table: a term, its amount and share, and how it is computed."""

    name: str
    amount: str
    share: str
    formula: str
    source: str


def render_prediction(data: PredictionData, texts: Texts, *, answer_json: str | None = None) -> str:
    """The page as text. Needs the report extra."""
    env = page_environment(texts)
    p = data.prediction
    page = env.get_template("prediction.html.j2").render(
        data=data,
        p=p,
        lang=LANG[texts.lang],
        model=p.situation.workload.model.name,
        layout=p.situation.layout,
        days=p.days(data.tokens) if data.tokens else None,
        steps=_steps(p, texts),
        memory=_memory(p, texts),
        total=show_bytes(p.total_bytes),
        capacity=show_bytes(p.capacity_bytes),
        largest=texts.label(f"memory.{max(p.memory_bytes.items(), key=lambda item: item[1])[0]}"),
        breakdown=breakdown_bars(p.breakdown_s, texts, prefix="step."),
        memory_bars=_memory_bars(p, texts),
        scaling=_scaling(data.curve, texts),
        pipeline=_pipeline(data, texts),
        inputs=data.inputs,
        effects=data.effects,
    )
    return embedded(answer_json, str(page))


def _steps(p: Prediction, texts: Texts) -> list[Term]:
    ranked = sorted(p.breakdown_s.items(), key=lambda item: -item[1])
    whole = p.step_time_s.value
    return [
        _term(texts, "step", name, show(seconds, "s"), f"{seconds / whole:.1%}", STEP.get(name))
        for name, seconds in ranked
        if seconds > 0
    ]


def _memory(p: Prediction, texts: Texts) -> list[Term]:
    return [
        _term(texts, "memory", name, show_bytes(size), f"{size / p.capacity_bytes:.1%}", MEMORY.get(name))
        for name, size in p.memory_bytes.items()
        if size > 0
    ]


def _term(texts: Texts, kind: str, name: str, amount: str, share: str, reason: Reason | None) -> Term:
    return Term(
        name=texts.label(f"{kind}.{name}"),
        amount=amount,
        share=share,
        formula="" if reason is None else texts.label(reason.formula),
        source="" if reason is None else texts.label(reason.source),
    )


def _words(texts: Texts, name: str, **axes: str) -> Words:
    return Words(
        name=name,
        title=texts.label(f"prediction.{name}"),
        description=texts.label(f"prediction.{name}.caption"),
        **{axis: texts.label(code) for axis, code in axes.items()},
    )


def breakdown_bars(terms_s: Mapping[str, float], texts: Texts, *, prefix: str = "") -> str:
    """Where a step goes, the longest first; `prefix` makes the code of a term's name."""
    whole = sum(terms_s.values())
    every = [
        Bar(label=texts.label(prefix + name), value=s, text=f"{show(s, 's')} · {s / whole:.1%}")
        for name, s in sorted(terms_s.items(), key=lambda term: -term[1])
        if s > 0
    ]
    return bars(every, unit="s", words=_words(texts, "breakdown", x="prediction.axis.time"))


def _memory_bars(p: Prediction, texts: Texts) -> str:
    every = [
        Bar(label=texts.label(f"memory.{name}"), value=size, text=show_bytes(size))
        for name, size in p.memory_bytes.items()
        if size > 0
    ]
    every.append(
        Bar(
            label=texts.label("prediction.total"),
            value=p.total_bytes,
            text=show_bytes(p.total_bytes),
            total=True,
        )
    )
    words = _words(texts, "memory", x="prediction.axis.memory")
    return bars(every, unit="B", words=words, bound=p.capacity_bytes)


def _scaling(curve: Sequence[ScalingPoint], texts: Texts) -> str | None:
    if len(curve) < 2:
        return None
    points = [charts.Point(line="", x=at.gpus, y=at.speedup * curve[0].gpus) for at in curve]
    words = _words(texts, "scaling", x="prediction.axis.gpus", y="prediction.axis.speedup")
    return charts.scaling(points, words=words, ideal=texts.label("picture.ideal"))


def _pipeline(data: PredictionData, texts: Texts) -> tuple[str, str] | None:
    """The picture of the pipeline and its caption, or None without one."""
    if not data.passes:
        return None
    words_of = {
        FORWARD: texts.label("prediction.forward"),
        BACKWARD: texts.label("prediction.backward"),
        WEIGHT_GRADIENT: texts.label("prediction.weight_gradient"),
    }
    shown = {one.kind for one in data.passes}
    kinds = [words for kind, words in words_of.items() if kind in shown]
    spans = [
        Span(
            lane=one.stage,
            begin_s=one.start_s,
            end_s=one.end_s,
            kind=words_of[one.kind],
            text=str(one.micro_batch + 1),
        )
        for one in data.passes
    ]
    words = _words(texts, "pipeline", x="prediction.axis.time", y="prediction.axis.stage")
    layout = data.prediction.situation.layout
    caption = texts.say(
        Message.of(
            "prediction.pipeline.of",
            shown=data.shown_micro_batches,
            all=data.prediction.micro_batches,
            stages=layout.pp,
            chunks=layout.vpp,
        )
    )
    return timeline(spans, words=words, kinds=kinds), caption
