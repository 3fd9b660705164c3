"""The fabric's model of a described cluster behind the predictor's `Network` calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from assay.domain.cluster import Cluster
from assay.fabric.collective import Options, collective_time
from assay.fabric.placement import Placement
from assay.predict.network import Floats, Ints, Network, spread


@dataclass(frozen=True, slots=True)
class FabricNetwork:
    """The fabric's own model of a described cluster."""

    cluster: Cluster
    options: Options | None = None

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """NVLink domains, or nodes, that a group touches."""
        return spread(ranks, stride, len(self.cluster.node.gpus) * self.cluster.domain_nodes)[1]

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """Seconds by `fabric.collective_time`, all groups of a layout at once."""
        width = len(self.cluster.node.gpus)
        local, apart = spread(ranks, stride, width)
        step = np.minimum(np.maximum(np.asarray(stride, np.int64), 1), np.maximum(1, width // local))
        placement = Placement.of(
            local, apart, stride=step, concurrent=None, domains=self.nodes(ranks, stride)
        )
        return np.asarray(collective_time(self.cluster, op, bytes, placement, options=self.options).time_s)


@dataclass(frozen=True, slots=True)
class SharpNetwork:
    """`whole` where InfiniBand switches add up what nodes all-reduce, so far as that is sooner done.

    An all-reduce that leaves its node takes `whole`'s time, times the fabric model's with over without.
    """

    whole: Network
    cluster: Cluster

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """Islands of fast links that a group touches."""
        return self.whole.nodes(ranks, stride)

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """Seconds; other operations than all_reduce take what they took."""
        time = self.whole.time_s(op, bytes, ranks, stride)
        if op != "all_reduce":
            return time
        added, plain = (
            FabricNetwork(self.cluster, Options(sharp=on)).time_s(op, bytes, ranks, stride)
            for on in (True, False)
        )
        ratio = np.divide(added, plain, out=np.ones(np.shape(plain)), where=plain > 0)
        away = self.whole.nodes(ranks, stride) > 1
        return np.asarray(np.where(away, time * np.minimum(ratio, 1.0), time))
