"""One thing read about a machine: a model name, a driver version, a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.domain.subject import Subject
from assay.errors import InputError
from assay.units import BASE_UNITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value in the base unit `unit`, or None with the reason why it could not be read.

    A fact whose `key` is a quantity of the catalogue can be judged; `source` is the call or file that
    it was read from.
    """

    key: str
    subject: Subject
    value: float | str | None
    unit: str
    reason: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        where = f"{self.key} of {self.subject}"
        if self.unit not in BASE_UNITS:
            raise InputError(f"{where}: unit {self.unit!r} is not a base unit")
        if (self.value is None) != bool(self.reason):
            raise InputError(
                f"{where}: "
                + (
                    "no value and no reason"
                    if self.value is None
                    else f"a value and a reason {self.reason!r}"
                ),
                fix="give the value, or say why it is missing",
            )
        if self.value is not None and isinstance(self.value, str) != (self.unit == "text"):
            raise InputError(f"{where}: value {self.value!r} in unit {self.unit!r}")
        if isinstance(self.value, float | int) and not math.isfinite(self.value):
            raise InputError(f"{where}: value {self.value} is not finite")
