"""One metric of many subjects, read at one time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.subject import Subject
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """A value per subject in the unit that the ending of `metric` tells; NaN where there is none.

    Batches of the same subjects share one tuple, so that a fleet of thousands is compared by identity.
    """

    metric: str
    time_s: float
    subjects: tuple[Subject, ...]
    values: NDArray[np.float64]
    source: str = ""

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.subjects),):
            raise InputError(f"{self.metric}: {len(self.subjects)} subjects, but values {self.values.shape}")
        if not math.isfinite(self.time_s):
            raise InputError(f"{self.metric}: time {self.time_s} is not finite")
