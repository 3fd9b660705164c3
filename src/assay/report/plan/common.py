"""What several answers of `assay plan` show alike: layouts, bills, and money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal

from assay.catalog.messages import Texts
from assay.domain.layout import Layout
from assay.domain.message import Message
from assay.plan.money import Bill
from assay.plan.ranking import Candidate
from assay.plan.work import AnyJob, PhasedJob, Work
from assay.predict.jobs.price import RANGE
from assay.report.answer_page import Section, Table
from assay.report.prediction import prediction_object


def job_object(job: AnyJob, texts: Texts) -> dict[str, object]:
    """What runs, and what was assumed of it."""
    if isinstance(job, PhasedJob):
        return {
            "workload": job.phases.id,
            "settings": dict(job.values),
            "steps": job.steps,
            "tokens": None,
            "assumed": [texts.say(message) for message in job.assumed],
        }
    return {
        "workload": job.workload.model.id,
        "parameters": job.workload.model.parameters,
        "seq_len": job.workload.seq_len,
        "task": job.workload.task,
        "stack": job.stack.id,
        "tokens": job.tokens,
        "assumed": [texts.say(message) for message in job.assumed],
    }


def layout_object(layout: Layout) -> dict[str, object]:
    """Every degree and setting by name."""
    return asdict(layout)


def layout_words(layout: Layout, *, short: bool = False) -> str:
    """A layout in a few words, as `--layout` takes it; `short` leaves out what is 1 or the default."""
    numbers = [(name, getattr(layout, name)) for name in ("tp", "pp", "vpp", "cp", "ep", "dp")]
    words = [f"{name}={value}" for name, value in numbers if value > 1 or name in ("tp", "pp", "dp")]
    words.append(f"mbs={layout.micro_batch}")
    if not short or layout.sharding != "zero1":
        words.append(layout.sharding if short else f"sharding={layout.sharding}")
    if layout.recompute != "none":
        words.append(f"recompute={layout.recompute}")
    if layout.schedule == "zero-bubble":
        words.append("zero-bubble" if short else "schedule=zero-bubble")
    if layout.precision != "bf16":
        words.append(layout.precision if short else f"precision={layout.precision}")
    return (" " if short else ",").join(words)


def why_text(why: Sequence[Message], texts: Texts) -> str:
    """All reasons as one line."""
    return "; ".join(texts.say(message) for message in why)


def candidate_object(one: Candidate, texts: Texts) -> dict[str, object]:
    """A layout with its full prediction, and why it stands where it stands."""
    return {
        "layout": layout_object(one.layout),
        "layout_text": layout_words(one.layout),
        "prediction": prediction_object(one.prediction),
        "headroom_frac": one.headroom_frac,
        "why": why_text(one.why, texts),
    }


def work_object(one: Work | None, texts: Texts) -> dict[str, object]:
    """What runs on a cluster: a layout with its prediction, or the step of a job of phases."""
    if one is not None and one.candidate is not None:
        return candidate_object(one.candidate, texts)
    none: dict[str, object] = {"layout": None, "layout_text": None, "headroom_frac": None, "why": None}
    if one is None or one.phased is None:
        return none | {"prediction": None}
    p = one.phased
    low, high = RANGE
    step = {"value": p.step_s, "low": p.step_s * low, "high": p.step_s * high}
    shown = {
        "step_time_s": step,
        "breakdown": p.breakdown_s,
        "memory_bytes": dict(p.memory_bytes),
        "capacity_bytes": p.capacity_bytes,
        "fits": p.fits,
    }
    return none | {"prediction": shown}


def work_words(one: Work | None, texts: Texts) -> str:
    """The layout in a few words; a job of phases has a rank on each card."""
    if one is None:
        return "–"
    if one.candidate is None:
        return texts.label("plan.work.phased")
    return layout_words(one.candidate.layout, short=True)


def bill_object(bill: Bill | None, why_not: str | None, texts: Texts) -> dict[str, object]:
    """Cost lines that add up to the total; amounts are decimal text, so that nothing is rounded on the
    way."""
    if bill is None:
        return {"cost": None, "cost_reason": why_not}
    return {
        "cost": {
            "offer": bill.offer,
            "currency": bill.currency,
            "rate_date": bill.rate_date or None,
            "paid_gpus": bill.paid_gpus,
            "gpu_hours": str(bill.gpu_hours),
            "lines": [
                {
                    "name": line.name,
                    "amount": str(line.amount),
                    "named": line.named,
                    "because": texts.say(line.because),
                }
                for line in bill.lines
            ],
            "total": str(bill.total),
            "not_named": list(bill.not_named),
        }
    }


def amount(value: Decimal | None, currency: str) -> str:
    """Money without hundredths, which no plan knows."""
    return "–" if value is None else f"{value:,.0f} {currency}"


def bill_section(bill: Bill, texts: Texts) -> Section:
    """A bill line by line, what is nothing left to one line of names."""
    rows = [
        (texts.label(f"plan.fee.{line.name}"), f"{line.amount:,.2f}", texts.say(line.because))
        for line in bill.lines
        if line.amount or (line.named and line.name != "spot_interruptions")
    ]
    rows.append((texts.label("plan.total"), f"{bill.total:,.2f}", bill.currency))
    silent = ", ".join(texts.label(f"plan.fee.{name}") for name in bill.not_named)
    lines = [
        texts.say(
            Message.of("plan.bill.of", text=bill.offer, gpus=bill.paid_gpus, hours=f"{bill.gpu_hours:,.0f}")
        )
    ]
    if bill.rate_date:
        lines.append(texts.say(Message.of("plan.bill.rate", text=bill.rate_date, currency=bill.currency)))
    if silent:
        lines.append(texts.say(Message.of("plan.bill.not_named", text=silent)))
    return Section(
        title=texts.label("plan.bill"),
        lines=tuple(lines),
        table=Table(
            headers=(texts.label("plan.head.fee"), bill.currency, texts.label("plan.head.because")),
            rows=tuple(rows),
            words=frozenset({0, 2}),
        ),
    )


def job_lines(job: AnyJob, texts: Texts) -> tuple[str, ...]:
    """What was assumed."""
    return tuple(texts.say(message) for message in job.assumed)
