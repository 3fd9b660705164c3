"""The shipped offers and exchange rates, offers from users' files, and prices that cannot be."""

from __future__ import annotations

import datetime
import functools
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from assay.catalog.quantities import quantity
from assay.catalog.tables import shipped_text
from assay.codec.document import read_document
from assay.codec.offer import decimal, load_offers
from assay.domain.offer import Offer
from assay.errors import InputError, did_you_mean, unknown_name

#: Prices move by half in a fortnight (a market's median fell from 6.15 to 2.40 USD in 12 days).
STALE_DAYS = 14
#: A price this far from the median of its card in the catalogue is a fault of the row, not a bargain.
_LOWEST, _HIGHEST = Decimal("0.2"), Decimal(4)
#: Terms that name no price that anybody pays.
_NO_PRICE_TERMS = ("bid floor",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Units of each currency for one US dollar, and when and where they were read."""

    per_usd: Mapping[str, Decimal]
    date: str
    source: str
    where: str

    def factor(self, of: str, to: str) -> Decimal:
        """What one unit of `of` is in `to`; `InputError` names the currency that has no rate."""
        for currency in (of, to):
            if currency not in self.per_usd:
                raise InputError(
                    f"no exchange rate for {currency}",
                    where=self.where,
                    fix=f"give --rates FILE with a rate for {currency}; known: {', '.join(self.per_usd)}",
                )
        return self.per_usd[to] / self.per_usd[of]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An offer that is not used, and why."""

    offer: Offer
    code: str
    detail: str


@functools.cache
def offers() -> tuple[Offer, ...]:
    """Every shipped offer, refused ones too."""
    return load_offers(shipped_text("offers/public.toml"), "offers/public.toml", quantity_of=quantity)


def offers_from(source: Path) -> tuple[Offer, ...]:
    """The offers of a user's YAML or TOML file."""
    return load_offers(source, quantity_of=quantity)


def offer(name: str, among: Iterable[Offer]) -> Offer:
    """The offer with this id; raises `UnknownNameError` with the nearest."""
    by_id = {one.id: one for one in among}
    if name not in by_id:
        raise unknown_name("offer", name, by_id)
    return by_id[name]


@functools.cache
def shipped_rates() -> Rates:
    """The rates that come with the package."""
    return load_rates(shipped_text("offers/rates.toml"), "offers/rates.toml")


def load_rates(source: Path | str, name: str | None = None) -> Rates:
    """A rate file: `date`, `source`, and `[per_usd]` with one number a currency. Nothing is ever fetched."""
    document = read_document(source, name)
    for key in document.data:
        if key not in ("schema", "date", "source", "per_usd"):
            known = ("date", "source", "per_usd")
            raise InputError(f"unknown key {key!r}", where=document.where(key), fix=did_you_mean(key, known))
    table = document.data.get("per_usd")
    if not isinstance(table, dict) or not table or not document.data.get("date"):
        raise InputError(
            "a rate file needs a date and a table per_usd",
            where=document.name,
            fix='date: 2026-11-30, per_usd: {CNY: "7.1"}',
        )
    per_usd = {"USD": Decimal(1)}
    for currency, value in table.items():
        per_usd[currency] = decimal(str(value))
        if per_usd[currency] <= 0:
            raise InputError(
                f"{value} {currency} for a dollar is no rate", where=document.where("per_usd", currency)
            )
    return Rates(
        per_usd=per_usd,
        date=str(document.data["date"]),
        source=str(document.data.get("source", "")),
        where=document.name,
    )


def usable(among: Iterable[Offer], rates: Rates) -> tuple[tuple[Offer, ...], tuple[Refusal, ...]]:
    """Offers whose price can be meant, and the others each with the reason.

    A price is held against the median of its card's catalogue rows, and a card against newer ones of its
    source.
    """
    kept: list[Offer] = []
    refused: list[Refusal] = []
    medians = _medians(rates)
    for one in among:
        reason = _fault(one, medians, rates)
        if reason:
            refused.append(Refusal(offer=one, code=reason[0], detail=reason[1]))
        else:
            kept.append(one)
    return tuple(kept), tuple(refused)


def _fault(one: Offer, medians: Mapping[str, Decimal], rates: Rates) -> tuple[str, str] | None:
    if any(word in one.term for word in _NO_PRICE_TERMS):
        return "no_price", f"a {one.term} is not what anybody pays"
    if one.price is None:
        return None
    price = one.price * rates.factor(one.currency, "USD")
    if (usual := medians.get(one.gpu)) is not None:
        if price > usual * _HIGHEST:
            return "too_high", f"{price:.2f} USD is {price / usual:.1f} times the median of {usual:.2f} USD"
        if price < usual * _LOWEST:
            return "too_low", f"{price:.2f} USD is {price / usual:.2f} of the median of {usual:.2f} USD"
    newer = medians.get("a100-sxm-80gb")
    if one.gpu.startswith("v100") and newer is not None and price > newer:
        return "above_newer", f"a V100 at {price:.2f} USD, above the median A100 at {newer:.2f} USD"
    return None


@functools.cache
def _medians_usd(table: tuple[tuple[str, Decimal], ...]) -> Mapping[str, Decimal]:
    prices: dict[str, list[Decimal]] = {}
    rates = Rates(per_usd=dict(table), date="", source="", where="")
    for one in offers():
        if one.price is not None and not one.is_spot and one.currency in rates.per_usd:
            prices.setdefault(one.gpu, []).append(one.price * rates.factor(one.currency, "USD"))
    return {gpu: statistics.median(found) for gpu, found in prices.items() if len(found) >= 3}


def _medians(rates: Rates) -> Mapping[str, Decimal]:
    """Median catalogue price by card in USD, where three rows or more name one; spot prices are left out."""
    return _medians_usd(tuple(rates.per_usd.items()))


def age_days(one: Offer, today: datetime.date) -> int | None:
    """Days since the offer's date, the latest day that it can mean; None where it names no year."""
    found = re.fullmatch(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?|Q([1-4]))?", one.date.strip())
    if not found:
        return None
    year = int(found[1])
    month = int(found[2]) if found[2] else int(found[4]) * 3 if found[4] else 12
    if found[3]:
        day = datetime.date(year, month, int(found[3]))
    else:
        day = (datetime.date(year, month, 28) + datetime.timedelta(days=4)).replace(
            day=1
        ) - datetime.timedelta(days=1)
    return max(0, (today - day).days)
