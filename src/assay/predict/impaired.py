"""A network some of whose traffic takes longer: failures, loss, hashed routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from assay.domain.device import Gpu
from assay.fabric.failures.impact import pattern_of
from assay.predict.network import Floats, Ints, Network


@dataclass(frozen=True, slots=True)
class ImpairedNetwork:
    """`whole` with the time of groups that span nodes multiplied by their pattern's slowdown."""

    whole: Network
    slowdown: Mapping[str, float]

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """Islands of fast links that a group touches."""
        return self.whole.nodes(ranks, stride)

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """Seconds of the whole network, longer where the group leaves its node."""
        away = self.whole.nodes(ranks, stride) > 1
        time = self.whole.time_s(op, bytes, ranks, stride)
        return np.asarray(np.where(away, time * self.slowdown[pattern_of(op)], time))


def slowed_gpu(gpu: Gpu, part: float) -> Gpu:
    """A GPU that computes and reads its memory at a part of its speed; in a job all wait for the slowest."""
    if part == 1:
        return gpu
    peaks = {dtype: peak * part for dtype, peak in gpu.peak_flop_per_s.items()}
    return replace(gpu, peak_flop_per_s=peaks, memory_Bps=gpu.memory_Bps * part)
