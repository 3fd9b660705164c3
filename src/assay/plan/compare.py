"""Platforms side by side for the same training run: days, utilisation, speed-up, goodput, and the whole
bill."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from assay.catalog.faults import FailureRate
from assay.catalog.offers import Rates
from assay.domain.cluster import Cluster
from assay.domain.criterion import Op, Profile
from assay.domain.offer import Offer
from assay.errors import InputError
from assay.plan.money import Bill, Use, bill
from assay.plan.ranking import Candidate
from assay.plan.reliability import Job as FailingJob
from assay.plan.reliability import Restart, availability_frac, best_interval_s, goodput_frac
from assay.plan.risk import REPAIR_S
from assay.plan.storage import Checkpoint, Storage, scaled
from assay.plan.work import AnyJob, Work, work_on

#: A spot node whose offer names no mean time between interruptions is taken to last so long.
SPOT_HOURS = Decimal(72)
#: Checkpoints that are kept beside the data.
_KEPT = 3
#: Factors beyond this on a price, a failure rate or an efficiency are no answer.
_MOST_FACTOR = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all platforms of one comparison share."""

    job: AnyJob
    gpus: int
    storage: Storage
    rates: Rates
    currency: str
    rate_of: Callable[[int], FailureRate]
    restart: Restart = field(default_factory=Restart)
    fixed: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A promise of an offer that falls short of a clause of a standard, by the offer's own words."""

    quantity: str
    claimed: float
    bound: float
    unit: str
    op: str
    clause: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One offer's answer. Without `work` it cannot be predicted, and `why_not` says why."""

    offer: Offer
    gpus: int = 0
    nodes: int = 0
    cluster: Cluster | None = None
    work: Work | None = None
    speedup_frac: float | None = None
    goodput_frac: float | None = None
    ideal_h: float | None = None
    hours: float | None = None
    waiting_days: float = 0.0
    save: Checkpoint | None = None
    bill: Bill | None = None
    breaches: tuple[Breach, ...] = ()
    why_not: str | None = None

    @property
    def candidate(self) -> Candidate | None:
        """The best layout, where what runs is a training."""
        return self.work.candidate if self.work else None

    @property
    def days(self) -> float | None:
        """From signing to the last step: delivery, ramp, and the run with its failures."""
        return None if self.hours is None else self.hours / 24 + self.waiting_days

    @property
    def useful_gpu_hours(self) -> float | None:
        """GPU-hours of training at linear speed: saves, restarts, repeated work and what scaling loses are
        not."""
        return None if self.ideal_h is None else self.gpus * self.ideal_h * (self.speedup_frac or 1.0)

    @property
    def useful_price(self) -> Decimal | None:
        """The whole bill over useful GPU-hours."""
        if self.bill is None or not self.useful_gpu_hours:
            return None
        return (self.bill.total / Decimal(repr(self.useful_gpu_hours))).quantize(Decimal("0.0001"))


def platform(offer: Offer, cluster: Cluster | None, terms: Terms, profile: Profile | None = None) -> Platform:
    """The best layout on what the offer rents out, its failures and its bill.

    What cannot be predicted or paid is not left out: `why_not` says why.
    """
    breaches = broken_clauses(offer, profile) if profile else ()
    nodes = -(-terms.gpus // offer.gpus_per_node)
    found = Platform(offer=offer, gpus=nodes * offer.gpus_per_node, nodes=nodes, breaches=breaches)
    if cluster is None:
        return replace(found, why_not="its node and network are not known: name cluster in the offer")
    if len(cluster.node.gpus) != offer.gpus_per_node:
        what = f"{offer.gpus_per_node} GPUs a node in the offer, {len(cluster.node.gpus)} in {cluster.id}"
        return replace(found, why_not=what)
    here = cluster.of(nodes)
    try:
        work = work_on(terms.job, here, fixed=terms.fixed)
    except InputError as fault:
        return replace(found, why_not=fault.what)
    return _paid(replace(found, cluster=here, work=work), terms)


def _paid(
    found: Platform, terms: Terms, *, price: float = 1.0, failures: float = 1.0, speed: float = 1.0
) -> Platform:
    """Failures and bill of a platform whose layout is known; the factors are for asking "what if"."""
    work, offer = found.work, found.offer
    if work is None:
        return found
    ideal_h = work.ideal_h / speed
    save = work.save(scaled(terms.storage, found.nodes), nodes=found.nodes)
    rate = terms.rate_of(offer.gpus_per_node).value_per_s * failures
    steady = _goodput(found.nodes, rate, save, terms.restart)
    goodput = steady
    if offer.is_spot:
        goodput = _goodput(
            found.nodes, rate + failures / (float(_spot_hours(offer)) * 3600), save, terms.restart
        )
    if goodput <= 0.01:
        return replace(
            found, goodput_frac=goodput, why_not="failures come faster than it can save: nothing is left"
        )
    hours = ideal_h / goodput
    use = Use(
        gpus=terms.gpus,
        hours=hours,
        spot_h=hours - ideal_h / steady,
        stored_GB=work.stored_GB + _KEPT * save.total_bytes / 1e9,
        egress_GB=work.egress_GB,
        availability_frac=availability_frac(rate, REPAIR_S),
    )
    done = replace(
        found,
        goodput_frac=goodput,
        ideal_h=ideal_h,
        hours=hours,
        save=save,
        waiting_days=_waiting(offer),
        speedup_frac=work.speedup_frac,
    )
    priced = offer if offer.price is None else replace(offer, price=offer.price * Decimal(repr(price)))
    try:
        return replace(done, bill=bill(priced, use, terms.rates, terms.currency))
    except InputError as fault:
        return replace(done, why_not=fault.what)


def _goodput(nodes: int, rate_per_s: float, save: Checkpoint, restart: Restart) -> float:
    # A save takes at least a moment: ranks agree on it, and the copy to the host drains the device.
    failing = FailingJob(
        nodes=nodes,
        failures_per_s=rate_per_s,
        save_s=max(save.blocking_s, 1.0),
        restart=replace(restart, load_s=restart.load_s + save.load_s),
    )
    return goodput_frac(failing, max(best_interval_s(failing), save.write_s))


def _spot_hours(offer: Offer) -> Decimal:
    return offer.fees.interruption_h or SPOT_HOURS


def _waiting(offer: Offer) -> float:
    return float((offer.fees.delivery_days or 0) + (offer.fees.ramp_days or 0))


def broken_clauses(offer: Offer, profile: Profile) -> tuple[Breach, ...]:
    """Clauses that the offer's own promises do not meet: what it admits before anything is measured.

    Prices are not held against a clause here: the bill says what they come to.
    """
    found = []
    for criterion in profile.criteria:
        claimed = offer.claims.get(criterion.quantity)
        if claimed is None or criterion.bound is None:
            continue
        low = criterion.op in (Op.AT_LEAST, Op.WITHIN) and claimed < criterion.bound
        high = criterion.op is Op.AT_MOST and claimed > criterion.bound
        over = criterion.op is Op.WITHIN and criterion.high is not None and claimed > criterion.high
        if low or high or over:
            found.append(
                Breach(
                    quantity=criterion.quantity,
                    claimed=claimed,
                    bound=criterion.high if over and criterion.high is not None else criterion.bound,
                    unit=criterion.unit,
                    op=criterion.op.value,
                    clause=criterion.clause,
                    source=criterion.source,
                )
            )
    return tuple(found)


def ranked(platforms: Sequence[Platform]) -> tuple[Platform, ...]:
    """Cheapest whole bill first; what has no bill comes last."""

    def key(one: Platform) -> tuple[bool, Decimal, str]:
        return one.bill is None, one.bill.total if one.bill else Decimal(0), one.offer.id

    return tuple(sorted(platforms, key=key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Where the order turns: for the cheapest offer what it may become before the next is cheaper, for any
    other
    what it would have to become to be the cheapest. None where nothing within a thousandfold does it.

    `price` is per GPU-hour in the offer's currency, the factors multiply its time between failures and its
    speed.
    """

    offer: str
    price: Decimal | None
    mtbf_factor: float | None
    speed_factor: float | None


def flips(platforms: Sequence[Platform], terms: Terms) -> tuple[Flip, ...]:
    """The price, failure rate and efficiency at which the order turns, for every offer that has a bill."""
    paid = [one for one in ranked(platforms) if one.bill is not None]
    if len(paid) < 2:
        return ()
    first, second = _total(paid[0]), _total(paid[1])
    found = [
        _flip(
            paid[0], terms, lambda total: second is not None and (total is None or total > second), worse=True
        )
    ]
    for one in paid[1:]:
        found.append(
            _flip(one, terms, lambda total: first is not None and total is not None and total <= first)
        )
    return tuple(found)


def _flip(
    one: Platform, terms: Terms, turned: Callable[[Decimal | None], bool], *, worse: bool = False
) -> Flip:
    """The smallest change of each kind after which `turned` holds of the offer's total; `worse` looks that
    way."""

    def least(change: Callable[[float], dict[str, float]]) -> float | None:
        return _least(
            lambda factor: turned(_total(_paid(one, terms, **change(1 / factor if worse else factor))))
        )

    price = least(lambda f: {"price": 1 / f})
    mtbf = least(lambda f: {"failures": 1 / f})
    speed = least(lambda f: {"speed": f})
    listed = one.offer.price
    at = None
    if price is not None and listed is not None:
        factor = Decimal(repr(price))
        at = (listed * factor if worse else listed / factor).quantize(Decimal("0.001"))
    return Flip(
        offer=one.offer.id,
        price=at,
        mtbf_factor=1 / mtbf if worse and mtbf else mtbf,
        speed_factor=1 / speed if worse and speed else speed,
    )


def _total(one: Platform) -> Decimal | None:
    return one.bill.total if one.bill else None


def _least(turns: Callable[[float], bool]) -> float | None:
    """The smallest factor above 1 at which the order turns, to a thousandth, by bisection."""
    if not turns(_MOST_FACTOR):
        return None
    low, high = 1.0, _MOST_FACTOR
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if turns(middle) else (middle, high)
    return high
