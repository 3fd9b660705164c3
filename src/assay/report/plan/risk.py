"""`plan risk` and `plan sweep`: what failures cost, and what a sweep wrote."""

from __future__ import annotations

from assay.catalog.faults import causes
from assay.catalog.messages import Texts
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.plan.answers import RiskAnswer
from assay.plan.risk import Span
from assay.report.answer_page import Page, Section, Table
from assay.report.charts import Words
from assay.report.plan.common import job_lines, job_object, work_object, work_words
from assay.report.plan.figures import Bar, bars
from assay.units import show, show_bytes


def answer(done: RiskAnswer, texts: Texts) -> dict[str, object]:
    """The JSON object of `plan risk`; ranges are those of the published failure rates."""
    r, save, read = done.risk, done.save, done.input
    return {
        **headed("plan risk"),
        "cluster": done.cluster.id,
        "nodes": done.cluster.count,
        "gpus": done.cluster.gpus,
        **job_object(done.job, texts),
        **work_object(done.work, texts),
        "failures_per_node_per_s": {
            "value": r.rate.value_per_s,
            "low": r.rate.low_per_s,
            "high": r.rate.high_per_s,
        },
        "failure_source": r.rate.source,
        "failures_by_cause": {name: part * r.failures.value for name, part in r.rate.causes.items()},
        "mtbf_s": _span(r.mtbf_s),
        "failures": _span(r.failures),
        "duration_s": r.duration_s,
        "save_s": r.job.save_s,
        "restart_s": {**r.job.restart.parts, "total": r.job.restart.total_s},
        "young_s": r.young_s,
        "availability_optimal_s": r.available_s,
        "interval_s": r.interval_s,
        "simulated_interval_s": r.simulated_interval_s,
        "goodput_frac": _span(r.goodput_frac),
        "simulated_goodput_frac": r.simulated_goodput_frac,
        "simulated_error_frac": r.simulated_error_frac,
        "lost_s": r.lost_s,
        "time_parts_frac": dict(r.parts),
        "spares": r.spares,
        "node_availability_frac": r.node_availability_frac,
        "all_up_frac": r.all_up_frac,
        "straggler_frac": r.straggler_frac,
        "scenarios": [
            {"code": s.code, "goodput_frac": s.goodput_frac, "change_frac": s.change_frac}
            for s in r.scenarios
        ],
        "checkpoint": {
            "total_bytes": save.total_bytes,
            "rank_bytes": save.rank_bytes,
            "blocking_s": save.blocking_s,
            "write_s": save.write_s,
            "load_s": save.load_s,
            "asynchronous": save.asynchronous,
            "fits_interval": save.fits_in(r.interval_s),
        },
        "storage": {"id": done.storage.id, "source": done.storage.source},
        "input": None
        if read is None
        else {
            "need_Bps": read.need_Bps,
            "need_4k_per_s": read.need_4k_per_s,
            "give_Bps": read.give_Bps,
            "give_4k_per_s": read.give_4k_per_s,
            "utilisation_frac": read.utilisation_frac,
            "bound_by": read.bound_by,
        },
    }


def _span(span: Span) -> dict[str, float]:
    low, high = sorted((span.low, span.high))
    return {"value": span.value, "low": low, "high": high}


def page(done: RiskAnswer, texts: Texts) -> Page:
    """Goodput and interval first, then causes, where time goes, storage, and what real fleets add."""
    r, label, say = done.risk, texts.label, texts.say
    low, high = sorted((r.goodput_frac.low, r.goodput_frac.high))
    lead = [
        say(
            Message.of(
                "plan.risk.goodput",
                goodput_frac=r.goodput_frac.value,
                low_frac=low,
                high_frac=high,
                lost_s=r.lost_s,
                run_s=r.duration_s,
            )
        ),
        say(
            Message.of(
                "plan.risk.interval",
                interval_s=r.interval_s,
                young_s=r.young_s,
                other_s=r.available_s,
                simulated_s=r.simulated_interval_s,
            )
        ),
        say(
            Message.of(
                "plan.risk.failures",
                failures=r.failures.value,
                mtbf_s=r.mtbf_s.value,
                spares=r.spares,
                nodes=r.job.nodes,
            )
        ),
    ]
    sections = (
        _causes(done, texts),
        _time(done, texts),
        _storage(done, texts),
        _beyond(done, texts),
    )
    title = say(
        Message.of(
            "plan.risk.title",
            text=done.job.name,
            gpus=done.cluster.gpus,
            cluster=done.cluster.name,
        )
    )
    notes = (
        say(Message.of("plan.risk.source", text=r.rate.source)),
        f"{label('plan.head.layout')}: {work_words(done.work, texts)}",
        *job_lines(done.job, texts),
    )
    return Page(title=title, lead=tuple(lead), sections=sections, notes=notes)


def _causes(done: RiskAnswer, texts: Texts) -> Section:
    r = done.risk
    scale = (r.failures.low / r.failures.value, r.failures.high / r.failures.value)
    rows = tuple(
        (
            texts.label(f"plan.cause.{name}"),
            f"{part * r.failures.value:,.1f}",
            f"{part * r.failures.value * scale[0]:,.1f}–{part * r.failures.value * scale[1]:,.1f}",
            show(part, "1"),
        )
        for name, part in sorted(r.rate.causes.items(), key=lambda item: -item[1])
    )
    names = ("cause", "failures", "range", "share")
    return Section(
        title=texts.label("plan.risk.causes"),
        lines=(texts.label("plan.risk.causes_text"),) if causes() else (),
        table=Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows),
    )


def _time(done: RiskAnswer, texts: Texts) -> Section:
    r = done.risk
    shown = {name: part for name, part in r.parts.items() if part > 0}
    rows = tuple(
        (texts.label(f"plan.part.{name}"), show(part, "1"), show(part * r.duration_s, "s"))
        for name, part in shown.items()
    )
    words = Words(
        name="time",
        title=texts.label("plan.risk.time"),
        description=texts.label("plan.risk.time_text"),
        x=texts.label("plan.head.part"),
    )
    lost = [
        Bar(row=texts.label("plan.risk.lost"), part=texts.label(f"plan.part.{name}"), value=part)
        for name, part in shown.items()
        if name != "useful"
    ]
    names = ("what", "part", "time")
    return Section(
        title=texts.label("plan.risk.time"),
        lines=(
            texts.say(
                Message.of(
                    "plan.risk.checked",
                    simulated_frac=r.simulated_goodput_frac,
                    error_frac=abs(r.simulated_error_frac),
                )
            ),
            texts.say(Message.of("plan.risk.straggler", part_frac=r.straggler_frac, nodes=r.job.nodes)),
        ),
        table=Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows),
        figures=(lambda: bars(lost, words=words, number=".1%"),) if lost else (),
    )


def _storage(done: RiskAnswer, texts: Texts) -> Section:
    save, read = done.save, done.input
    code = "plan.risk.save_async" if save.asynchronous else "plan.risk.save_blocking"
    lines = [
        texts.say(
            Message.of(
                code,
                text=done.storage.id,
                total=show_bytes(save.total_bytes),
                blocking_s=save.blocking_s,
                write_s=save.write_s,
                load_s=save.load_s,
                save_s=done.risk.job.save_s,
            )
        ),
    ]
    if read is not None:
        said = Message.of(
            "plan.risk.input",
            need_Bps=read.need_Bps,
            need=round(read.need_4k_per_s),
            give_Bps=read.give_Bps,
            give=round(read.give_4k_per_s),
            utilisation_frac=read.utilisation_frac,
            text=texts.label(f"plan.bound.{read.bound_by}"),
        )
        lines.append(texts.say(said))
    if not save.fits_in(done.risk.interval_s):
        lines.append(texts.label("plan.risk.too_slow"))
    return Section(title=texts.label("plan.risk.storage"), lines=tuple(lines))


def _beyond(done: RiskAnswer, texts: Texts) -> Section:
    rows = tuple(
        (texts.label(f"plan.scenario.{s.code}"), show(s.goodput_frac, "1"), f"{s.change_frac * 100:+.2f} %")
        for s in done.risk.scenarios
    )
    names = ("what", "goodput", "change")
    return Section(
        title=texts.label("plan.risk.beyond"),
        lines=(texts.label("plan.risk.beyond_text"),),
        table=Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows),
    )
