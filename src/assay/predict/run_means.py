"""A run's readings as one mean for each quantity and recipe: that of the slowest subject."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean over restarts of one quantity, recipe and (the slowest) subject; `logs` are the restarts'."""

    quantity: str
    recipe: Recipe
    unit: str
    value: float
    logs: Floats


def means_of(readings: Iterable[Reading]) -> list[Mean]:
    """One mean for each quantity and recipe: the slowest subject's, after its noise is shrunk away.

    A synchronous step waits for the slowest card. The lowest of many noisy means is too low, so each mean is
    drawn to the median by the part of the spread that restarts explain (James and Stein 1961).
    """
    values: dict[tuple[str, Recipe], dict[Subject, list[float]]] = defaultdict(lambda: defaultdict(list))
    units: dict[tuple[str, Recipe], str] = {}
    for r in readings:
        if r.origin is Origin.MEASURED and r.number is not None and r.number > 0:
            values[r.quantity, r.recipe][r.subject].append(r.number)
            units[r.quantity, r.recipe] = r.unit
    found = []
    for (quantity, recipe), by_subject in values.items():
        logs = [np.log(several) for several in by_subject.values()]
        slow_is = -1.0 if quantity.endswith(("time", "latency")) else 1.0
        at, level = _slowest([slow_is * one for one in logs])
        found.append(
            Mean(
                quantity=quantity,
                recipe=recipe,
                unit=units[quantity, recipe],
                value=math.exp(slow_is * level),
                logs=logs[at] - logs[at].mean(),
            )
        )
    return found


def _slowest(logs: Sequence[Floats]) -> tuple[int, float]:
    """Index of the subject with the lowest mean, and its mean drawn to the median."""
    means = np.array([one.mean() for one in logs])
    at = int(np.argmin(means))
    if len(logs) < 3:
        return at, float(means[at])
    noise = float(np.mean([one.var(ddof=1) / one.size if one.size > 1 else 0.0 for one in logs]))
    spread = float(means.var(ddof=1))
    keep = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    middle = float(np.median(means))
    return at, middle + keep * (float(means[at]) - middle)


def loaded(means: Sequence[Mean], prefix: str, suffix: str) -> list[Mean]:
    """Readings with all ranks at work where there are any, else those that do not say otherwise."""
    every = [m for m in means if m.quantity.startswith(prefix) and m.quantity.endswith(suffix)]
    together = [m for m in every if m.recipe.get("load") == "all"]
    return together or every


def shape_of(recipe: Recipe) -> tuple[int, int, int] | None:
    """(m, n, k) of a recipe's `shape`, or None."""
    parts = str(recipe.get("shape") or "").split("x")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        return None
    m, n, k = map(int, parts)
    return m, n, k
