"""Where the ranks of a group sit: how many in each node, in how many nodes, and who shares the NICs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.domain.cluster import Cluster
from assay.errors import InputError

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Groups of `per_node` ranks in each of `nodes` nodes; arrays broadcast, one element a group.

    `stride` is the distance in a node between two ranks of a group (8 GPUs, per_node 2: 1 puts them on
    GPUs 0 and 1, 4 on GPUs 0 and 4). `concurrent` groups of the kind run at the same time in a node and
    share its NICs; None means as many as fit: GPUs per node ÷ per_node, as data-parallel groups do.
    """

    per_node: Ints
    nodes: Ints
    stride: Ints
    concurrent: Ints | None = None

    @classmethod
    def of(
        cls,
        per_node: ArrayLike,
        nodes: ArrayLike = 1,
        *,
        stride: ArrayLike = 1,
        concurrent: ArrayLike | None = 1,
    ) -> Placement:
        """A placement from plain numbers or arrays; one group at a time unless `concurrent` says more."""
        return cls(
            per_node=np.asarray(per_node, dtype=np.int64),
            nodes=np.asarray(nodes, dtype=np.int64),
            stride=np.asarray(stride, dtype=np.int64),
            concurrent=None if concurrent is None else np.asarray(concurrent, dtype=np.int64),
        )

    def __post_init__(self) -> None:
        for name, value in (("per_node", self.per_node), ("nodes", self.nodes), ("stride", self.stride)):
            if value.size and int(value.min()) < 1:
                raise InputError(f"a group with {name} = {int(value.min())}")

    @property
    def ranks(self) -> Ints:
        """Ranks of each group."""
        return np.asarray(self.per_node * self.nodes)

    def check(self, cluster: Cluster) -> None:
        """Refuse groups that do not fit on `cluster`, with the arithmetic."""
        width = len(cluster.node.gpus)
        span = (self.per_node - 1) * self.stride + 1
        if span.size and int(span.max()) > width:
            at = np.unravel_index(int(np.argmax(span)), span.shape)
            per_node, stride = (int(np.broadcast_to(a, span.shape)[at]) for a in (self.per_node, self.stride))
            raise InputError(
                f"{per_node} ranks at stride {stride} span {int(span.max())} GPUs, "
                f"but a node of {cluster.id} has {width}"
            )
        if self.nodes.size and int(self.nodes.max()) > cluster.count:
            raise InputError(
                f"a group over {int(self.nodes.max())} nodes, but {cluster.id} has {cluster.count}",
                fix=f"use at most {cluster.count} nodes, or say --nodes {int(self.nodes.max())}",
            )
