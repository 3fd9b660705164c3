"""`plan size`: the sizes that were tried, and the cheapest that meets what was asked."""

from __future__ import annotations

from decimal import Decimal

from assay.catalog.messages import Texts
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.plan.compare import Terms
from assay.plan.size import Option, Sized
from assay.report.answer_page import Page, Section, Table
from assay.report.plan.common import (
    amount,
    bill_section,
    job_lines,
    job_object,
)
from assay.report.plan.compare import SHOWN, platform_object, row


def size_answer(done: Sized, terms: Terms, texts: Texts) -> dict[str, object]:
    """The JSON object of `plan size`; keys are only ever added."""
    return {
        **headed("plan size"),
        "currency": terms.currency,
        **job_object(terms.job, texts),
        "deadline_days": done.deadline_days,
        "budget": None if done.budget is None else str(done.budget),
        "best": None if done.best is None else _option_object(done.best, texts),
        "options": [_option_object(one, texts) for one in done.options],
    }


def _option_object(one: Option, texts: Texts) -> dict[str, object]:
    return {
        **platform_object(one.platform, texts),
        "meets_deadline": one.meets_deadline,
        "meets_budget": one.meets_budget,
        "meets": one.meets,
    }


def size_page(done: Sized, terms: Terms, texts: Texts) -> Page:
    """The cheapest size that meets what was asked, and the others."""
    best, label = done.best, texts.label
    if best is None:
        lead = [label("plan.size.none")]
        close = min(
            (one for one in done.options if one.platform.days is not None),
            key=lambda one: one.platform.days or 0.0,
            default=None,
        )
        if close is not None:
            lead.append(texts.say(_option_message("plan.size.closest", close, terms.currency)))
    else:
        lead = [texts.say(_option_message("plan.size.best", best, terms.currency))]
    rows = tuple(
        (*row(one.platform, texts)[:3], *row(one.platform, texts)[5:8], _met(one, texts))
        for one in done.options[: 3 * SHOWN]
    )
    names = ("offer", "gpus", "days", "goodput", "useful", "cost", "meets")
    sections = [
        Section(
            title=label("plan.size.options"),
            table=Table(
                headers=tuple(label(f"plan.head.{n}") for n in names), rows=rows, words=frozenset({0, 6})
            ),
        )
    ]
    if best is not None and best.platform.bill is not None:
        sections.append(bill_section(best.platform.bill, texts))
    title = texts.say(Message.of("plan.size.title", text=terms.job.name, amount=texts.say(terms.job.amount)))
    return Page(title=title, lead=tuple(lead), sections=tuple(sections), notes=job_lines(terms.job, texts))


def _option_message(code: str, one: Option, currency: str) -> Message:
    bill: Decimal | None = one.platform.bill.total if one.platform.bill else None
    return Message.of(
        code,
        gpus=one.platform.gpus,
        text=one.platform.offer.id,
        gpu=one.platform.offer.gpu,
        days=one.platform.days or 0.0,
        total=amount(bill, currency),
    )


def _met(one: Option, texts: Texts) -> str:
    if one.platform.days is None:
        return one.platform.why_not or "–"
    missed = [
        name for name, met in (("deadline", one.meets_deadline), ("budget", one.meets_budget)) if met is False
    ]
    return (
        texts.label("plan.met")
        if not missed
        else ", ".join(texts.label(f"plan.missed.{name}") for name in missed)
    )
