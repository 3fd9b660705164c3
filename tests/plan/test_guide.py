"""What the public guide's promises imply, its platform classes, and the three readers."""

from __future__ import annotations

import pytest

from assay.catalog.devices import gpu
from assay.errors import InputError
from assay.plan.guide import (
    CLASSES,
    GUIDE,
    NEEDS,
    Promise,
    check_classes,
    days_at,
    implied,
    need,
    pair_speedup_frac,
)


def test_the_two_promises_for_100_billion_weights_are_about_one_percent_of_linear() -> None:
    low, high = pair_speedup_frac(*GUIDE)
    assert low == pytest.approx(180 / 21 / 1000)
    assert high == pytest.approx(220 / 14 / 1000)
    assert 0.008 < low < high < 0.016
    assert GUIDE[1].speedup_frac is not None
    assert GUIDE[1].speedup_frac[0] == 0.90


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm"])
def test_one_card_cannot_hold_or_train_100_billion_weights(name: str) -> None:
    card = gpu(name)
    one = implied(GUIDE[0], gpu=name, peak_flop_per_s=card.peak("bf16") or 0, memory_bytes=card.memory_bytes)
    assert one.memory_frac == pytest.approx(1.6e12 / (80 * 2**30))
    assert one.impossible
    # 200 days at the very peak: 6·N·D FLOP.
    assert one.tokens_at_peak[0] == pytest.approx(180 * 86400 * (card.peak("bf16") or 0) / 6e11)
    assert one.mfu_frac[0] > 60


def test_the_classes_of_platforms_against_their_own_numbers() -> None:
    first, second, third = check_classes()
    assert first.consistent
    assert second.implied_days == pytest.approx((18.0, 18 * 0.91 / 0.89))
    assert round(second.implied_days[1], 1) == 18.4
    assert not second.consistent
    assert third.implied_days == pytest.approx((18 * 0.91 / 0.70, 18 * 0.91 / 0.60))
    assert days_at(CLASSES[0], 0.89) == pytest.approx(18.404, abs=0.001)


def test_18_days_on_a_thousand_a100_imply_their_tokens_and_utilisation() -> None:
    card = gpu("a100-sxm-80gb")
    one = implied(CLASSES[0], gpu=card.id, peak_flop_per_s=312e12, memory_bytes=card.memory_bytes)
    # 1.4e12 tokens (20 a weight) would need more than the peak; at a usual 40 % it is 0.46e12 tokens.
    assert one.mfu_frac[0] == pytest.approx(1.212, abs=0.001)
    assert one.impossible
    assert one.tokens_usual[0] == pytest.approx(4.62e11, rel=0.01)


def test_promises_that_are_not_about_one_model_are_not_compared() -> None:
    with pytest.raises(InputError, match="not about the same model"):
        pair_speedup_frac(GUIDE[0], CLASSES[0])
    with pytest.raises(InputError):
        Promise(id="none", weights=1e9, gpus=0, days=(1, 2))


def test_each_reader_has_a_range_of_models_that_meets_the_next() -> None:
    assert NEEDS["trial"].most_weights == NEEDS["lab"].least_weights
    assert NEEDS["lab"].most_weights == NEEDS["enterprise"].least_weights
    assert not need("enterprise").spot
    with pytest.raises(InputError, match="known"):
        need("hobby")
