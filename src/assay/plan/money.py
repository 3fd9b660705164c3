"""The bill of a job on an offer: every fee as a line, in the reader's currency, in exact decimals that add
up.

Each line is worked out in the offer's currency, converted at one dated rate, and rounded to a hundredth; the
total is the sum of the lines as printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal

from assay.catalog.offers import Rates
from assay.domain.message import Message
from assay.domain.offer import ZERO, Offer
from assay.errors import InputError

_CENT = Decimal("0.01")
_HOURS_A_MONTH = Decimal(730)
_HOURS_A_DAY = Decimal(24)

#: Every line that a bill has, in its order; what an offer does not name stays on the bill as "not named".
LINES = (
    "compute",
    "minimum_term",
    "unused_reservation",
    "ramp",
    "delivery_delay",
    "monthly_discount",
    "spot_interruptions",
    "node_fees",
    "storage",
    "egress",
    "sla_credits",
    "support",
    "tax",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a job takes: GPUs and hours, interruptions of spot nodes within them, data kept and carried away.

    `spot_h` of the `hours` repeat or wait for what interruptions took. `availability_frac` is expected of a
    node.
    """

    gpus: int
    hours: float
    spot_h: float = 0.0
    stored_GB: float = 0.0
    egress_GB: float = 0.0
    availability_frac: float | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1 or not (math.isfinite(self.hours) and self.hours >= self.spot_h >= 0):
            raise InputError(f"{self.gpus} GPUs for {self.hours:g} h, of which {self.spot_h:g} h interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: its amount, and what it is made of. `named` is False where the offer says nothing about
    it."""

    name: str
    amount: Decimal
    because: Message
    named: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """All lines in one currency; `rate_date` is that of the exchange rate (empty where none was needed)."""

    offer: str
    currency: str
    lines: tuple[Line, ...]
    paid_gpus: int
    gpu_hours: Decimal
    rate_date: str = ""

    @property
    def total(self) -> Decimal:
        """The sum of the lines as printed."""
        return sum((line.amount for line in self.lines), ZERO)

    @property
    def not_named(self) -> tuple[str, ...]:
        """Fees that the offer is silent about: what to ask before signing."""
        return tuple(line.name for line in self.lines if not line.named)


def bill(offer: Offer, use: Use, rates: Rates, currency: str) -> Bill:
    """The bill; whole nodes are rented. Raises `InputError` where the offer needs a quote or a rate is
    missing."""
    if offer.price is None:
        raise InputError(
            f"offer {offer.id} of {offer.provider} has no public price",
            where=offer.where or None,
            fix="ask for a quote and write it as price in your own offer file",
        )
    nodes = -(-use.gpus // offer.gpus_per_node)
    paid = nodes * offer.gpus_per_node
    factor = rates.factor(offer.currency, currency)
    raw = _Sheet(offer=offer, use=use, paid=Decimal(paid), price=offer.price).lines()
    lines = tuple(replace(line, amount=_rounded(line.amount * factor)) for line in raw)
    return Bill(
        offer=offer.id,
        currency=currency,
        lines=lines,
        paid_gpus=paid,
        gpu_hours=paid * exact(use.hours),
        rate_date=rates.date if currency != offer.currency else "",
    )


def exact(value: float) -> Decimal:
    """A computed number as a decimal of six places: hours and gigabytes are never known better."""
    return Decimal(repr(round(value, 6)))


def _rounded(amount: Decimal) -> Decimal:
    # Adding nothing makes -0.00 a plain 0.00.
    return amount.quantize(_CENT, rounding=ROUND_HALF_UP) + ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """The lines of one bill in the offer's currency, unrounded."""

    offer: Offer
    use: Use
    paid: Decimal
    price: Decimal

    def lines(self) -> list[Line]:
        found = [
            self._compute(),
            self._minimum(),
            self._unused(),
            self._ramp(),
            self._delivery(),
            self._discount(),
            self._spot(),
            self._node_fees(),
            self._storage(),
            self._egress(),
        ]
        found.append(self._credits(sum((line.amount for line in found), ZERO)))
        subtotal = sum((line.amount for line in found), ZERO)
        found.append(self._part("support", self.offer.fees.support_frac, subtotal))
        subtotal += found[-1].amount
        found.append(self._part("tax", self.offer.fees.tax_frac, subtotal))
        return found

    @property
    def _hours(self) -> Decimal:
        return exact(self.use.hours)

    def _compute(self) -> Line:
        hours = exact(self.use.hours - self.use.spot_h)
        return self._line(
            "compute",
            self.paid * hours * self.price,
            gpus=int(self.paid),
            hours=f"{hours:,.2f}",
            price=self._said,
        )

    @property
    def _said(self) -> str:
        return f"{self.price} {self.offer.currency}"

    def _minimum(self) -> Line:
        least = self.offer.fees.minimum_h
        if least is None:
            return self._silent("minimum_term")
        short = max(least - self._hours, ZERO)
        return self._line(
            "minimum_term", self.paid * short * self.price, hours=f"{least:,.0f}", more=f"{short:,.1f}"
        )

    def _unused(self) -> Line:
        fees = self.offer.fees
        if fees.reserved_gpus is None:
            return self._silent("unused_reservation")
        idle = max(fees.reserved_gpus - int(self.paid), 0)
        amount = idle * self._hours * self.price * fees.take_or_pay_frac
        return self._line("unused_reservation", amount, gpus=idle, part_frac=float(fees.take_or_pay_frac))

    def _ramp(self) -> Line:
        days = self.offer.fees.ramp_days
        if days is None:
            return self._silent("ramp")
        # GPUs that have come are paid while the last are awaited: half of them on average.
        amount = self.paid / 2 * days * _HOURS_A_DAY * self.price
        return self._line("ramp", amount, days=float(days))

    def _delivery(self) -> Line:
        days = self.offer.fees.delivery_days
        return (
            self._silent("delivery_delay")
            if days is None
            else self._line("delivery_delay", ZERO, days=float(days))
        )

    def _discount(self) -> Line:
        part = self.offer.fees.monthly_discount_frac
        if part is None:
            return self._silent("monthly_discount")
        months = int(self._hours / _HOURS_A_MONTH)
        amount = -part * months * _HOURS_A_MONTH * self.paid * self.price
        return self._line("monthly_discount", amount, count=months, part_frac=float(part))

    def _spot(self) -> Line:
        if not self.offer.is_spot:
            return self._line("spot_interruptions", ZERO, hours="0")
        amount = self.paid * exact(self.use.spot_h) * self.price
        return self._line("spot_interruptions", amount, named=self.offer.fees.interruption_h is not None,
                          hours=f"{self.use.spot_h:,.1f}")  # fmt: skip

    def _node_fees(self) -> Line:
        fee = self.offer.fees.node_fee
        if fee is None:
            return self._silent("node_fees")
        days = self._hours / _HOURS_A_DAY
        return self._line("node_fees", fee.price_of(self.paid) * days, gpus=int(self.paid))

    def _storage(self) -> Line:
        price = self.offer.fees.storage_price
        if price is None:
            return self._silent("storage")
        months = self._hours / _HOURS_A_MONTH
        return self._line("storage", exact(self.use.stored_GB) * months * price, gigabytes=self.use.stored_GB)

    def _egress(self) -> Line:
        tiers = self.offer.fees.egress
        if tiers is None:
            return self._silent("egress")
        return self._line("egress", tiers.price_of(exact(self.use.egress_GB)), gigabytes=self.use.egress_GB)

    def _credits(self, billed: Decimal) -> Line:
        fees, expected = self.offer.fees, self.use.availability_frac
        if not fees.credits or expected is None:
            return self._silent("sla_credits")
        due = [part for below, part in fees.credits if exact(expected) < below]
        part = max(due, default=ZERO)
        return self._line("sla_credits", -part * billed, availability_frac=expected, part_frac=float(part))

    def _part(self, name: str, part: Decimal | None, of: Decimal) -> Line:
        if part is None:
            return self._silent(name)
        return self._line(name, part * max(of, ZERO), part_frac=float(part))

    @staticmethod
    def _line(name: str, amount: Decimal, *, named: bool = True, **values: str | float | int) -> Line:
        return Line(name=name, amount=amount, because=Message.of(f"plan.line.{name}", **values), named=named)

    @staticmethod
    def _silent(name: str) -> Line:
        return Line(name=name, amount=ZERO, because=Message.of("plan.line.not_named"), named=False)
