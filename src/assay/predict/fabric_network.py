"""The fabric's model of a described cluster behind the predictor's `Network` calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from assay.domain.cluster import Cluster
from assay.fabric.collective import Options, collective_time
from assay.fabric.placement import Placement
from assay.predict.network import Floats, Ints, spread


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
