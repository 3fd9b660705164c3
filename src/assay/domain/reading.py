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
        where = f"{self.quantity} of {self.subject}"
        if self.unit not in BASE_UNITS:
            raise InputError(f"{where}: unit {self.unit!r} is not a base unit", where=self.source or None)
        if (self.value is None) != bool(self.reason):
            raise InputError(
                f"{where}: "
                + (
                    "no value and no reason"
                    if self.value is None
                    else f"a value and a reason {self.reason!r}"
                ),
                where=self.source or None,
                fix="give the value, or say why it is missing",
            )
        if isinstance(self.value, str) != (self.unit == "text") and self.value is not None:
            raise InputError(
                f"{where}: value {self.value!r} in unit {self.unit!r}", where=self.source or None
            )
        if isinstance(self.value, float | int) and not math.isfinite(self.value):
            raise InputError(f"{where}: value {self.value} is not finite", where=self.source or None)
        if (self.low is None) != (self.high is None):
            raise InputError(f"{where}: an interval needs both ends", where=self.source or None)
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise InputError(
                f"{where}: interval {self.low} … {self.high} is empty", where=self.source or None
            )
        if self.n is not None and self.n < 0:
            raise InputError(f"{where}: sample count {self.n} is negative", where=self.source or None)

    @property
    def number(self) -> float | None:
        """The value where it is a number, else None."""
        return float(self.value) if isinstance(self.value, float | int) else None
