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
    `domains` is how many NVLink domains of several nodes a group touches; None means that it fills them in
    order.
    """

    per_node: Ints
    nodes: Ints
    stride: Ints
    concurrent: Ints | None = None
    domains: Ints | None = None

    @classmethod
    def of(
        cls,
        per_node: ArrayLike,
        nodes: ArrayLike = 1,
        *,
        stride: ArrayLike = 1,
        concurrent: ArrayLike | None = 1,
        domains: ArrayLike | None = None,
    ) -> Placement:
        """A placement from plain numbers or arrays; one group at a time unless `concurrent` says more."""
        return cls(
            per_node=np.asarray(per_node, dtype=np.int64),
            nodes=np.asarray(nodes, dtype=np.int64),
            stride=np.asarray(stride, dtype=np.int64),
            concurrent=None if concurrent is None else np.asarray(concurrent, dtype=np.int64),
            domains=None if domains is None else np.asarray(domains, dtype=np.int64),
        )

    def __post_init__(self) -> None:
        for name, value in (("per_node", self.per_node), ("nodes", self.nodes), ("stride", self.stride)):
            if value.size and int(value.min()) < 1:
                raise InputError(f"a group with {name} = {int(value.min())}")

    @property
    def ranks(self) -> Ints:
        """Ranks of each group."""
        return np.asarray(self.per_node * self.nodes)

    def domains_on(self, cluster: Cluster) -> Ints:
        """NVLink domains that each group touches; where a node is a domain of its own, its nodes."""
        packed = -(-self.nodes // cluster.domain_nodes)
        return packed if self.domains is None or cluster.domain_nodes == 1 else self.domains

    def nic_share(self, cluster: Cluster) -> NDArray[np.float64]:
        """The part of a domain's NICs that one group gets: those beside its GPUs, less what its like take."""
        nics = max(len(cluster.node.nics), 1) * cluster.domain_nodes
        seats = len(cluster.node.gpus) * cluster.domain_nodes
        local = self.ranks / self.domains_on(cluster)
        own = np.maximum(1.0, nics * np.minimum(1.0, local / seats)) / nics
        fit = np.maximum(np.floor(seats / np.maximum(local, 1)), 1)
        together = fit if self.concurrent is None else np.minimum(self.concurrent, fit)
        return np.asarray(np.minimum(own, 1.0 / together))

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
