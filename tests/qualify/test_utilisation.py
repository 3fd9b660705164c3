"""MFU against the datasheet's peak, or against what the ranks multiply at."""

from __future__ import annotations

import pytest

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.qualify.utilisation import mfu_readings

TRAINED = {"model": "m", "ranks": 8, "batch_per_rank": 2, "sequence": 2048, "dtype": "bf16", "formula": "6N"}


def reading(quantity, value, subject=CLUSTER, origin=Origin.MEASURED, **recipe):
    return Reading(
        quantity=quantity,
        subject=subject,
        origin=origin,
        value=value,
        unit="FLOP/s",
        recipe=Recipe.of(recipe),
    )


def trained(value=8 * 400e12):
    return reading("training.model_flop_per_s", value, **TRAINED, statistic="median")


def test_against_the_dense_peak_of_a_known_card():
    sheet = reading("gemm.bf16.rate", 989e12, origin=Origin.DATASHEET)
    (mfu,) = mfu_readings([trained()], [sheet])
    assert mfu.value == pytest.approx(400 / 989)
    assert mfu.recipe.get("peak") == "datasheet dense bf16"
    assert mfu.recipe.get("formula") == "6N"


def test_against_the_measured_rate_of_an_unknown_device():
    rates = [
        reading("gemm.bf16.rate", value, Subject("rank", str(i)), load="all")
        for i, value in enumerate((7e14, 9e14))
    ]
    alone = reading("gemm.bf16.rate", 99e14, Subject("rank", "0"), load="alone")
    (mfu,) = mfu_readings([trained(), *rates, alone], [])
    assert mfu.value == pytest.approx(0.5)
    assert "measured" in str(mfu.recipe.get("peak"))


def test_without_any_peak_there_is_no_mfu():
    assert mfu_readings([trained()], []) == ()
