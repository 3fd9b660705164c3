"""State per subject as arrays, kept in step with batches whose subjects come and go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.domain.subject import Subject

Floats = NDArray[np.float64]


class Rows:
    """Named arrays with one row per subject of one metric; a new subject begins with `fill`."""

    def __init__(self, **fill: float) -> None:
        self._fill = fill
        self.subjects: tuple[Subject, ...] = ()
        self._arrays: dict[str, Floats] = {name: np.zeros(0) for name in fill}

    def align(self, subjects: tuple[Subject, ...]) -> None:
        """Make the rows those of `subjects`; the same tuple again costs nothing."""
        if subjects is self.subjects:
            return
        if subjects != self.subjects:
            place = {subject: at for at, subject in enumerate(self.subjects)}
            taken = np.array([place.get(subject, -1) for subject in subjects], dtype=np.int64)
            for name, old in self._arrays.items():
                padded = np.append(old, self._fill[name])
                self._arrays[name] = padded[taken]
        self.subjects = subjects

    def __getitem__(self, name: str) -> Floats:
        return self._arrays[name]

    def __setitem__(self, name: str, values: Floats) -> None:
        self._arrays[name] = values
