"""Platforms side by side: order, flips, breaches, sizes; imported catalogues and their traps."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from plan_fixtures import RATES, h100, named_job, offer, terms

from assay.catalog.clusters import cluster
from assay.catalog.profiles import find_profile
from assay.domain.offer import Fees, Offer
from assay.errors import InputError
from assay.formats.offer_csv import read_prices
from assay.plan.compare import Flip, Platform, Terms, _paid, flips, platform, ranked
from assay.plan.size import size

LLAMA = named_job("llama-3.1-8b")


def platforms(*every: Offer, plan: Terms | None = None) -> tuple[Platform, ...]:
    return ranked([platform(one, cluster(str(one.cluster)), plan or terms(LLAMA)) for one in every])


def test_a_platform_has_days_utilisation_speedup_goodput_and_a_bill() -> None:
    (one,) = platforms(offer(fees=Fees(delivery_days=Decimal(3), ramp_days=Decimal(2))))
    assert one.candidate is not None
    assert one.ideal_h == pytest.approx(one.candidate.prediction.days(1e12) * 24)
    assert one.hours == pytest.approx(one.ideal_h / one.goodput_frac)  # type: ignore[operator]
    assert one.days == pytest.approx(one.hours / 24 + 5)  # type: ignore[operator]
    assert 0.8 < one.speedup_frac <= 1.02  # type: ignore[operator]
    assert 0.95 < one.goodput_frac < 1  # type: ignore[operator]
    assert one.bill is not None
    assert one.useful_price is not None
    assert one.useful_price > Decimal("2.5")
    assert one.useful_price * Decimal(repr(one.useful_gpu_hours)) == pytest.approx(
        one.bill.total, rel=Decimal("0.001")
    )


def test_the_cheapest_whole_bill_comes_first_whatever_the_price_of_an_hour() -> None:
    taxed = offer("taxed", "2.40", Fees(tax_frac=Decimal("0.25")))
    found = platforms(taxed, offer("plain", "2.50"), offer("ask", None, needs_quote=True))
    assert [one.offer.id for one in found] == ["plain", "taxed", "ask"]
    assert "no public price" in str(found[2].why_not)


def test_a_spot_offer_pays_for_its_interruptions() -> None:
    often = offer("often", "1.25", Fees(interruption_h=Decimal(24)), term="spot")
    seldom = replace(often, id="seldom", fees=Fees(interruption_h=Decimal(2400)))
    found = {one.offer.id: one for one in platforms(often, seldom, offer("steady", "1.25"))}
    assert found["often"].goodput_frac < found["seldom"].goodput_frac < found["steady"].goodput_frac  # type: ignore[operator]
    lines = {line.name: line.amount for line in found["often"].bill.lines}  # type: ignore[union-attr]
    assert lines["spot_interruptions"] > 0
    assert found["often"].bill.total > found["steady"].bill.total  # type: ignore[union-attr]


def test_the_order_turns_at_the_price_speed_and_failure_rate_that_are_named() -> None:
    plan = terms(LLAMA)
    spot = offer("spot", "2.45", Fees(interruption_h=Decimal(6)), term="spot")
    found = platforms(offer("cheap", "2.50"), spot, offer("dear", "3.00"), plan=plan)
    turned = {flip.offer: flip for flip in flips(found, plan)}
    first = found[0]
    assert first.offer.id == "cheap"
    by_id = {one.offer.id: one for one in found}
    assert first.bill is not None
    best = first.bill.total
    dear = turned["dear"]
    assert dear.price == pytest.approx(Decimal("2.50"), abs=Decimal("0.005"))
    assert dear.speed_factor == pytest.approx(1.2, rel=0.002)
    assert dear.mtbf_factor is None
    factor = turned["spot"].mtbf_factor
    assert factor is not None
    assert factor > 1
    now, before = (_paid(by_id["spot"], plan, failures=1 / f).bill.total for f in (factor, factor * 0.99))  # type: ignore[union-attr]
    assert now <= best < before
    # The first loses its place when it gets as dear as the second.
    second = found[1].bill.total  # type: ignore[union-attr]
    assert turned["cheap"].price == pytest.approx(Decimal("2.50") * second / best, rel=Decimal("0.005"))
    assert turned["cheap"].speed_factor < 1  # type: ignore[operator]
    assert isinstance(dear, Flip)


def test_promises_below_the_standard_are_named_with_their_clause() -> None:
    claims = {"training.scaling_efficiency": 0.65, "service.availability": 0.9995, "price.hidden_fees": 3.0}
    one = platform(offer(claims=claims), h100(4), terms(LLAMA), find_profile("rental-guide"))
    assert [(b.quantity, b.claimed, b.bound) for b in one.breaches] == [
        ("training.scaling_efficiency", 0.65, 0.85),
        ("price.hidden_fees", 3.0, 0.0),
    ]
    assert "0.85" in one.breaches[0].clause


@pytest.mark.parametrize(
    ("one", "system", "words"),
    [
        (offer(cluster=None), None, "name cluster in the offer"),
        (offer(gpus_per_node=4), "dgx-h100", "4 GPUs a node in the offer, 8 in dgx-h100"),
        (offer(), "dgx-h100", "fits nowhere"),
    ],
)
def test_what_cannot_be_predicted_says_why(one: Offer, system: str | None, words: str) -> None:
    plan = terms(named_job("llama-3.1-405b") if words == "fits nowhere" else LLAMA, gpus=8)
    found = platform(one, cluster(system) if system else None, plan)
    assert words in str(found.why_not)
    assert found.bill is None


def test_the_size_in_time_is_the_smallest_tried_and_the_cheapest_comes_first() -> None:
    plan = terms(LLAMA)
    done = size([(offer(), h100(1))], plan, deadline_days=30, budget=Decimal(10**6), most_gpus=512)
    best = done.best
    assert best is not None
    assert best.platform.days is not None
    assert best.platform.days <= 30
    assert best.platform.bill is not None
    assert best.platform.bill.total <= 10**6
    late = [one.platform.nodes for one in done.options if not one.meets_deadline]
    in_time = [one.platform.nodes for one in done.options if one.meets_deadline]
    assert max(late) < min(in_time)
    assert min(in_time) - max(late) <= max(1, min(in_time) // 8)


def test_a_deadline_that_nothing_meets_has_no_best() -> None:
    done = size([(offer(), h100(1))], terms(LLAMA), deadline_days=0.01, most_gpus=64)
    assert done.best is None
    assert len(done.options) >= 3
    with pytest.raises(InputError, match="in the past"):
        size([(offer(), h100(1))], terms(LLAMA), deadline_days=-3)
    with pytest.raises(InputError, match="budget"):
        size([(offer(), h100(1))], terms(LLAMA), budget=Decimal(-1))


def test_prices_are_compared_in_one_currency() -> None:
    plan = terms(LLAMA, currency="CNY")
    found = platforms(offer("usd", "2.50"), offer("cny", "17.00", currency="CNY"), plan=plan)
    assert [one.offer.id for one in found] == ["cny", "usd"]
    assert {one.bill.currency for one in found} == {"CNY"}  # type: ignore[union-attr]
    assert found[1].bill.total == pytest.approx(
        found[0].bill.total * Decimal("17.75") / 17, rel=Decimal("1e-6")
    )  # type: ignore[union-attr]
    assert RATES.date == found[1].bill.rate_date  # type: ignore[union-attr]


GPUHUNT = """\
instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor
p5.48xlarge,us-east-1,98.32,192,2048,8,H100,80,False,,nvidia
p5.48xlarge,us-east-1,40.00,192,2048,8,H100,80,True,,nvidia
m5.large,us-east-1,0.10,2,8,0,,,False,,
"""

SKYPILOT_GCP = """\
InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice,GpuInfo
a2-highgpu-1g,12,85,A100,1,us-central1,us-central1-a,0.739,0.22,
,,,A100,1,us-central1,us-central1-a,2.934,1.06,
a2-highgpu-1g,12,85,A100,1,asia-east1,asia-east1-a,0.80,0.25,
"""

SKYPILOT_RUNPOD = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone,GpuInfo
8x_H100,H100,8,128,2000,23.92,23.92,US,US-1,"{'Gpus': []}"
"""


def test_gpuhunt_rows_become_prices_of_one_gpu_hour() -> None:
    on_demand, spot = read_prices(GPUHUNT.splitlines(), "aws.csv")
    assert (on_demand.price, on_demand.spot, on_demand.provider) == ("12.29", False, "aws")
    assert (spot.price, spot.spot) == ("5", True)


def test_a_gcp_machine_is_priced_with_its_accelerator_or_refused() -> None:
    rows = read_prices(SKYPILOT_GCP.splitlines(), "catalogs/v8/gcp/vms.csv")
    good = [row for row in rows if row.fault is None]
    assert [(row.price, row.spot) for row in good] == [("3.673", False), ("1.28", True)]
    (refused,) = [row for row in rows if row.fault]
    assert "only a part" in str(refused.fault)
    assert refused.line == 4


def test_a_spot_price_that_equals_the_price_is_no_spot_price() -> None:
    (row,) = read_prices(SKYPILOT_RUNPOD.splitlines(), "runpod/vms.csv")
    assert (row.price, row.spot, row.provider) == ("2.99", False, "runpod")


def test_other_tables_and_unreadable_rows_are_refused_with_their_line() -> None:
    with pytest.raises(InputError, match="neither gpuhunt"):
        read_prices(["a,b", "1,2"], "x.csv")
    with pytest.raises(InputError) as fault:
        read_prices(GPUHUNT.replace("98.32", "cheap").splitlines(), "aws.csv")
    assert fault.value.where == "aws.csv:2"
