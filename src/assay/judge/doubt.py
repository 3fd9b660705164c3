"""How sure a judgement must be: when a value is shown to lie on one side of its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats import Estimates, Floats, confidence_sequence, holm

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """How sure a family of subjects must be: error rate `alpha` in all, two-sided."""

    alpha: float = 0.05
    sequential: bool = False

    def shown_below(self, values: Sequence[Floats], estimates: Estimates, bound: Floats) -> Flags:
        """Subjects whose true value is shown to lie below `bound`."""
        if self.sequential:
            return np.array(
                [
                    seq is not None and seq[1] < b
                    for seq, b in zip(self._sequences(values), bound, strict=True)
                ],
                dtype=np.bool_,
            )
        return holm(estimates.p_below(bound), self.alpha / 2)

    def shown_above(self, values: Sequence[Floats], estimates: Estimates, bound: Floats) -> Flags:
        """Subjects whose true value is shown to lie above `bound`."""
        if self.sequential:
            return np.array(
                [
                    seq is not None and seq[0] > b
                    for seq, b in zip(self._sequences(values), bound, strict=True)
                ],
                dtype=np.bool_,
            )
        return holm(estimates.p_above(bound), self.alpha / 2)

    def _sequences(self, values: Sequence[Floats]) -> list[tuple[float, float] | None]:
        return [confidence_sequence(v, 1 - self.alpha / len(values)) for v in values]
