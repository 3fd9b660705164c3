"""Offer files: YAML or TOML price lists with every fee → offers; the shipped catalogue has the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

from pydantic import Field

from assay.codec.amount import read_amount, refuse_impossible
from assay.codec.document import Document, read_document
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.offer import Fees, Offer, Tier, Tiers
from assay.domain.quantity import Quantity
from assay.errors import InputError

Number = str | int | float


class _TierText(FileModel):
    price: Number
    up_to: Number | None = None


class _CreditText(FileModel):
    below: Number
    credit: Number


class _FeesText(FileModel):
    tax: Number | None = None
    support: Number | None = None
    egress: list[_TierText] | None = None
    storage: Number | None = None
    node_fee: list[_TierText] | None = None
    minimum_hours: Number | None = None
    reserved_gpus: int | None = Field(default=None, ge=0)
    take_or_pay: Number | None = None
    ramp_days: Number | None = None
    delivery_days: Number | None = None
    monthly_discount: Number | None = None
    interruption_hours: Number | None = None
    sla: Number | None = None
    credits: list[_CreditText] = Field(default_factory=list)


class _OfferText(FileModel):
    id: str
    provider: str
    gpu: str
    gpus_per_node: int
    term: str = "on-demand"
    currency: str = "USD"
    price: Number | None = None
    region: str = ""
    cluster: str | None = None
    network: str = ""
    note: str = ""
    needs_quote: bool = False
    fees: _FeesText = Field(default_factory=_FeesText)
    claims: dict[str, Number] = Field(default_factory=dict)
    source: str = ""
    date: str = ""
    confidence: str = ""


class _ListText(FileModel):
    schema_: int = Field(alias="schema")
    offers: list[_OfferText]
    fees: dict[str, _FeesText] = Field(default_factory=dict)


def load_offers(
    source: Path | str, name: str | None = None, *, quantity_of: Callable[[str], Quantity]
) -> tuple[Offer, ...]:
    """Every offer of a file; fees under `fees.<provider>` hold for that provider's offers that name none.

    Raises `InputError` with file:line for an unknown key, a negative price, tiers that are not monotone, or
    an id that stands twice.
    """
    document = read_document(source, name)
    text = read_as(document, _ListText, kind="offer")
    found: dict[str, Offer] = {}
    for at, one in enumerate(text.offers):
        where = document.where("offers", at)
        if one.id in found:
            raise InputError(
                f"offer {one.id!r} stands twice", where=where, fix="give each offer an id of its own"
            )
        own = one.fees.model_fields_set
        shared = None if own else text.fees.get(one.provider)
        claims = _claims(one.claims, document, at, quantity_of)
        with placed(where):
            found[one.id] = Offer(
                **one.model_dump(exclude={"price", "fees", "claims"}),
                price=None if one.price is None else decimal(one.price),
                fees=_fees(shared or one.fees),
                claims=claims,
                where=where,
            )
    if not found:
        raise InputError("no offer in this file", where=document.where("offers"), fix="add one under offers:")
    return tuple(found.values())


def decimal(text: Number) -> Decimal:
    """An exact number; "6 %" is 0.06. Raises `InputError` for what is none."""
    raw = str(text).strip()
    try:
        value = Decimal(raw.removesuffix("%").strip().replace("_", ""))
    except InvalidOperation:
        raise InputError(f"{raw!r} is not a number", fix="write it like 2.95 or 6 %") from None
    if not value.is_finite():
        raise InputError(f"{raw!r} is not a finite number")
    return value / 100 if raw.endswith("%") else value


def _optional(text: Number | None) -> Decimal | None:
    return None if text is None else decimal(text)


def _fees(text: _FeesText) -> Fees:
    return Fees(
        tax_frac=_optional(text.tax),
        support_frac=_optional(text.support),
        egress=_tiers(text.egress, whole=False),
        storage_price=_optional(text.storage),
        node_fee=_tiers(text.node_fee, whole=True),
        minimum_h=_optional(text.minimum_hours),
        reserved_gpus=text.reserved_gpus,
        take_or_pay_frac=Decimal(1) if text.take_or_pay is None else decimal(text.take_or_pay),
        ramp_days=_optional(text.ramp_days),
        delivery_days=_optional(text.delivery_days),
        monthly_discount_frac=_optional(text.monthly_discount),
        interruption_h=_optional(text.interruption_hours),
        sla_frac=_optional(text.sla),
        credits=tuple((decimal(c.below), decimal(c.credit)) for c in text.credits),
    )


def _tiers(steps: list[_TierText] | None, *, whole: bool) -> Tiers | None:
    if steps is None:
        return None
    return Tiers(
        steps=tuple(Tier(price=decimal(s.price), up_to=_optional(s.up_to)) for s in steps), whole=whole
    )


def _claims(
    stated: Mapping[str, Number], document: Document, at: int, quantity_of: Callable[[str], Quantity]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in stated.items():
        where = document.where("offers", at, "claims", name)
        with placed(where):
            quantity = quantity_of(name)
            found[name] = read_amount(value, quantity.unit, where=where)
            refuse_impossible(found[name], quantity, where=where)
    return found
