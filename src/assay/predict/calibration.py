"""A cluster's own measured figures in place of its datasheets': the device, the network and the host.

Formulas and limits: docs/models/calibration.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from assay.domain.calibration import PLACES, Calibration
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.predict.network import Floats, Ints, LinkNetwork, Network
from assay.predict.physics import FITTED, Physics

#: Part of the datasheet's bandwidth that a copy of device memory reaches on a healthy card: A100 and H100 SXM
#: copy at 0.88 to 0.93 of it in public runs of BabelStream.
COPY_REACH_FRAC = 0.9

#: Key of a datasheet's peak → dtype whose factor scales it.
_SCALED = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "fp4": "nvfp4"}


def calibrated_gpu(gpu: Gpu, calibration: Calibration | None) -> Gpu:
    """The device with peaks and memory bandwidth as its cluster reaches them.

    A peak is scaled so that the model's shape curve gives the measured rate; MFU stays against the datasheet.
    """
    if calibration is None:
        return gpu
    peaks = {
        key: peak * calibration.like(f"gemm.{_SCALED[key]}.rate") if key in _SCALED else peak
        for key, peak in gpu.peak_flop_per_s.items()
    }
    return replace(
        gpu, peak_flop_per_s=peaks, memory_Bps=gpu.memory_Bps * calibration.value("memory.bandwidth")
    )


def calibrated_physics(calibration: Calibration | None, physics: Physics = FITTED) -> Physics:
    """The fitted numbers with the host's launch cost as it was measured."""
    if calibration is None:
        return physics
    return replace(physics, host=physics.host * calibration.value("host.launch"))


def network_of(cluster: Cluster, base: Callable[[Cluster], Network] = LinkNetwork.of) -> Network:
    """The cluster's network, corrected by what was measured on it."""
    plain = base(cluster)
    c = cluster.calibration
    if c is None:
        return plain
    return CorrectedNetwork(base=plain, calibration=c)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedNetwork:
    """A network whose latency and bandwidth are multiplied, inside a node and across nodes each.

    A time is the base's time for one byte (latency) and the rest (transfer): latency·first + rest/bandwidth.
    """

    base: Network
    calibration: Calibration

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """Islands of fast links that a group touches."""
        return self.base.nodes(ranks, stride)

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """Seconds, each part by its factor."""
        first, rest = parts_s(self.base, op, bytes, ranks, stride)
        far = self.nodes(ranks, stride) > 1
        latency = [self.calibration.value(f"{place}.latency") for place in PLACES]
        bandwidth = [self.calibration.like(f"{place}.{op}.bandwidth") for place in PLACES]
        return np.asarray(first * np.where(far, *latency[::-1]) + rest / np.where(far, *bandwidth[::-1]))


def parts_s(
    network: Network, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike
) -> tuple[Floats, Floats]:
    """A collective's time as latency (what one byte takes) and transfer (the rest)."""
    whole = network.time_s(op, bytes, ranks, stride)
    first = np.minimum(network.time_s(op, np.minimum(np.asarray(bytes, float), 1.0), ranks, stride), whole)
    return first, whole - first
