"""Additive fits by medians, and the test that tells an odd effect from chance. NumPy only.

Values have the shape (n, restarts), NaN where a restart has none: the process restart is the replicate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats import MAD_TO_SIGMA, Floats, student_t_quantile

Index = NDArray[np.int64]

#: Rounds of median polish; it settles in two or three where faults are few.
_ROUNDS = 4
#: The median absolute deviation of Student's t with 3 degrees of freedom, scaled as `MAD_TO_SIGMA` does.
_T3_PER_SIGMA = MAD_TO_SIGMA * 0.7648923
#: Fewer effects than this have no spread that one of them could stand out from.
SIBLINGS_LEAST = 4


class Groups:
    """Which of `count` groups each of n values belongs to; made once, used in every round."""

    def __init__(self, of: Index, count: int) -> None:
        self.of, self.count = of, count
        self._order = np.argsort(of, kind="stable")
        self.sizes = np.bincount(of, minlength=count)
        starts = np.cumsum(self.sizes) - self.sizes
        self._place = np.arange(len(of)) - np.repeat(starts, self.sizes)

    def median(self, values: Floats) -> Floats:
        """Median of each group, shape (count, restarts); NaN where a group has no value."""
        padded = np.full((self.count, int(self.sizes.max(initial=1)), values.shape[1]), np.nan)
        padded[self.of[self._order], self._place] = values[self._order]
        return median(padded, axis=1)


def median(values: Floats, axis: int = 0) -> Floats:
    """Median of the values that are there; NaN where none is. As `np.nanmedian`, at the speed of a sort."""
    ordered = np.sort(values, axis=axis)
    known = np.expand_dims(np.isfinite(ordered).sum(axis=axis), axis)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0) // 2, axis=axis)
    high = np.take_along_axis(ordered, np.minimum(known // 2, ordered.shape[axis] - 1), axis=axis)
    return np.asarray(np.squeeze((low + high) / 2, axis=axis))


def centred(effects: Floats) -> Floats:
    """Effects around their median, restart by restart: what slows all of them alike is no effect."""
    return np.asarray(effects - median(effects))


def polish(values: Floats, rows: Groups, columns: Groups) -> tuple[Floats, Floats, Floats]:
    """value = row effect + column effect + rest, by Tukey's median polish: (rows, columns, rest)."""
    row_effects, column_effects = np.zeros((rows.count, 1)), np.zeros((columns.count, 1))
    rest = values
    for _ in range(_ROUNDS):
        for groups, is_row in ((rows, True), (columns, False)):
            step = centred(groups.median(rest))
            rest = rest - step[groups.of]
            if is_row:
                row_effects = row_effects + step
            else:
                column_effects = column_effects + step
    return row_effects, column_effects, rest


def sigma(values: Floats) -> float:
    """Robust standard deviation of all values around zero."""
    known = np.abs(values[np.isfinite(values)])
    return float(MAD_TO_SIGMA * np.median(known)) if known.size else 0.0


def p_of_chance(departures: Floats, noise: float) -> Floats:
    """P-values of rows of `departures` (n, restarts) when each restart is chance alone.

    Noise of measurements has heavy tails, so each restart is held against Student's t with 3 degrees of
    freedom of the same median absolute deviation as the siblings' `noise`. Restarts are independent: that
    every one of R reaches what the least of them does has the probability p(least) to the power R. A
    single restart can therefore name nobody but the grossly slow, and one spike names nobody.
    """
    known = np.isfinite(departures)
    least = np.where(known, departures, np.inf).min(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num(_T3_PER_SIGMA * least / noise if noise else np.sign(least) * np.inf, nan=0.0)
    u = t / math.sqrt(3)
    with np.errstate(over="ignore", invalid="ignore"):
        tail = 0.5 - (np.where(np.isinf(u), 0.0, u / (1 + u**2)) + np.arctan(u)) / math.pi
    return np.where(known.any(axis=1), np.clip(tail, 0.0, 1.0) ** known.sum(axis=1), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """Which effects stand out as slow, and the size of every one: the median over restarts."""

    is_odd: NDArray[np.bool_]
    size: Floats

    @property
    def at(self) -> list[int]:
        """The odd ones by number, the slowest first."""
        odd = np.flatnonzero(self.is_odd)
        return [int(i) for i in odd[np.argsort(-self.size[odd], kind="stable")]]


def find_slow(effects: Floats, matters: float, error_frac: float) -> Odd:
    """Effects (n, restarts) that are larger than chance, than what their siblings differ by, and matter.

    Of n healthy siblings one is named with a probability of at most about `error_frac`, in three ways:
    by noise between restarts (`p_of_chance`), by being the largest of n that truly differ a little
    (normal, scaled by the median absolute deviation), or by an effect too small to matter (in log units).
    """
    around = centred(effects)
    size = np.nan_to_num(median(around, axis=1), nan=0.0)
    if len(size) < SIBLINGS_LEAST:
        return Odd(is_odd=np.zeros(len(size), dtype=np.bool_), size=size)
    each = error_frac / len(size)
    beyond = student_t_quantile(1 - each, math.inf) * sigma(size[:, None])
    # Where medians were taken out of few values the rest shows too little noise for a single restart.
    several = np.isfinite(around).sum(axis=1) > 1
    is_odd = several & (size >= matters) & (size > beyond)
    is_odd[is_odd] = p_of_chance(around[is_odd], sigma(around)) <= each
    return Odd(is_odd=is_odd, size=size)
