"""Promises beside measurements: what falls short, what is refused, what nothing can keep."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.messages import LANGUAGES, Texts
from assay.catalog.quantities import quantity
from assay.domain.reading import ABSENT, Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.judge.claims import Shortfall, claim_findings, shortfalls

GEMM = {"shape": "8192x8192x8192", "load": "all", "statistic": "median"}


def reading(
    quantity_id: str,
    value: float | str | None,
    subject: str = "cluster",
    origin: Origin = Origin.MEASURED,
    half: float | None = None,
    n: int = 5,
    **recipe: str | int | float,
) -> Reading:
    number = value if isinstance(value, float) and half is not None else None
    return Reading(
        quantity=quantity_id,
        subject=Subject.parse(subject),
        origin=origin,
        value=value,
        unit=quantity(quantity_id).unit,
        recipe=Recipe.of(recipe),
        low=None if number is None or half is None else number - half,
        high=None if number is None or half is None else number + half,
        n=n,
        reason="no GPU" if value is None else None,
        source="offer.yaml:12" if origin is Origin.CLAIMED else "run",
    )


def claim(quantity_id: str, value: float | str, subject: str = "cluster", **recipe: str | int) -> Reading:
    return reading(quantity_id, value, subject, Origin.CLAIMED, **recipe)


def held(claimed: Reading, *measured: Reading, others: tuple[Reading, ...] = ()) -> Shortfall:
    (row,) = shortfalls([claimed], measured, others, quantity)
    return row


def test_the_worst_subject_is_held_against_the_promise() -> None:
    cards = [reading("gemm.bf16.rate", 7e14 - i * 1e13, f"gpu:h/{i}", half=1e12, **GEMM) for i in range(8)]
    row = held(claim("gemm.bf16.rate", 7.8e14, **GEMM), *cards)
    assert row.measured is not None
    assert str(row.measured.subject) == "gpu:h/7"
    assert row.median == pytest.approx(6.65e14)
    assert row.subjects == 8
    assert row.overstated_frac == pytest.approx(7.8 / 6.3 - 1)
    assert row.shown
    assert row.unstated == ()


def test_a_promise_that_is_kept_is_not_overstated() -> None:
    row = held(
        claim("gemm.bf16.rate", 6e14, **GEMM), reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=1e12, **GEMM)
    )
    assert row.overstated_frac is not None
    assert row.overstated_frac < 0
    assert claim_findings([row]) == ()


def test_less_is_better_is_overstated_by_what_it_takes_more() -> None:
    row = held(
        claim("peer.latency", 10e-6, bytes=8), reading("peer.latency", 15e-6, "pair:a|b", half=1e-6, bytes=8)
    )
    assert row.overstated_frac == pytest.approx(0.5)
    assert row.shown


@pytest.mark.parametrize(("half", "shown"), [(None, False), (2e13, False), (0.5e13, True)])
def test_only_what_lies_beyond_the_interval_is_shown(half: float | None, shown: bool) -> None:
    row = held(claim("gemm.bf16.rate", 7.1e14), reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=half, **GEMM))
    assert row.shown is shown


def test_the_worst_of_many_needs_a_wider_gap_than_a_single_one() -> None:
    claimed = claim("gemm.bf16.rate", 7.1e14)
    cards = [reading("gemm.bf16.rate", 7e14, f"gpu:h/{i}", half=0.9e13, **GEMM) for i in range(64)]
    assert held(claimed, cards[0]).shown
    assert not held(claimed, *cards).shown


def test_an_open_recipe_gets_the_one_that_favours_it() -> None:
    alone = reading("gemm.bf16.rate", 7.6e14, "gpu:h/0", half=1e12, **GEMM | {"load": "alone"})
    together = reading("gemm.bf16.rate", 7.0e14, "gpu:h/0", half=1e12, **GEMM)
    row = held(claim("gemm.bf16.rate", 7.5e14), together, alone)
    assert row.measured == alone
    assert row.unstated == ("shape", "load", "statistic")
    slow = reading("peer.latency", 9e-6, "pair:a|b", half=1e-7, bytes=4096)
    fast = reading("peer.latency", 4e-6, "pair:a|b", half=1e-7, bytes=8)
    assert held(claim("peer.latency", 5e-6), slow, fast).measured == fast


def test_recipes_that_conflict_are_refused_with_the_difference() -> None:
    row = held(
        claim("gemm.bf16.rate", 7.5e14, **GEMM | {"shape": "4096x4096x4096"}),
        reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=1e12, **GEMM),
    )
    assert (row.measured, row.overstated_frac, row.shown) == (None, None, False)
    assert row.refused is not None
    assert "shape 8192x8192x8192 against 4096x4096x4096" in Texts("en").say(row.refused)


def test_what_was_not_measured_says_why() -> None:
    lost = held(claim("gemm.bf16.rate", 7.5e14), reading("gemm.bf16.rate", None, "gpu:h/0"))
    assert lost.refused is not None
    assert "no GPU" in Texts("en").say(lost.refused)
    nothing = held(claim("storage.random_read_4k.iops", 1e6))
    assert nothing.refused is not None
    assert nothing.refused.code == "reason.not_measured.no_reading"


def test_a_promise_about_one_subject_is_held_against_it_alone() -> None:
    cards = [reading("gemm.bf16.rate", 7e14 - i * 1e14, f"gpu:h/{i}", half=1e12, **GEMM) for i in range(2)]
    row = held(claim("gemm.bf16.rate", 6.9e14, "gpu:h/0"), *cards)
    assert row.subjects == 1
    assert not row.shown


def test_predictions_and_datasheets_stand_beside() -> None:
    sheet = reading("gemm.bf16.rate", 9.89e14, origin=Origin.DATASHEET)
    predicted = reading("gemm.bf16.rate", 7.4e14, "gpu:h/0", Origin.PREDICTED, **GEMM)
    unlike = reading("gemm.bf16.rate", 1e14, "gpu:h/0", Origin.PREDICTED, **GEMM | {"load": "alone"})
    row = held(
        claim("gemm.bf16.rate", 7.5e14),
        reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=1e12, **GEMM),
        others=(sheet, unlike, predicted),
    )
    assert (row.datasheet, row.predicted) == (sheet, predicted)


@pytest.mark.parametrize(
    ("promised", "found", "kept"),
    [
        ("a100-sxm-80gb", "NVIDIA A100-SXM4-80GB", True),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("H100", "NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", True),
    ],
)
def test_a_model_is_as_promised_or_not(promised: str, found: str, kept: bool) -> None:
    row = held(claim("gpu.name", promised), reading("gpu.name", found, "gpu:h/0"))
    assert row.shown is not kept
    assert row.overstated_frac is None


def test_one_card_of_another_model_breaks_the_promise() -> None:
    cards = [reading("gpu.name", name, f"gpu:h/{i}") for i, name in enumerate(["NVIDIA H100 80GB HBM3"] * 3)]
    odd = reading("gpu.name", "NVIDIA H100 PCIe", "gpu:h/3")
    row = held(claim("gpu.name", "h100-sxm"), *cards, odd)
    assert row.measured == odd
    assert row.shown


@pytest.mark.parametrize(
    ("promised", "found", "kept"),
    [("2.5", "2.5.1", True), ("present", "2.5.1", True), ("2.5", ABSENT, False), ("2.6", "2.5.1", False)],
)
def test_a_version_may_be_told_more_exactly(promised: str, found: str, kept: bool) -> None:
    row = held(claim("software.torch.version", promised), reading("software.torch.version", found, "node:h"))
    assert row.shown is not kept


def test_a_count_is_as_promised_or_not() -> None:
    row = held(
        claim("gpu.count", 8.0), reading("gpu.count", 8.0, "node:a"), reading("gpu.count", 7.0, "node:b")
    )
    assert row.measured is not None
    assert str(row.measured.subject) == "node:b"
    (found,) = claim_findings([row])
    assert Texts("en").say(found.because).endswith("promised is 8, found is 7.")


def test_a_clock_promise_bounds_the_size_of_the_offset() -> None:
    late = reading("clock.offset", -3e-3, "rank:1", half=1e-5, reference="rank:0")
    row = held(
        claim("clock.offset", 1e-3),
        reading("clock.offset", 1e-5, "rank:2", half=1e-6, reference="rank:0"),
        late,
    )
    assert row.measured == late
    assert row.overstated_frac == pytest.approx(2.0)
    assert row.shown


H100 = [reading("gpu.name", "NVIDIA H100 80GB HBM3", f"gpu:h/{i}") for i in range(2)]


@pytest.mark.parametrize(
    ("quantity_id", "value", "recipe", "arithmetic"),
    [
        ("gemm.bf16.rate", 1979e12, {}, "dense bf16 peak"),
        ("peer.bandwidth", 900e9, {}, "18 links x 25 GB/s one way"),
        ("memory.copy.bandwidth", 4e12, {}, "memory bandwidth"),
        ("host_device.h2d.bandwidth", 128e9, {}, "16 lanes x 32 GT/s x 128b/130b / 8"),
        ("collective.all_reduce.busbw", 800e9, {"ranks": 8}, "x 2(8-1)/8"),
        ("collective.all_gather.busbw", 460e9, {"ranks": 8}, "450 GB/s of links one way"),
    ],
)
def test_a_promise_above_physics_is_impossible_with_the_arithmetic(
    quantity_id: str, value: float, recipe: dict[str, int], arithmetic: str
) -> None:
    (row,) = shortfalls([claim(quantity_id, value, **recipe)], H100, (), quantity)
    assert row.is_impossible
    (found,) = claim_findings([row])
    assert (found.code, found.subject) == ("CLAIM_IMPOSSIBLE", CLUSTER)
    assert arithmetic in Texts("en").say(found.because)
    assert (found.evidence[0].file, found.evidence[0].line) == ("offer.yaml", 12)


def test_the_best_of_several_kinds_decides_what_is_possible() -> None:
    cards = [*H100, reading("gpu.name", "NVIDIA A100-SXM4-80GB", "gpu:h/2")]
    (row,) = shortfalls([claim("gemm.bf16.rate", 9e14)], cards, (), quantity)
    assert not row.is_impossible


def test_without_a_driver_the_promised_model_says_what_is_possible() -> None:
    rows = shortfalls([claim("gpu.name", "mi300x"), claim("peer.bandwidth", 448e9)], (), (), quantity)
    assert [row.claimed.quantity for row in rows if row.is_impossible] == ["peer.bandwidth"]


def test_an_impossible_promise_explains_that_it_is_broken() -> None:
    measured = reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=1e12, **GEMM)
    (row,) = shortfalls([claim("gemm.bf16.rate", 1979e12)], [*H100, measured], (), quantity)
    codes = {found.code: found.follows_from for found in claim_findings([row])}
    assert codes == {"CLAIM_IMPOSSIBLE": None, "CLAIM_OVERSTATED": "CLAIM_IMPOSSIBLE"}


def test_the_most_overstated_comes_first() -> None:
    promised = [claim("peer.bandwidth", 1e9), claim("gemm.bf16.rate", 9e14), claim("gemm.fp16.rate", 7.5e14)]
    found = [reading(f"gemm.{d}.rate", 7e14, "gpu:h/0", half=1e12, **GEMM) for d in ("bf16", "fp16")]
    rows = shortfalls(promised, found, (), quantity)
    assert [row.claimed.quantity for row in rows] == ["gemm.bf16.rate", "gemm.fp16.rate", "peer.bandwidth"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_findings_are_said_whole(lang: str) -> None:
    measured = reading("gemm.bf16.rate", 7e14, "gpu:h/0", half=1e12, **GEMM)
    promised = [claim("gemm.bf16.rate", 1979e12), claim("gpu.name", "h200")]
    found = claim_findings(shortfalls(promised, [*H100, measured], (), quantity))
    assert len(found) == 3
    assert not any("{" in Texts(lang).say(f.because) for f in found)


@settings(deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0, 10))
def test_what_is_shown_is_overstated(promised: float, found: float, half: float) -> None:
    for quantity_id in ("training.tokens_per_s", "training.step_time"):
        row = held(claim(quantity_id, promised), reading(quantity_id, found, half=half))
        assert row.overstated_frac is not None
        assert not row.shown or row.overstated_frac > 0
