"""MFU: the model FLOP/s that training reached, over the peak of the GPUs or over what they multiply at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe

_TRAINED = "training.model_flop_per_s"


def mfu_readings(measured: Sequence[Reading], datasheet: Iterable[Reading]) -> tuple[Reading, ...]:
    """`training.mfu` for every restart and group of `training.model_flop_per_s`.

    The peak is the datasheet's dense peak where the catalogue knows the card. Elsewhere it is the rate that
    the ranks multiply at, all at once, in the same restart or any; the recipe names which.
    """
    sheet = {r.quantity: r.number for r in datasheet if r.number and r.subject.kind == "cluster"}
    return tuple(
        mfu
        for reading in measured
        if reading.quantity == _TRAINED and reading.number
        if (mfu := _mfu(reading, measured, sheet)) is not None
    )


def _mfu(reading: Reading, measured: Sequence[Reading], sheet: dict[str, float]) -> Reading | None:
    dtype, ranks = reading.recipe.get("dtype"), reading.recipe.get("ranks")
    if not isinstance(ranks, int) or reading.number is None:
        return None
    rate = f"gemm.{dtype}.rate"
    peak, name = sheet.get(rate), f"datasheet dense {dtype}"
    if not peak:
        peak, name = _multiplied(rate, measured), f"measured {rate}, all ranks at once"
    if not peak:
        return None
    recipe = {**reading.recipe.without(["statistic"]).as_dict(), "peak": name}
    return dataclasses.replace(
        reading,
        quantity="training.mfu",
        value=reading.number / (ranks * peak),
        unit="1",
        recipe=Recipe.of(recipe),
        samples=None,
        cpu_share_frac=None,
    )


def _multiplied(quantity: str, measured: Sequence[Reading]) -> float | None:
    """The mean rate of a card while all multiply."""
    rates = [
        r.number
        for r in measured
        if r.quantity == quantity
        and r.origin is Origin.MEASURED
        and r.number
        and r.recipe.get("load") == "all"
    ]
    return sum(rates) / len(rates) if rates else None
