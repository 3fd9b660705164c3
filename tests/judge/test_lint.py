"""Profiles against physics."""

import pytest
from judging import criterion

from assay.catalog.devices import gpu
from assay.catalog.messages import Texts
from assay.catalog.profiles import profiles
from assay.catalog.quantities import quantity
from assay.domain.criterion import Op, Profile
from assay.domain.recipe import Recipe
from assay.errors import InputError
from assay.judge.lint import lint_profile, require_sound


def complaints(*criteria, device):
    profile = Profile(name="p", title="p", criteria=criteria)
    return profile, lint_profile(profile, quantity, [gpu(device)])


def codes(found):
    return {(c.message.code, c.is_error) for c in found}


@pytest.mark.parametrize("profile", profiles().values(), ids=str)
def test_no_shipped_profile_asks_for_the_impossible(profile):
    found = lint_profile(profile, quantity, [gpu(device) for device in profile.applies_to])
    require_sound(profile, found, Texts("en").say)


@pytest.mark.parametrize("profile", profiles().values(), ids=str)
def test_every_shipped_bound_has_a_source_and_a_date(profile):
    assert profile.date
    assert all(c.source for c in profile.criteria)


def test_the_rental_guide_asks_for_what_no_healthy_card_reaches():
    guide = profiles()["rental-guide"]
    found = lint_profile(guide, quantity, [gpu("a100-sxm-80gb")])
    assert {c.criterion.id for c in found if c.message.code == "lint.unattainable"} == {
        "card-fp32",
        "card-fp16",
    }


def test_a_sparse_peak_as_a_floor_is_an_error_with_the_arithmetic():
    profile, found = complaints(criterion(bound=1979e12), device="h100")
    assert ("lint.impossible", True) in codes(found)
    with pytest.raises(InputError, match=r"1\.98 PFLOP/s.*989 TFLOP/s \(dense bf16 peak"):
        require_sound(profile, found, Texts("en").say)


def ring(bound, ranks=8):
    return criterion(
        bound=bound,
        quantity_id="collective.all_reduce.busbw",
        recipe=Recipe.of(method="pipelined", bytes=2**34, ranks=ranks, transport="nccl", statistic="mean"),
    )


def test_a_published_floor_above_what_in_switch_reduction_can_give():
    """A public check asks 800 GB/s of 8 H100: links give 450 one way, times 2(8-1)/8 = 787.5."""
    assert ("lint.impossible", True) in codes(complaints(ring(800e9), device="h100")[1])
    assert not any(c.is_error for c in complaints(ring(480e9), device="h100")[1])


def test_a_floor_that_broken_devices_pass_is_a_warning():
    """A public SKU table has 2.3 GB/s for a card of 4.8 TB/s: GB/s in a field of MB/s."""
    slow = criterion(
        bound=2.333e9,
        quantity_id="memory.copy.bandwidth",
        recipe=Recipe.of(bytes=2**32, load="all", statistic="median"),
    )
    assert codes(complaints(slow, device="h200")[1]) == {("lint.far_below", False)}


def test_a_bound_in_the_wrong_direction_is_a_warning():
    wrong = criterion(
        Op.AT_LEAST,
        1e-6,
        quantity_id="peer.latency",
        recipe=Recipe.of(bytes=8, transport="nccl", statistic="p50"),
    )
    assert ("lint.wrong_way", False) in codes(complaints(wrong, device="h100")[1])


def test_an_unstated_recipe_is_a_warning():
    assert ("lint.recipe_unstated", False) in codes(complaints(criterion(recipe=Recipe()), device="h100")[1])
