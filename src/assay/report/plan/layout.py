"""`plan layout`: ranked layouts, the Pareto front, the bill of the best, and flags to paste."""

from __future__ import annotations

from collections.abc import Sequence

from assay.catalog.messages import Texts
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.plan.answers import Layouts
from assay.plan.ranking import Candidate
from assay.report.answer_page import Page, Section, Table
from assay.report.charts import Words
from assay.report.plan.common import (
    amount,
    bill_object,
    bill_section,
    candidate_object,
    job_lines,
    job_object,
    layout_words,
    why_text,
)
from assay.report.plan.figures import Dot, pareto
from assay.units import show, show_bytes

#: Reasons that a row of the table shows; the JSON has them all.
_REASONS = 3


def answer(done: Layouts, texts: Texts) -> dict[str, object]:
    """The JSON object of `plan layout`; keys are only ever added."""
    found = done.ranking.found
    return {
        **headed("plan layout"),
        "cluster": done.ranking.cluster.id,
        "nodes": done.ranking.cluster.count,
        "gpus": found.space.gpus,
        "global_batch": done.ranking.global_batch,
        **job_object(done.ranking.job, texts),
        "space": found.space.points,
        "evaluated": found.evaluated,
        "pruned": sum(found.pruned.values()),
        "pruned_by": dict(found.pruned),
        "not_fitting": found.not_fitting,
        "candidates": [
            {
                **candidate_object(one.candidate, texts),
                **bill_object(one.bill, one.why_not, texts),
                "flags": {
                    f.framework: {
                        "language": f.language,
                        "text": f.text or None,
                        "reason": texts.say(f.why_not) if f.why_not else None,
                    }
                    for f in one.candidate.flags
                },
            }
            for one in done.costed
        ],
        "pareto": [candidate_object(one, texts) for one in done.ranking.front],
        "best_by_precision": {
            name: candidate_object(one, texts) for name, one in sorted(done.ranking.by_precision.items())
        },
    }


def page(done: Layouts, texts: Texts) -> Page:
    """The best layout first, then the others, the front, the bill and the flags."""
    ranking, best = done.ranking, done.ranking.candidates[0]
    found, p = ranking.found, best.prediction
    say = texts.say
    lead = [
        f"{layout_words(best.layout)}",
        say(
            Message.of(
                "plan.layout.best",
                step_s=p.step_time_s.value,
                low_s=p.step_time_s.low,
                high_s=p.step_time_s.high,
                tokens=round(p.tokens_per_s_per_gpu),
                mfu_frac=p.mfu_frac,
                free_frac=best.headroom_frac,
            )
        ),
        why_text(best.why, texts),
        say(
            Message.of(
                "plan.layout.counts",
                evaluated=found.evaluated,
                points=found.space.points,
                fits=len(found.points),
            )
        ),
    ]
    lead += [
        say(
            Message.of(
                "plan.layout.precision",
                text=name,
                layout=layout_words(one.layout, short=True),
                tokens=round(one.prediction.tokens_per_s_per_gpu),
            )
        )
        for name, one in ranking.by_precision.items()
        if len(ranking.by_precision) > 1
    ]
    sections = [
        Section(title=texts.label("plan.layout.ranked"), table=_table(done, texts)),
        _front(ranking.candidates, ranking.front, p.capacity_bytes, texts),
        _pruned(done, texts),
    ]
    if done.costed[0].bill is not None:
        sections.append(bill_section(done.costed[0].bill, texts))
    sections.append(
        Section(
            title=texts.label("plan.layout.flags"),
            lines=tuple(f"{f.framework}: {say(f.why_not)}" for f in best.flags if f.why_not),
            blocks=tuple((f.framework, f.text) for f in best.flags if not f.why_not),
        )
    )
    notes = [*job_lines(ranking.job, texts), *p.assumptions, *p.extrapolated]
    if done.costed[0].why_not:
        notes.append(done.costed[0].why_not)
    title = say(
        Message.of(
            "plan.layout.title",
            text=ranking.job.workload.model.name,
            gpus=found.space.gpus,
            cluster=ranking.cluster.name,
        )
    )
    return Page(title=title, lead=tuple(lead), sections=tuple(sections), notes=tuple(notes))


def _table(done: Layouts, texts: Texts) -> Table:
    rows = []
    for at, one in enumerate(done.costed, 1):
        p = one.candidate.prediction
        rows.append(
            (
                str(at),
                layout_words(one.candidate.layout, short=True),
                f"{p.tokens_per_s_per_gpu:,.0f}",
                show(p.mfu_frac, "1"),
                show(one.candidate.headroom_frac, "1", digits=2),
                amount(one.bill.total, one.bill.currency) if one.bill else "–",
                why_text(one.candidate.why[:_REASONS], texts),
            )
        )
    names = ("rank", "layout", "tokens", "mfu", "free", "cost", "why")
    return Table(
        headers=tuple(texts.label(f"plan.head.{name}") for name in names),
        rows=tuple(rows),
        words=frozenset({1, 6}),
        wide=frozenset({5, 6}),
    )


def _front(
    best: Sequence[Candidate], front: Sequence[Candidate], capacity_bytes: float, texts: Texts
) -> Section:
    on_front = {one.layout for one in front}
    dots = [_dot(one, True) for one in front] + [
        _dot(one, False) for one in best if one.layout not in on_front
    ]
    words = Words(
        name="pareto",
        title=texts.label("plan.layout.front"),
        description=texts.label("plan.layout.front_text"),
        x=texts.label("plan.axis.memory"),
        y=texts.label("plan.axis.tokens"),
    )
    rows = tuple(
        (
            layout_words(one.layout, short=True),
            f"{one.prediction.tokens_per_s_per_gpu:,.0f}",
            show_bytes(one.prediction.total_bytes),
        )
        for one in _thinned(front)
    )
    return Section(
        title=texts.label("plan.layout.front"),
        lines=(texts.label("plan.layout.front_text"),),
        table=Table(
            headers=(
                texts.label("plan.head.layout"),
                texts.label("plan.head.tokens"),
                texts.label("plan.head.memory"),
            ),
            rows=rows,
        ),
        figures=(lambda: pareto(dots, words=words, capacity_GB=capacity_bytes / 1e9),),
    )


def _thinned(front: Sequence[Candidate], most: int = 8) -> Sequence[Candidate]:
    """A few of the front, its ends included."""
    if len(front) <= most:
        return front
    return [front[round(at * (len(front) - 1) / (most - 1))] for at in range(most)]


def _dot(one: Candidate, front: bool) -> Dot:
    p = one.prediction
    return Dot(
        name=layout_words(one.layout, short=True),
        speed=p.tokens_per_s_per_gpu,
        memory_GB=p.total_bytes / 1e9,
        front=front,
    )


def _pruned(done: Layouts, texts: Texts) -> Section:
    found = done.ranking.found
    rows = [(texts.label(f"plan.pruned.{name}"), f"{count:,}") for name, count in found.pruned.items()]
    rows.append((texts.label("plan.pruned.memory"), f"{found.not_fitting:,}"))
    return Section(
        title=texts.label("plan.layout.pruned"),
        table=Table(
            headers=(texts.label("plan.head.because"), texts.label("plan.head.points")), rows=tuple(rows)
        ),
    )
