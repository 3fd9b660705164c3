"""`assay plan`: files and catalogues joined with the rooms that search, compare, size, grow and weigh
risk."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from assay.api.clusters import read_cluster
from assay.api.predicting import read_model
from assay.api.predicting_jobs import is_job, read_job
from assay.api.predicting_jobs import network_of as job_network
from assay.catalog.faults import LEAF_FAULTS_PER_S, FailureRate, failure_rate
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
from assay.domain.layout import parse_layout
from assay.domain.offer import Offer
from assay.domain.workload import Workload
from assay.errors import InputError, UnknownNameError, unknown_name
from assay.plan.answers import Comparison, Costed, Growth, Layouts, RiskAnswer
from assay.plan.compare import Terms, flips, platform, ranked
from assay.plan.growth import fabric_of, grow, stages
from assay.plan.guide import GUIDE, Need, check_classes, implied, need, pair_speedup_frac
from assay.plan.job import Job, job
from assay.plan.money import Use, bill
from assay.plan.ranking import Candidate, rank
from assay.plan.reliability import Restart
from assay.plan.risk import assess
from assay.plan.size import Sized, size
from assay.plan.storage import (
    CLASSES,
    TOKEN_BYTES,
    WEIGHT_BYTES,
    InputNeed,
    Storage,
    input_need,
    scaled,
)
from assay.plan.work import AnyJob, PhasedJob, work_on
from assay.predict.stack import DEFAULT_STACK, stack
from assay.units import parse

Progress = Callable[[int, int], None]

#: The standard that a platform's promises are held against, where the user names none.
STANDARD = "rental-guide"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What is to run; the same for every question. `steps` and `settings` are of a job of phases."""

    workload: str
    global_batch: int | None = None
    seq_len: int | None = None
    task: str = "pretrain"
    stack: str | None = None
    tokens: float | None = None
    layout: str = ""
    precision: str | None = None
    steps: float | None = None
    settings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyOptions:
    """Whose prices, in which currency, at whose rate."""

    offers: Sequence[str] = ("catalog",)
    only: Sequence[str] = ()
    currency: str = "USD"
    rates: Path | None = None


def find_work(options: JobOptions, *, tokens_a_weight: float | None = None) -> AnyJob:
    """The job that the options describe: a training, or a job of phases where the workload is one."""
    if not is_job(options.workload):
        for name in ("steps", "settings"):
            if getattr(options, name):
                raise InputError(f"--{name.removesuffix('tings')} is for jobs of phases, not for models")
        return find_job(options, tokens_a_weight=tokens_a_weight)
    phases, values = read_job(options.workload, options.settings)
    if options.steps is None:
        raise InputError(f"how many steps of {phases.id}?", fix="say --steps, for example 1e6")
    return PhasedJob(phases=phases, values=values, steps=options.steps, network_of=job_network)


def find_job(options: JobOptions, *, tokens_a_weight: float | None = None) -> Job:
    """The training that the options describe; `InputError` where the workload is a job of phases."""
    if is_job(options.workload):
        raise InputError(
            f"{options.workload} is a job of phases, which has one layout: a rank on each GPU",
            fix="ask plan compare, size, growth or risk",
        )
    shape = read_model(options.workload)
    workload = Workload(model=shape, seq_len=options.seq_len or shape.seq_len, task=options.task)
    tokens = options.tokens
    if tokens is None and tokens_a_weight is not None:
        found = job(
            workload,
            stack(options.stack or DEFAULT_STACK),
            tokens=tokens_a_weight * workload.model.active_parameters,
            global_batch=options.global_batch,
        )
        return found
    return job(
        workload, stack(options.stack or DEFAULT_STACK), tokens=tokens, global_batch=options.global_batch
    )


def fixed_axes(options: JobOptions) -> dict[str, object]:
    """The degrees that the user fixed, as the space wants them."""
    said: dict[str, object] = {}
    if options.layout:
        # Every degree but those said is free: the text is read for its keys, on as many GPUs as it names.
        names = [part.partition("=")[0].strip().lower() for part in options.layout.split(",")]
        aliases = {"mbs": "micro_batch", "zero": "sharding", "recomp": "recompute", "dtype": "precision"}
        read = parse_layout(options.layout + ("" if "dp" in names else ",dp=1"), gpus=1)
        for name in (aliases.get(name, name) for name in names):
            said[name] = getattr(read, name)
    if options.precision and options.precision != "any":
        said["precision"] = options.precision
    return said


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


def offer_cluster(offer: Offer) -> Cluster | None:
    """The system behind an offer: a catalogue id, or a file beside the offer's own."""
    if offer.cluster is None:
        return None
    beside = Path(offer.where.rpartition(":")[0]).parent / offer.cluster
    try:
        return read_cluster(str(beside) if beside.is_file() else offer.cluster)
    except UnknownNameError as fault:
        raise type(fault)(fault.what, where=offer.where, fix=fault.fix) from None


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
        found.append(platform(one, offer_cluster(one), terms, profile))
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


def find_storage(name: str) -> Storage:
    """A class of storage by name; raises `UnknownNameError`."""
    if name not in CLASSES:
        raise unknown_name("storage class", name, CLASSES)
    return CLASSES[name]


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


def stage_sizes(first: int, last: int, said: str = "") -> tuple[int, ...]:
    """Numbers of nodes as "4,16,64", else doublings from the first to the last."""
    if not said:
        return stages(first, last)
    words = [word.strip() for word in said.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InputError(f"--stages {said!r} is no list of numbers of nodes", fix="write it as 4,16,64")
    sizes = tuple(int(word) for word in words)
    if sorted(set(sizes)) != list(sizes):
        raise InputError(f"--stages {said} does not grow", fix="write each number once, smallest first")
    return sizes


def plan_growth(
    cluster: str, sizes: Sequence[int], options: JobOptions, *, progress: Progress | None = None
) -> Growth:
    """The stages of a growing cluster; its job keeps one precision throughout."""
    built, plan = read_cluster(cluster), find_work(options)
    axes = fixed_axes(replace(options, precision=options.precision or "bf16"))
    return Growth(cluster=built, job=plan, stages=grow(built, sizes, plan, fixed=axes, progress=progress))


def _input(plan: Job, tokens_per_s: float, store: Storage, nodes: int) -> InputNeed:
    """What reading the data asks of storage; a job of phases has its input in its phases."""
    return input_need(
        store,
        samples_per_s=tokens_per_s / plan.workload.seq_len,
        sample_bytes=plan.workload.seq_len * TOKEN_BYTES,
        nodes=nodes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskOptions:
    """What is said of failures and saves; None where the model's own answer is taken."""

    fleet: str | None = None
    save_s: float | None = None
    interval_s: float | None = None
    days: float | None = None
    repair_s: float = 86400.0
    restart: Restart = field(default_factory=Restart)
    storage: str = "better"
    asynchronous: bool = True
    runs: int = 40
    seed: int = 1


def plan_risk(
    cluster: str,
    nodes: int | None,
    options: JobOptions,
    said: RiskOptions,
    *,
    progress: Progress | None = None,
) -> RiskAnswer:
    """Failures, the checkpoint interval and what they leave of the time, for the best layout of the job."""
    built = read_cluster(cluster)
    here = built.of(nodes) if nodes else built
    plan = find_work(options)
    axes = fixed_axes(replace(options, precision=options.precision or "bf16"))
    work = work_on(plan, here, fixed=axes)
    store = scaled(find_storage(said.storage), here.count)
    save = work.save(store, nodes=here.count, asynchronous=said.asynchronous)
    fabric = fabric_of(here, here.count)
    rails = max(len(here.node.nics), 1)
    leaves = fabric.leaf if fabric else 1
    rate: FailureRate = failure_rate(len(here.node.gpus), fleet=said.fleet)
    days = said.days if said.days is not None else work.ideal_h / 24
    blocking_s = said.save_s if said.save_s is not None else max(save.blocking_s, 1.0)
    return RiskAnswer(
        cluster=here,
        job=plan,
        work=work,
        storage=store,
        save=save,
        input=None if isinstance(plan, PhasedJob) else _input(plan, work.rate_per_s, store, here.count),
        risk=assess(
            nodes=here.count,
            rate=rate,
            save_s=blocking_s,
            restart=replace(said.restart, load_s=said.restart.load_s + save.load_s),
            duration_s=days * 86400,
            leaves=leaves,
            # On rails each leaf serves one NIC of its nodes: losing it stops them all.
            leaf_nodes=max(1, min(here.count, -(-here.count * rails // leaves))),
            leaf_faults_per_s=LEAF_FAULTS_PER_S,
            interval_s=said.interval_s,
            repair_s=said.repair_s,
            runs=said.runs,
            seed=said.seed,
            progress=progress,
        ),
    )
