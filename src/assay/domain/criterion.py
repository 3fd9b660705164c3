"""What must hold, as data: a quantity, its recipe, a bound, and who bears the doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from assay.domain.reading import Origin
from assay.domain.recipe import Recipe
from assay.errors import InputError
from assay.units import BASE_UNITS


class Op(str, Enum):
    """How readings are held against the bound."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    WITHIN = "within"
    SPREAD_AT_MOST = "spread_at_most"
    UNIFORM = "uniform"
    PRESENT = "present"


class Over(str, Enum):
    """The statistic over subjects: each for itself, or one figure for all of them."""

    EACH = "each"
    MIN = "min"
    MEDIAN = "median"
    MEAN = "mean"
    MAX = "max"


class Rule(str, Enum):
    """Who bears the doubt when the interval straddles the bound (after JCGM 106:2012, clause 8).

    simple: nobody, the verdict is undecided. guarded_buyer: it must be shown to hold, doubt fails it.
    guarded_vendor: it must be shown to be broken, doubt passes it.
    """

    SIMPLE = "simple"
    GUARDED_BUYER = "guarded_buyer"
    GUARDED_VENDOR = "guarded_vendor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One line of a profile.

    `bound` is in the base unit `unit`; `within` has also `high`. With `of`, the bound is a multiple of
    the reading of that origin (0.95 of what is claimed; 0.74 of the datasheet) and its unit is "1".
    `spread_at_most` bounds (max−min)/median over the subjects. `uniform` asks that no subject departs
    from the median of its siblings by more than the fraction `bound` and the noise (numbers), or that
    all are equal (text; no bound). `present` asks that every subject has the value at all.
    `repeatability_frac` is the relative standard deviation between restarts that is known for this
    recipe from elsewhere; it gives a single restart an interval. `clause` is the contract clause that
    the criterion serves, and `source` is who set the bound.
    """

    id: str
    quantity: str
    op: Op
    unit: str
    recipe: Recipe = field(default_factory=Recipe)
    bound: float | None = None
    high: float | None = None
    of: Origin | None = None
    over: Over = Over.EACH
    required: bool = True
    rule: Rule = Rule.SIMPLE
    repeatability_frac: float | None = None
    clause: str = ""
    source: str = ""
    note: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        fault = _fault(self)
        if fault:
            raise InputError(f"criterion {self.id!r}: {fault}", where=self.where or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set of criteria, with who set it and for which devices it is meant (catalogue ids)."""

    name: str
    title: str
    criteria: tuple[Criterion, ...]
    description: str = ""
    applies_to: tuple[str, ...] = ()
    source: str = ""
    date: str = ""
    where: str = ""

    def __post_init__(self) -> None:
        seen: dict[str, Criterion] = {}
        for criterion in self.criteria:
            if criterion.id in seen:
                raise InputError(
                    f"criterion id {criterion.id!r} stands twice in profile {self.name!r}"
                    + (f", first at {seen[criterion.id].where}" if seen[criterion.id].where else ""),
                    where=criterion.where or self.where or None,
                    fix="give each criterion an id of its own",
                )
            seen[criterion.id] = criterion
        if not self.criteria:
            raise InputError(
                f"profile {self.name!r} has no criteria", where=self.where or None, fix="add at least one"
            )


def _fault(c: Criterion) -> str | None:
    """What is wrong with a criterion, in words, or None."""
    for name, value in (("bound", c.bound), ("high", c.high), ("repeatability_frac", c.repeatability_frac)):
        if value is not None and not math.isfinite(value):
            return f"{name} {value} is not a finite number"
    if c.unit not in BASE_UNITS:
        return f"unit {c.unit!r} is not a base unit"
    needs_bound = c.op in (Op.AT_LEAST, Op.AT_MOST, Op.WITHIN, Op.SPREAD_AT_MOST)
    if needs_bound and c.bound is None:
        return f"{c.op.value} needs a bound"
    if c.op is Op.PRESENT and c.bound is not None:
        return f"present takes no bound, but {c.bound} is given"
    if (c.op is Op.WITHIN) != (c.high is not None):
        return (
            "within needs both 'bound' and 'high'" if c.op is Op.WITHIN else f"{c.op.value} takes no 'high'"
        )
    if c.high is not None and c.bound is not None and c.bound > c.high:
        return f"the range {c.bound} … {c.high} is empty"
    if c.op in (Op.SPREAD_AT_MOST, Op.UNIFORM) and c.bound is not None and not 0 <= c.bound < 1:
        return f"{c.op.value} bounds a fraction of the median, but {c.bound} is not in 0 … 1"
    if c.op in (Op.SPREAD_AT_MOST, Op.UNIFORM, Op.PRESENT) and c.of is not None:
        return f"{c.op.value} cannot be relative to what is {c.of.value}"
    if c.of is Origin.MEASURED:
        return "a bound cannot be relative to what is measured: that is what is judged"
    if c.repeatability_frac is not None and not 0 < c.repeatability_frac < 1:
        return f"repeatability_frac {c.repeatability_frac} is not in 0 … 1"
    return None
