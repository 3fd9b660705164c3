"""`plan compare`: platforms side by side, their bills, and what would turn the order."""

from __future__ import annotations

from assay.catalog.messages import Texts
from assay.catalog.offers import STALE_DAYS
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.plan.answers import Comparison
from assay.plan.compare import SPOT_HOURS, Platform
from assay.plan.guide import BEST_MFU_FRAC, Implied
from assay.plan.money import LINES
from assay.report.answer_page import Page, Section, Table
from assay.report.charts import Words
from assay.report.ink import SERIES
from assay.report.plan.common import (
    amount,
    bill_object,
    bill_section,
    job_lines,
    job_object,
    work_object,
    work_words,
)
from assay.report.plan.figures import Bar, bars
from assay.units import show

#: Platforms that a bar or a row is drawn for.
SHOWN = 12


def platform_object(one: Platform, texts: Texts) -> dict[str, object]:
    """One platform; what is not known is null beside `reason`."""
    offer = one.offer
    price = None if offer.price is None else str(offer.price)
    return {
        "offer": offer.id,
        "provider": offer.provider,
        "region": offer.region,
        "gpu": offer.gpu,
        "term": offer.term,
        "price_per_gpu_hour": price,
        "price_currency": offer.currency,
        "price_date": offer.date,
        "source": offer.source,
        "needs_quote": offer.needs_quote,
        "cluster": one.cluster.id if one.cluster else None,
        "nodes": one.nodes,
        "gpus": one.gpus,
        "days": one.days,
        "training_h": one.ideal_h,
        "run_h": one.hours,
        "waiting_days": one.waiting_days,
        "utilisation_frac": one.work.mfu_frac if one.work else None,
        "speedup_frac": one.speedup_frac,
        "goodput_frac": one.goodput_frac,
        "useful_gpu_hours": one.useful_gpu_hours,
        "price_per_useful_gpu_hour": None if one.useful_price is None else str(one.useful_price),
        **work_object(one.work, texts),
        **bill_object(one.bill, one.why_not, texts),
        "breaches": [
            {
                "quantity": b.quantity,
                "claimed": b.claimed,
                "op": b.op,
                "bound": b.bound,
                "unit": b.unit,
                "clause": b.clause,
                "source": b.source,
            }
            for b in one.breaches
        ],
        "reason": one.why_not,
    }


def compare_answer(done: Comparison, texts: Texts) -> dict[str, object]:
    """The JSON object of `plan compare`; keys are only ever added."""
    best = _best(done)
    return {
        **headed("plan compare"),
        "need": done.need.id,
        "currency": done.terms.currency,
        "rate_date": done.terms.rates.date,
        "rate_source": done.terms.rates.source,
        **job_object(done.terms.job, texts),
        "recommended": best.offer.id if best else None,
        "because": _because(done, texts),
        "platforms": [platform_object(one, texts) for one in done.platforms],
        "flips": [
            {
                "offer": f.offer,
                "price_per_gpu_hour": None if f.price is None else str(f.price),
                "mtbf_factor": f.mtbf_factor,
                "speed_factor": f.speed_factor,
            }
            for f in done.flips
        ],
        "set_aside": [{"offer": one.id, "reason": reason} for one, reason in done.set_aside],
        "refused": [{"offer": r.offer.id, "code": r.code, "reason": r.detail} for r in done.refused],
        "price_age_days": dict(done.stale),
        "promises": [_promise_object(one) for one in done.promises],
        "promised_speedup_frac": list(done.promised_speedup),
        "classes": [
            {
                "id": c.promise.id,
                "days": list(c.promise.days),
                "speedup_frac": list(c.promise.speedup_frac or ()),
                "implied_days": list(c.implied_days),
                "consistent": c.consistent,
            }
            for c in done.classes
        ],
    }


def _promise_object(one: Implied) -> dict[str, object]:
    p = one.promise
    return {
        "id": p.id,
        "parameters": p.weights,
        "gpus": p.gpus,
        "days": list(p.days),
        "gpu": one.gpu,
        "tokens_at_peak": list(one.tokens_at_peak),
        "tokens_at_usual_mfu": list(one.tokens_usual),
        "mfu_frac_for_20_tokens_a_weight": list(one.mfu_frac),
        "memory_frac": one.memory_frac,
        "impossible": one.impossible,
    }


def _best(done: Comparison) -> Platform | None:
    return next((one for one in done.platforms if one.bill is not None and one.why_not is None), None)


def _because(done: Comparison, texts: Texts) -> str:
    return texts.say(
        Message.of(
            f"plan.need.{done.need.id}",
            gpus=done.terms.gpus,
            tokens=done.need.tokens_a_weight,
            text=done.need.storage,
        )
    )


def compare_page(done: Comparison, texts: Texts) -> Page:
    """The recommendation and why, the table, bills, breaches, flips, and promises that cannot be."""
    best, say, label = _best(done), texts.say, texts.label
    lead = [
        label("plan.compare.none") if best is None else _recommended(best, done, texts),
        _because(done, texts),
    ]
    stale = [one for one, age in done.stale.items() if age > STALE_DAYS]
    if stale:
        lead.append(say(Message.of("plan.compare.stale", count=len(stale), days=STALE_DAYS)))
    sections = [Section(title=label("plan.compare.platforms"), table=_table(done.platforms, texts))]
    paid = [one for one in done.platforms if one.bill is not None]
    if paid:
        sections[0] = Section(
            title=label("plan.compare.platforms"),
            lines=(label("plan.compare.platforms_text"),),
            table=_table(done.platforms, texts),
            figures=(lambda: _cost_bars(paid[:SHOWN], done.terms.currency, texts),),
        )
    if best is not None and best.bill is not None:
        sections.append(bill_section(best.bill, texts))
    sections += [_flips(done, texts), _breaches(done, texts), _promises(done, texts), _left_out(done, texts)]
    job = done.terms.job
    title = say(Message.of("plan.compare.title", text=job.name, amount=say(job.amount)))
    return Page(
        title=title,
        lead=tuple(lead),
        sections=tuple(s for s in sections if s.table or s.lines),
        notes=(*job_lines(done.terms.job, texts), *_assumed(done, texts)),
    )


def _assumed(done: Comparison, texts: Texts) -> tuple[str, ...]:
    rates = done.terms.rates
    found = [texts.say(Message.of("plan.rate", text=rates.date, source=rates.source))]
    if any(one.offer.is_spot and one.offer.fees.interruption_h is None for one in done.platforms):
        found.append(texts.say(Message.of("plan.assumed.spot", hours=int(SPOT_HOURS))))
    return tuple(found)


def _recommended(best: Platform, done: Comparison, texts: Texts) -> str:
    bill = best.bill
    return texts.say(
        Message.of(
            "plan.compare.best",
            text=f"{best.offer.provider} ({best.offer.id})",
            total=amount(bill.total if bill else None, done.terms.currency),
            days=best.days or 0.0,
            gpus=best.gpus,
        )
    )


def _table(platforms: tuple[Platform, ...], texts: Texts) -> Table:
    rows = tuple(row(one, texts) for one in platforms if one.days is not None)
    names = ("offer", "gpus", "days", "mfu", "speedup", "goodput", "useful", "cost", "layout")
    return Table(
        headers=tuple(texts.label(f"plan.head.{name}") for name in names),
        rows=rows,
        words=frozenset({0, 8}),
        wide=frozenset({1, 8}),
    )


def row(one: Platform, texts: Texts) -> tuple[str, ...]:
    """Offer, cards, days, MFU, linear speed-up, goodput, price of a useful hour, cost and layout."""
    return (
        one.offer.id,
        f"{one.gpus:,}",
        "–" if one.days is None else f"{one.days:,.1f}",
        show(one.work.mfu_frac if one.work else None, "1"),
        show(one.speedup_frac, "1"),
        show(one.goodput_frac, "1"),
        "–" if one.useful_price is None else f"{one.useful_price:.2f}",
        "–" if one.bill is None else f"{one.bill.total:,.0f}",
        work_words(one.work, texts),
    )


def _cost_bars(paid: list[Platform], currency: str, texts: Texts) -> str:
    """A bar for each bill; the largest fees by name, the rest together, as there are so many colours."""
    amounts = {name: [_fee(one, name) for one in paid] for name in LINES}
    by_size = sorted(LINES, key=lambda name: -sum(abs(value) for value in amounts[name]))
    named = [name for name in LINES if name in by_size[: len(SERIES) - 1]]
    rest = [name for name in LINES if name not in named]
    amounts["other"] = [sum(amounts[name][at] for name in rest) for at in range(len(paid))]
    found = [
        Bar(row=one.offer.id, part=texts.label(f"plan.fee.{name}"), value=amounts[name][at])
        for name in (*named, "other")
        if any(amounts[name])
        for at, one in enumerate(paid)
    ]
    words = Words(
        name="cost",
        title=texts.label("plan.compare.bars"),
        description=texts.label("plan.compare.bars_text"),
        x=currency,
    )
    return bars(found, words=words)


def _fee(one: Platform, name: str) -> float:
    lines = one.bill.lines if one.bill else ()
    return sum(float(line.amount) for line in lines if line.name == name)


def _flips(done: Comparison, texts: Texts) -> Section:
    rows = tuple(
        (
            f.offer,
            "–" if f.price is None else f"{f.price}",
            "–" if f.mtbf_factor is None else f"× {f.mtbf_factor:.2f}",
            "–" if f.speed_factor is None else f"× {f.speed_factor:.2f}",
        )
        for f in done.flips[:SHOWN]
    )
    names = ("offer", "flip_price", "flip_mtbf", "flip_speed")
    table = Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows) if rows else None
    return Section(
        title=texts.label("plan.compare.flips"),
        lines=(texts.label("plan.compare.flips_text"),) if rows else (),
        table=table,
    )


def _breaches(done: Comparison, texts: Texts) -> Section:
    rows = tuple(
        (one.offer.id, texts.quantity(b.quantity), show(b.claimed, b.unit), show(b.bound, b.unit), b.clause)
        for one in done.platforms
        for b in one.breaches
    )
    names = ("offer", "quantity", "claimed", "bound", "clause")
    return Section(
        title=texts.label("plan.compare.breaches"),
        table=Table(
            headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows, words=frozenset({0, 1, 4})
        )
        if rows
        else None,
    )


def _promises(done: Comparison, texts: Texts) -> Section:
    """What the guide's own pair of numbers needs, in words with the arithmetic."""
    lines = []
    for one in done.promises:
        p = one.promise
        code = "plan.promise.no_room" if one.memory_frac > 1 else "plan.promise.needs"
        lines.append(
            texts.say(
                Message.of(
                    code,
                    text=p.id,
                    gpu=one.gpu,
                    days=f"{p.days[0]:g}–{p.days[1]:g}",
                    tokens=f"{one.tokens_at_peak[0]:.2g}–{one.tokens_at_peak[1]:.2g}",
                    usual=f"{one.tokens_usual[0]:.2g}–{one.tokens_usual[1]:.2g}",
                    least_frac=one.mfu_frac[1],
                    most_frac=one.mfu_frac[0],
                    best_frac=BEST_MFU_FRAC,
                    times=one.memory_frac,
                )
            )
        )
    low, high = done.promised_speedup
    lines.append(texts.say(Message.of("plan.promise.pair", low_frac=low, high_frac=high)))
    first, second, third = done.classes
    lines.append(
        texts.say(
            Message.of(
                "plan.promise.classes",
                days=first.promise.days[0],
                second=f"{second.implied_days[0]:.1f}–{second.implied_days[1]:.1f}",
                third=f"{third.implied_days[0]:.1f}–{third.implied_days[1]:.1f}",
            )
        )
    )
    return Section(title=texts.label("plan.compare.promises"), lines=tuple(lines))


def _left_out(done: Comparison, texts: Texts) -> Section:
    lines = [f"{r.offer.id}: {r.detail}" for r in done.refused]
    lines += [f"{one.offer.id}: {one.why_not}" for one in done.platforms if one.why_not]
    by_reason: dict[str, list[str]] = {}
    for one, reason in done.set_aside:
        by_reason.setdefault(reason, []).append(one.id)
    lines += [
        texts.say(
            Message.of(
                f"plan.aside.{reason}",
                count=len(ids),
                text=", ".join(ids[:6]) + (" …" if len(ids) > 6 else ""),
            )
        )
        for reason, ids in by_reason.items()
    ]
    return Section(title=texts.label("plan.compare.left_out"), lines=tuple(lines))
