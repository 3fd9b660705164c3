"""One value of a quantity for one subject, with where it comes from and how sure it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.units import BASE_UNITS

#: The value of a text quantity that was looked for and is known not to be there.
ABSENT = "absent"


class Origin(str, Enum):
    """Who says so."""

    DATASHEET = "datasheet"
    CLAIMED = "claimed"
    PREDICTED = "predicted"
    MEASURED = "measured"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRef:
    """Where the raw samples behind a reading lie: `count` little-endian float64 from item `offset`."""

    file: str
    offset: int
    count: int
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A value in the quantity's base unit, or None with the reason why there is none.

    `low` and `high` bound the value (95 % unless the origin says otherwise); both are None where no
    interval is known. `n` counts what the interval rests on. `replicate` numbers the process restart
    that a measured value came from: restarts, not iterations, are the replicates. `cpu_share_frac` is
    process time over wall time while it was measured: far below 1 times the threads, the rank was
    starved. `time_s` is seconds since the epoch; `source` is a file:line, a run, or a catalogue entry.
    """

    quantity: str
    subject: Subject
    origin: Origin
    value: float | str | None
    unit: str
    recipe: Recipe = field(default_factory=Recipe)
    low: float | None = None
    high: float | None = None
    n: int | None = None
    replicate: int | None = None
    cpu_share_frac: float | None = None
    reason: str | None = None
    samples: SampleRef | None = None
    source: str = ""
    time_s: float | None = None

    def __post_init__(self) -> None:
        fault = _fault(self)
        if fault:
            raise InputError(
                f"{self.quantity} of {self.subject}: {fault}",
                where=self.source or None,
                fix=_GIVE_OR_SAY if (self.value is None) != bool(self.reason) else None,
            )

    @property
    def number(self) -> float | None:
        """The value where it is a number, else None."""
        return float(self.value) if isinstance(self.value, float | int) else None


_GIVE_OR_SAY = "give the value, or say why it is missing"


def _fault(r: Reading) -> str | None:
    """What is wrong with a reading, in words, or None."""
    value, low, high = r.value, r.low, r.high
    if r.unit not in BASE_UNITS:
        return f"unit {r.unit!r} is not a base unit"
    if (value is None) != bool(r.reason):
        return "no value and no reason" if value is None else f"a value and a reason {r.reason!r}"
    if value is not None and isinstance(value, str) != (r.unit == "text"):
        return f"value {value!r} in unit {r.unit!r}"
    if isinstance(value, float | int) and not math.isfinite(value):
        return f"value {value} is not finite"
    if (low is None) != (high is None):
        return "an interval needs both ends"
    if low is not None and high is not None and not low <= high:
        return f"interval {low} … {high} is empty"
    if r.n is not None and r.n < 0:
        return f"sample count {r.n} is negative"
    return None
