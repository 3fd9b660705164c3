"""Bills are exact, add up, name every fee, and refuse what cannot be paid."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_fixtures import RATES, offer

from assay.catalog.offers import age_days, load_rates, offers, offers_from, shipped_rates, usable
from assay.domain.offer import Fees, Tier, Tiers
from assay.errors import InputError
from assay.plan.money import LINES, Use, bill

EGRESS = Tiers(steps=(Tier(price=Decimal(0), up_to=Decimal(10000)), Tier(price=Decimal("0.0085"))))
NODE_FEE = Tiers(
    steps=(
        Tier(price=Decimal("1.5625"), up_to=Decimal(100)),
        Tier(price=Decimal("1.25"), up_to=Decimal(500)),
        Tier(price=Decimal("0.9375"), up_to=Decimal(1000)),
        Tier(price=Decimal("0.625")),
    ),
    whole=True,
)
ALL_FEES = Fees(
    tax_frac=Decimal("0.06"),
    support_frac=Decimal("0.05"),
    egress=EGRESS,
    storage_price=Decimal("0.02"),
    node_fee=NODE_FEE,
    minimum_h=Decimal(2000),
    reserved_gpus=40,
    take_or_pay_frac=Decimal("0.5"),
    ramp_days=Decimal(4),
    delivery_days=Decimal(10),
    monthly_discount_frac=Decimal("0.1"),
    sla_frac=Decimal("0.999"),
    credits=((Decimal("0.999"), Decimal("0.10")), (Decimal("0.99"), Decimal("0.30"))),
)


def test_every_fee_is_a_line_worked_out_by_hand() -> None:
    use = Use(gpus=30, hours=1000, stored_GB=500, egress_GB=12000, availability_frac=0.9985)
    done = bill(offer(price="2.50", fees=ALL_FEES), use, RATES, "USD")
    lines = {line.name: line.amount for line in done.lines}
    assert done.paid_gpus == 32
    assert lines["compute"] == Decimal("80000.00")
    assert lines["minimum_term"] == 32 * 1000 * Decimal("2.5")
    assert lines["unused_reservation"] == 8 * 1000 * Decimal("1.25")
    assert lines["ramp"] == 16 * 96 * Decimal("2.5")
    assert lines["delivery_delay"] == 0
    assert lines["monthly_discount"] == -Decimal("0.1") * 730 * 32 * Decimal("2.5")
    assert lines["node_fees"] == (32 * Decimal("1.5625") * 1000 / 24).quantize(Decimal("0.01"))
    assert lines["storage"] == Decimal("13.70")
    assert lines["egress"] == Decimal("17.00")
    before = sum(lines[name] for name in LINES[:10])
    assert lines["sla_credits"] == pytest.approx(-before / 10, abs=Decimal("0.02"))
    assert lines["support"] == pytest.approx((before + lines["sla_credits"]) / 20, abs=Decimal("0.02"))
    assert lines["tax"] == pytest.approx(
        (before + lines["sla_credits"] + lines["support"]) * Decimal("0.06"), abs=Decimal("0.02")
    )
    assert done.not_named == ()


@given(
    gpus=st.integers(1, 20000),
    hours=st.floats(0.01, 1e5),
    price=st.decimals("0.01", "100", places=4),
    currency=st.sampled_from(["USD", "CNY"]),
)
def test_lines_add_up_to_the_total_exactly(gpus: int, hours: float, price: Decimal, currency: str) -> None:
    done = bill(
        offer(price=str(price), fees=ALL_FEES), Use(gpus=gpus, hours=hours, egress_GB=7), RATES, currency
    )
    assert [line.name for line in done.lines] == list(LINES)
    assert done.total == sum(line.amount for line in done.lines)
    assert all(line.amount == line.amount.quantize(Decimal("0.01")) for line in done.lines)


def test_a_fee_that_the_offer_does_not_name_is_said_to_be_unnamed() -> None:
    done = bill(offer(), Use(gpus=8, hours=1), RATES, "USD")
    assert set(done.not_named) == set(LINES) - {"compute", "spot_interruptions"}
    assert done.total == Decimal("20.00")


def test_spot_interruptions_are_a_line_of_their_own() -> None:
    done = bill(offer(term="spot"), Use(gpus=8, hours=110, spot_h=10), RATES, "USD")
    lines = {line.name: line.amount for line in done.lines}
    assert (lines["compute"], lines["spot_interruptions"]) == (Decimal("2000.00"), Decimal("200.00"))
    assert "spot_interruptions" in done.not_named


def test_another_currency_carries_the_date_of_its_rate() -> None:
    here = bill(offer(), Use(gpus=8, hours=1), RATES, "CNY")
    assert (here.total, here.rate_date) == (Decimal("142.00"), "2026-11-01")
    assert bill(offer(), Use(gpus=8, hours=1), RATES, "USD").rate_date == ""


def test_a_currency_without_a_rate_is_refused_with_those_known() -> None:
    with pytest.raises(InputError, match="no exchange rate for EUR") as fault:
        bill(offer(), Use(gpus=8, hours=1), RATES, "EUR")
    assert "USD, CNY" in str(fault.value)


def test_an_offer_that_needs_a_quote_is_not_priced() -> None:
    with pytest.raises(InputError, match="no public price"):
        bill(offer(price=None, needs_quote=True), Use(gpus=8, hours=1), RATES, "USD")


@pytest.mark.parametrize(("price", "word"), [("-1", "negative"), ("0", "no price")])
def test_a_price_that_cannot_be_is_refused(price: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        offer(price=price)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_egress_never_costs_less(first: float, second: float) -> None:
    low, high = sorted((Decimal(repr(first)), Decimal(repr(second))))
    assert EGRESS.price_of(low) <= EGRESS.price_of(high)


def test_egress_is_charged_part_by_part_and_node_fees_as_a_whole() -> None:
    assert EGRESS.price_of(Decimal(10100)) == Decimal("0.85")
    assert NODE_FEE.price_of(Decimal(100)) == Decimal("156.25")
    assert NODE_FEE.price_of(Decimal(101)) == Decimal("126.25")
    assert NODE_FEE.price_of(Decimal(2000)) == Decimal(1250)


@pytest.mark.parametrize(
    ("steps", "word"),
    [
        ([("1", "10"), ("2", None)], "not monotone"),
        ([("2", "10"), ("1", "5"), ("0.5", None)], "do not ascend"),
        ([("2", "10"), ("1", "20")], "no bound"),
        ([("-1", None)], "negative"),
    ],
)
def test_tiers_that_cannot_be_are_refused(steps: list[tuple[str, str | None]], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Tiers(steps=tuple(Tier(price=Decimal(p), up_to=None if b is None else Decimal(b)) for p, b in steps))


def test_the_catalogue_has_sources_and_dates_and_refuses_what_is_no_price() -> None:
    every = offers()
    assert len(every) > 60
    assert all(one.source and one.date for one in every)
    assert [one.id for one in every if one.needs_quote and one.price is not None] == []
    kept, refused = usable(every, shipped_rates())
    assert {r.offer.id for r in refused} == {"mithril-h100-sxm"}
    assert len(kept) + len(refused) == len(every)
    assert {one.provider for one in every if one.needs_quote} >= {"火山引擎", "腾讯云 HCC", "星宇智算"}


@pytest.mark.parametrize(
    ("gpu", "price", "code"),
    [
        ("h100-sxm", "30.00", "too_high"),
        ("h100-sxm", "0.40", "too_low"),
        ("v100-sxm2-32gb", "5.69", "above_newer"),
        ("h100-sxm", "3.10", None),
    ],
)
def test_impossible_prices_are_refused_and_named(gpu: str, price: str, code: str | None) -> None:
    kept, refused = usable([offer(gpu=gpu, price=price)], RATES)
    assert [r.code for r in refused] == ([code] if code else [])
    assert len(kept) == (code is None)


def test_an_old_price_knows_its_age() -> None:
    today = datetime.date(2026, 11, 30)
    assert age_days(offer(date="2026-11-09"), today) == 21
    assert age_days(offer(date="2026-10"), today) == 30
    assert age_days(offer(date="2023Q3"), today) == 1157
    assert age_days(offer(date="last week"), today) is None


OFFERS = """\
schema: 1
offers:
  - id: mine
    provider: Cloud
    gpu: h100-sxm
    gpus_per_node: 8
    cluster: dgx-h100
    price: 2.95
    currency: CNY
    date: 2026-11-20
    fees:
      tax: 6 %
      egress:
        - {up_to: 1000, price: 0}
        - {price: 0.5}
    claims:
      training.scaling_efficiency: 65 %
      service.availability: 99.5 %
"""


def test_a_users_price_list_is_read_exactly(tmp_path: Path) -> None:
    file = tmp_path / "offers.yaml"
    file.write_text(OFFERS)
    (one,) = offers_from(file)
    assert one.price == Decimal("2.95")
    assert one.fees.tax_frac == Decimal("0.06")
    assert one.claims == {"training.scaling_efficiency": 0.65, "service.availability": 0.995}
    assert one.where.endswith("offers.yaml:3")


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ("price: 2.95", "price: -2.95", 3, "negative"),
        ("price: 2.95", "prise: 2.95", 8, "'price'"),
        ("tax: 6 %", "tax: 600 %", 3, "not between 0 and 1"),
        ("service.availability", "service.availabilty", 18, "'service.availability'"),
        ("- {price: 0.5}", "- {price: -0.5}", 3, "negative"),
        ("price: 2.95", "price: lots", 3, "not a number"),
    ],
)
def test_a_fault_in_a_price_list_says_where_and_how(
    tmp_path: Path, old: str, new: str, line: int, word: str
) -> None:
    file = tmp_path / "offers.yaml"
    file.write_text(OFFERS.replace(old, new))
    with pytest.raises(InputError) as fault:
        offers_from(file)
    assert word in str(fault.value)
    assert fault.value.where == f"{file}:{line}"


def test_a_rate_file_needs_a_date_and_possible_rates() -> None:
    rates = load_rates("date: 2026-11-30\nper_usd: {EUR: 0.9}\n", "rates.yaml")
    assert rates.factor("EUR", "USD") * Decimal("0.9") == pytest.approx(Decimal(1))
    for text, word in (
        ("per_usd: {EUR: 0.9}", "needs a date"),
        ("date: 2026-11-30\nper_usd: {EUR: -1}", "no rate"),
        ("date: 2026-11-30\nper_usd: {EUR: 1}\nperusd: 2", "per_usd"),
    ):
        with pytest.raises(InputError, match=word):
            load_rates(text, "rates.yaml")
