"""Readings of one quantity by one recipe, over all subjects: what is judged together."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from assay.domain.quantity import Quantity
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.stats import Estimates, Floats, estimate_family, student_t_quantile

QuantityOf = Callable[[str], Quantity]
_NORMAL_95 = student_t_quantile(0.975, float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One quantity by one recipe: for every subject its restarts, and what they say together.

    `readings` has one aggregated reading per subject: mean over restarts, interval between them, `n`
    restarts. `values` has the restarts behind each, as numbers; for texts it is empty and `estimates` is
    None. `lost` says why a subject has no value.
    """

    quantity: Quantity
    recipe: Recipe
    readings: tuple[Reading, ...]
    values: tuple[Floats, ...]
    restarts: tuple[tuple[int, ...], ...]
    estimates: Estimates | None
    lost: dict[Subject, str]

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects that have a value."""
        return tuple(reading.subject for reading in self.readings)

    def by_restart(self) -> Floats:
        """Values as restarts × subjects, only the restarts in which every subject has one."""
        shared = set.intersection(*(set(r) for r in self.restarts)) if self.restarts else set()
        columns = [
            [value for restart, value in zip(restarts, values, strict=True) if restart in shared]
            for restarts, values in zip(self.restarts, self.values, strict=True)
        ]
        return np.array(columns, dtype=float).T


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Everything that was measured: families by quantity id, and the failures of whole benchmarks.

    A failure is a reading without a value whose quantity still has its `<word>`.
    """

    families: dict[str, tuple[Family, ...]]
    failures: tuple[Reading, ...] = ()

    def aggregated(self) -> tuple[Reading, ...]:
        """One reading per quantity, recipe and subject, with the interval between restarts."""
        return tuple(
            reading
            for group in self.families.values()
            for family in group
            for reading in (*family.readings, *_without_value(family))
        )


def gather(readings: Iterable[Reading], quantity_of: QuantityOf) -> Measured:
    """Group measured readings by quantity id, then by recipe, with intervals between restarts.

    Values that the measurement itself bounds (`low`, `high`) add that half-width to the noise between
    restarts. A reading without a value matters only where no restart of the subject has one.
    """
    groups: dict[tuple[str, Recipe], dict[Subject, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    failures = []
    for reading in readings:
        if "<" in reading.quantity:
            failures.append(reading)
        elif reading.origin is Origin.MEASURED:
            groups[reading.quantity, reading.recipe][reading.subject].append(reading)
    found: dict[str, list[Family]] = defaultdict(list)
    for (quantity_id, recipe), subjects in groups.items():
        found[quantity_id].append(_family(quantity_of(quantity_id), recipe, subjects))
    return Measured(
        families={name: tuple(group) for name, group in found.items()},
        failures=tuple(failures),
    )


def _family(quantity: Quantity, recipe: Recipe, subjects: dict[Subject, list[Reading]]) -> Family:
    valued = {s: [r for r in rs if r.value is not None] for s, rs in sorted(subjects.items())}
    lost = {s: subjects[s][-1].reason or "" for s, rs in valued.items() if not rs}
    kept = [rs for rs in valued.values() if rs]
    restarts = tuple(tuple(r.replicate or 0 for r in rs) for rs in kept)
    if quantity.unit == "text" or any(isinstance(r.value, str) for rs in kept for r in rs):
        readings = tuple(dataclasses.replace(rs[-1], n=len(rs)) for rs in kept)
        return Family(
            quantity=quantity,
            recipe=recipe,
            readings=readings,
            values=(),
            restarts=restarts,
            estimates=None,
            lost=lost,
        )
    values = tuple(np.array([r.number for r in rs], dtype=float) for rs in kept)
    estimates = _estimates(quantity, kept, values) if kept else None
    return Family(
        quantity=quantity,
        recipe=recipe,
        readings=_with_intervals(kept, estimates) if estimates else (),
        values=values,
        restarts=restarts,
        estimates=estimates,
        lost=lost,
    )


def _estimates(quantity: Quantity, kept: list[list[Reading]], values: tuple[Floats, ...]) -> Estimates:
    """Means over restarts; exact quantities have no noise, and stated intervals widen it."""
    own = np.array([max(map(_half_width, rs), default=0.0) for rs in kept]) / _NORMAL_95
    # What bounds itself is an offset or a drift, whose noise has nothing to do with its distance from zero.
    estimates = estimate_family(values, relative=not own.all())
    if quantity.exact:
        zero = np.zeros_like(estimates.mean)
        return Estimates(estimates.mean, zero, np.full_like(zero, np.inf), estimates.n)
    if not own.any():
        return estimates
    between = np.where(np.isnan(estimates.standard_error), 0.0, estimates.standard_error)
    # A single value with an interval of its own needs no restarts to have one.
    df = np.where((estimates.df == 0) & (own > 0), np.inf, estimates.df)
    return Estimates(estimates.mean, np.where(df > 0, np.hypot(between, own), np.nan), df, estimates.n)


def _half_width(reading: Reading) -> float:
    return 0.0 if reading.low is None or reading.high is None else (reading.high - reading.low) / 2


def _with_intervals(kept: list[list[Reading]], estimates: Estimates) -> tuple[Reading, ...]:
    low, high = (
        [None if value != value else value for value in end.tolist()] for end in estimates.interval()
    )
    mean, n = estimates.mean.tolist(), estimates.n.tolist()
    return tuple(_over_restarts(rs, mean[i], low[i], high[i], n[i]) for i, rs in enumerate(kept))


def _over_restarts(
    restarts: list[Reading], mean: float, low: float | None, high: float | None, n: int
) -> Reading:
    """One reading for all restarts; as `dataclasses.replace` on the last, which is slow for a large fleet."""
    last = restarts[-1]
    return Reading(
        quantity=last.quantity,
        subject=last.subject,
        origin=last.origin,
        value=mean,
        unit=last.unit,
        recipe=last.recipe,
        low=low,
        high=high,
        n=n,
        cpu_share_frac=_mean([r.cpu_share_frac for r in restarts]),
        samples=last.samples,
        source=last.source,
        time_s=last.time_s,
    )


def _mean(values: list[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _without_value(family: Family) -> list[Reading]:
    return [
        Reading(
            quantity=family.quantity.id,
            subject=subject,
            origin=Origin.MEASURED,
            value=None,
            reason=reason,
            unit=family.quantity.unit,
            recipe=family.recipe,
            n=0,
        )
        for subject, reason in family.lost.items()
    ]
