"""`assay plan layout`, `compare` and `size`: offers, rates and bills joined with the search."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from assay.api.clusters import read_cluster
from assay.api.planning import JobOptions, Progress, find_job, find_storage, find_work, fixed_axes
from assay.catalog.clusters import cluster_ids
from assay.catalog.faults import failure_rate
from assay.catalog.offers import (
    Rates,
    Refusal,
    age_days,
    load_rates,
    offers,
    offers_from,
    shipped_rates,
    usable,
)
from assay.catalog.profiles import find_profile
from assay.domain.cluster import Cluster
from assay.domain.offer import Offer
from assay.errors import InputError, UnknownNameError, unknown_name
from assay.plan.answers import Comparison, Costed, Layouts
from assay.plan.compare import Terms, flips, platform, ranked
from assay.plan.guide import GUIDE, Need, check_classes, implied, need, pair_speedup_frac
from assay.plan.job import Job
from assay.plan.money import Use, bill
from assay.plan.ranking import Candidate, rank
from assay.plan.size import Sized, size
from assay.plan.storage import (
    TOKEN_BYTES,
    WEIGHT_BYTES,
)
from assay.units import parse

#: The standard that a platform's promises are held against, where the user names none.
STANDARD = "rental-guide"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyOptions:
    """Whose prices, in which currency, at whose rate."""

    offers: Sequence[str] = ("catalog",)
    only: Sequence[str] = ()
    currency: str = "USD"
    rates: Path | None = None


def rates_of(options: MoneyOptions) -> Rates:
    """The user's rate file, else the shipped one; the currency must have a rate."""
    rates = load_rates(options.rates) if options.rates else shipped_rates()
    rates.factor("USD", options.currency)
    return rates


def find_offers(options: MoneyOptions, rates: Rates) -> tuple[tuple[Offer, ...], tuple[Refusal, ...]]:
    """Offers of the catalogue and of files, without those whose price cannot be meant; `only` picks by id."""
    from assay.api.offering import import_offers

    every: list[Offer] = []
    for source in options.offers:
        every += offers() if source == "catalog" else import_offers(Path(source), read=offers_from)
    if options.only:
        known = {one.id for one in every}
        for name in options.only:
            if name not in known:
                raise unknown_name("offer", name, known)
        every = [one for one in every if one.id in options.only]
    return usable(every, rates)


def offer_cluster(offer: Offer, gpus: int | None = None) -> Cluster | None:
    """The system behind an offer: a catalogue id, or a file beside the offer's own.

    An offer that names none still has nodes: where one holds all `gpus`, a shipped node of the same cards.
    """
    if offer.cluster is None:
        return _one_node(offer) if gpus is not None and gpus <= offer.gpus_per_node else None
    beside = Path(offer.where.rpartition(":")[0]).parent / offer.cluster
    try:
        return read_cluster(str(beside) if beside.is_file() else offer.cluster)
    except UnknownNameError as fault:
        raise type(fault)(fault.what, where=offer.where, fix=fault.fix) from None


def _one_node(offer: Offer) -> Cluster | None:
    """A shipped node with the offer's cards and as many of them; what lies between nodes does not matter."""
    for name in cluster_ids():
        system = read_cluster(name)
        if system.node.gpu and (system.node.gpu.id, len(system.node.gpus)) == (
            offer.gpu,
            offer.gpus_per_node,
        ):
            return system
    return None


def plan_layouts(
    cluster: str,
    nodes: int | None,
    options: JobOptions,
    money: MoneyOptions,
    *,
    count: int = 10,
    offer: str | None = None,
    progress: Progress | None = None,
) -> Layouts:
    """The best layouts of a job on a cluster, each with its bill where an offer is known."""
    built = read_cluster(cluster)
    here = built.of(nodes) if nodes else built
    found = rank(find_job(options), here, fixed=fixed_axes(options), count=count, progress=progress)
    rates = rates_of(money)
    chosen = _offer_for(here, offer, money, rates)
    return Layouts(
        ranking=found,
        costed=tuple(_costed(one, found.job, chosen, rates, money.currency) for one in found.candidates),
        offer=chosen,
    )


def _offer_for(here: Cluster, name: str | None, money: MoneyOptions, rates: Rates) -> Offer | None:
    """The named offer, else the cheapest of the catalogue for this system that nobody takes back."""
    every, _ = find_offers(money, rates)
    if name is not None:
        named = {one.id: one for one in every}
        if name not in named:
            raise unknown_name("offer", name, named)
        return named[name]
    fitting = [one for one in every if one.cluster == here.id and one.price is not None and not one.is_spot]
    return min(
        fitting, key=lambda one: (one.price or Decimal(0)) * rates.factor(one.currency, "USD"), default=None
    )


def _costed(one: Candidate, plan: Job, offer: Offer | None, rates: Rates, currency: str) -> Costed:
    if offer is None:
        return Costed(
            candidate=one, bill=None, why_not="no offer for this system is known: name one with --offer"
        )
    model = plan.workload.model
    use = Use(
        gpus=one.layout.ranks,
        hours=one.prediction.days(plan.tokens) * 24,
        stored_GB=plan.tokens * TOKEN_BYTES / 1e9,
        egress_GB=WEIGHT_BYTES * model.parameters / 1e9,
    )
    try:
        return Costed(candidate=one, bill=bill(offer, use, rates, currency), why_not=None)
    except InputError as fault:
        return Costed(candidate=one, bill=None, why_not=fault.what)


def compare(
    options: JobOptions,
    money: MoneyOptions,
    *,
    reader: str,
    gpus: int | None = None,
    storage: str | None = None,
    standard: str = STANDARD,
    fleet: str | None = None,
    today: datetime.date,
    progress: Progress | None = None,
) -> Comparison:
    """Every offer that the reader can use, side by side for the same run."""
    wanted, rates = need(reader), rates_of(money)
    terms = find_terms(options, money, wanted, rates, gpus=gpus, storage=storage, fleet=fleet)
    every, refused = find_offers(money, rates)
    kept, aside = _for_reader(every, wanted, chosen=bool(money.only) or tuple(money.offers) != ("catalog",))
    profile = find_profile(standard)
    found = []
    for at, one in enumerate(kept):
        found.append(platform(one, offer_cluster(one, terms.gpus), terms, profile))
        if progress:
            progress(at + 1, len(kept))
    order = ranked(found)
    gpu = next((p.cluster.node.gpu for p in order if p.cluster and p.cluster.node.gpu), None)
    peak = gpu.peak("bf16") if gpu else None
    return Comparison(
        need=wanted,
        terms=terms,
        platforms=order,
        set_aside=aside,
        refused=refused,
        flips=flips(order, terms),
        stale={one.id: age for one in kept if (age := age_days(one, today)) is not None},
        promises=tuple(
            implied(one, gpu=gpu.id, peak_flop_per_s=peak, memory_bytes=gpu.memory_bytes) for one in GUIDE
        )
        if gpu and peak
        else (),
        promised_speedup=pair_speedup_frac(GUIDE[0], GUIDE[1]),
        classes=check_classes(),
    )


def find_terms(
    options: JobOptions,
    money: MoneyOptions,
    wanted: Need,
    rates: Rates,
    *,
    gpus: int | None = None,
    storage: str | None = None,
    fleet: str | None = None,
) -> Terms:
    """What all platforms of a comparison share, with the reader's defaults filled in."""
    return Terms(
        job=find_work(options, tokens_a_weight=wanted.tokens_a_weight),
        gpus=gpus or wanted.gpus,
        storage=find_storage(storage or wanted.storage),
        rates=rates,
        currency=money.currency,
        rate_of=lambda per_node: failure_rate(per_node, fleet=fleet),
        fixed=fixed_axes(replace(options, precision=options.precision or "bf16")),
    )


def _for_reader(
    every: Sequence[Offer], wanted: Need, *, chosen: bool
) -> tuple[list[Offer], tuple[tuple[Offer, str], ...]]:
    """Offers that the reader can use; offers that the user chose are all kept."""
    kept, aside = [], []
    for one in every:
        reason = None
        if not chosen:
            if one.needs_quote:
                reason = "needs_quote"
            elif one.is_spot and not wanted.spot:
                reason = "spot"
            elif one.cluster is None and (wanted.several_nodes or one.gpus_per_node < wanted.gpus):
                reason = "network_unknown"
        if reason:
            aside.append((one, reason))
        else:
            kept.append(one)
    return kept, tuple(aside)


def plan_size(
    options: JobOptions,
    money: MoneyOptions,
    *,
    reader: str,
    deadline: str | None,
    budget: str | None,
    most_gpus: int,
    today: datetime.date,
    storage: str | None = None,
    fleet: str | None = None,
    progress: Progress | None = None,
) -> tuple[Sized, Terms]:
    """How many GPUs of which offer meet the deadline and the budget."""
    wanted, rates = need(reader), rates_of(money)
    terms = find_terms(options, money, wanted, rates, storage=storage, fleet=fleet)
    every, _ = find_offers(money, rates)
    kept, _ = _for_reader(every, wanted, chosen=bool(money.only) or tuple(money.offers) != ("catalog",))
    if not money.only and tuple(money.offers) == ("catalog",):
        kept = _cheapest_by_system(kept, rates)
    found = size(
        [(one, offer_cluster(one)) for one in kept],
        terms,
        deadline_days=None if deadline is None else deadline_days(deadline, today),
        budget=None if budget is None else money_amount(budget, money.currency),
        most_gpus=most_gpus,
        progress=progress,
    )
    return found, terms


def _cheapest_by_system(every: Sequence[Offer], rates: Rates) -> list[Offer]:
    """Of offers for the same system the cheapest: the days are the same, so no other can be chosen."""
    best: dict[tuple[str | None, bool], Offer] = {}
    for one in every:
        key = (one.cluster, one.is_spot)
        held = best.get(key)
        if held is None or _usd(one, rates) < _usd(held, rates):
            best[key] = one
    return list(best.values())


def _usd(one: Offer, rates: Rates) -> Decimal:
    return (one.price or Decimal("Infinity")) * rates.factor(one.currency, "USD")


def deadline_days(text: str, today: datetime.date) -> float:
    """Days from "21d" or from a date to come; `InputError` for a date in the past."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            day = datetime.date.fromisoformat(text)
        except ValueError as fault:
            raise InputError(f"--deadline {text}: {fault}", fix="write it as 2027-03-31") from None
        if day <= today:
            raise InputError(
                f"the deadline {text} is in the past: today is {today}", fix="give a date to come, or 21d"
            )
        return float((day - today).days)
    days = parse(text, unit="s").value / 86400
    if days <= 0:
        raise InputError(f"a deadline of {text} is in the past", fix="give a date to come, or 21d")
    return days


def money_amount(text: str, currency: str) -> Decimal:
    """An amount as "2e6" or "2,000,000 USD"; another currency than the answer's is refused."""
    found = re.fullmatch(r"\s*([\d.,_]+(?:e\d+)?)\s*([A-Za-z]{3})?\s*", text)
    if not found:
        raise InputError(f"--budget {text!r} is not an amount", fix="write it as 2000000 or 2e6")
    if found[2] and found[2].upper() != currency:
        raise InputError(
            f"a budget in {found[2].upper()} beside prices in {currency}",
            fix=f"add --currency {found[2].upper()}",
        )
    return Decimal(found[1].replace(",", "").replace("_", ""))
