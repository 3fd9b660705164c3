"""What a platform sells: a price for a GPU-hour, every fee beside it, and what it promises.

Amounts are `Decimal` in the offer's currency; nothing here is rounded. A price that is not public is None
with `needs_quote`; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

from assay.errors import InputError

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A price up to a bound of what is counted; the last tier of a list has no bound."""

    price: Decimal
    up_to: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """A stepped price. With `whole`, the step that the count falls in holds for all of it (fees by fleet
    size);
    else each part is charged at its own step (egress).

    Bounds ascend and only the last step is open. After a free allowance, more is never dearer per unit.
    """

    steps: tuple[Tier, ...]
    whole: bool = False

    def __post_init__(self) -> None:
        bounds = [step.up_to for step in self.steps]
        if not bounds or bounds[-1] is not None or None in bounds[:-1]:
            raise InputError(
                "the last price tier, and only it, has no bound", fix="leave up_to out of the last tier"
            )
        for earlier, later in pairwise(self.steps[:-1]):
            if earlier.up_to is not None and later.up_to is not None and later.up_to <= earlier.up_to:
                raise InputError(f"price tiers do not ascend: {later.up_to} follows {earlier.up_to}")
        prices = [step.price for step in self.steps]
        if min(prices) < 0:
            raise InputError(f"a price of {min(prices)} is negative")
        paid = prices[1:] if prices[0] == 0 else prices
        for first, second in pairwise(paid):
            if second > first:
                raise InputError(
                    f"price tiers are not monotone: {second} after {first} makes more dearer per unit",
                    fix="check the tiers against the price list",
                )

    def price_of(self, amount: Decimal) -> Decimal:
        """What `amount` costs."""
        if self.whole:
            step = next(s for s in self.steps if s.up_to is None or amount <= s.up_to)
            return amount * step.price
        paid, floor = ZERO, ZERO
        for step in self.steps:
            top = amount if step.up_to is None else min(amount, step.up_to)
            paid += max(top - floor, ZERO) * step.price
            floor = max(floor, top)
        return paid


@dataclass(frozen=True, slots=True, kw_only=True)
class Fees:
    """What is paid beside GPU-hours, and the terms. None of an entry says that the offer does not name it.

    `egress` is by GB, `storage_price` per GB and month of 730 h, `node_fee` per GPU and day by GPUs rented.
    `minimum_h` is paid even when used less; `reserved_gpus` are paid at `take_or_pay_frac` when unused.
    GPUs arrive evenly over `ramp_days` after `delivery_days`. `monthly_discount_frac` is off each full month.
    `interruption_h` is the mean time between interruptions of one spot node. `sla_frac` is the promised
    availability; below each bound of `credits` (availability, part of the bill) the bill shrinks.
    """

    tax_frac: Decimal | None = None
    support_frac: Decimal | None = None
    egress: Tiers | None = None
    storage_price: Decimal | None = None
    node_fee: Tiers | None = None
    minimum_h: Decimal | None = None
    reserved_gpus: int | None = None
    take_or_pay_frac: Decimal = Decimal(1)
    ramp_days: Decimal | None = None
    delivery_days: Decimal | None = None
    monthly_discount_frac: Decimal | None = None
    interruption_h: Decimal | None = None
    sla_frac: Decimal | None = None
    credits: tuple[tuple[Decimal, Decimal], ...] = ()

    def __post_init__(self) -> None:
        for name in ("tax_frac", "support_frac", "take_or_pay_frac", "monthly_discount_frac", "sla_frac"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"{name} = {value} is not between 0 and 1")
        for name in ("storage_price", "minimum_h", "ramp_days", "delivery_days"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} = {value} is negative")
        if self.interruption_h is not None and self.interruption_h <= 0:
            raise InputError(f"interruption_h = {self.interruption_h}: a spot node that never runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One line of a price list. `price` is for one GPU and one hour; `gpu` and `cluster` are catalogue ids.

    `cluster` names the system whose node and network it is (None: not known, so nothing can be predicted over
    several nodes). `claims` are promised values in base units by quantity id. `date` is as the source prints
    it.
    """

    id: str
    provider: str
    gpu: str
    gpus_per_node: int
    term: str
    currency: str
    price: Decimal | None
    region: str = ""
    cluster: str | None = None
    network: str = ""
    note: str = ""
    needs_quote: bool = False
    fees: Fees = field(default_factory=Fees)
    claims: Mapping[str, float] = field(default_factory=dict, hash=False)
    source: str = ""
    date: str = ""
    confidence: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        if self.gpus_per_node < 1:
            raise InputError(f"offer {self.id}: {self.gpus_per_node} GPUs a node", where=self.where or None)
        if self.price is None and not self.needs_quote:
            raise InputError(
                f"offer {self.id} has no price",
                where=self.where or None,
                fix="add price, or needs_quote: true where it is not public",
            )
        if self.price is not None and self.price <= 0:
            raise InputError(
                f"offer {self.id}: a price of {self.price} {self.currency} a GPU-hour is "
                + ("negative" if self.price < 0 else "no price"),
                where=self.where or None,
                fix="write the price of one GPU for one hour",
            )
        if self.price is not None and self.needs_quote:
            raise InputError(
                f"offer {self.id} has a price and needs a quote",
                where=self.where or None,
                fix="keep one of the two",
            )

    @property
    def is_spot(self) -> bool:
        """Whether the provider may take it back at any time."""
        return "spot" in self.term
