"""What groups of ranks pay for collectives: one call for whole grids, and plain links that answer it.

`fabric_network` answers the same calls with the fabric's own model; it is apart because it loads more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.domain.cluster import SWITCH, Cluster
from assay.domain.fabric import Transport

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def spread(ranks: ArrayLike, stride: ArrayLike, width: ArrayLike) -> tuple[Ints, Ints]:
    """Ranks of a group in one node of `width` GPUs, and nodes it touches, when ranks fill nodes in order."""
    count, step, seats = (np.asarray(x, np.int64) for x in (ranks, stride, width))
    local = np.clip(seats // np.maximum(step, 1), 1, np.maximum(count, 1))
    return local, -(-count // local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """One GPU's payload bandwidths, one direction, and a hop's cost, inside a domain and between nodes."""

    domain_ranks: int
    link_Bps: float
    nic_Bps: float
    link_s: float
    nic_s: float


def wires(
    *, domain_ranks: int, links_Bps: float | None, slot_Bps: float, nic_Bps: float, lossless: bool
) -> Wires:
    """Payload rates from line rates: `links_Bps` of one GPU (None: PCIe only), `nic_Bps` its NIC share.

    Parts of the line rate that large collectives reach (docs/models/network.md): NVLink 80 %, PCIe 80 %,
    InfiniBand 88 %, other networks 75 %.
    """
    return Wires(
        domain_ranks=domain_ranks,
        link_Bps=0.8 * (slot_Bps if links_Bps is None else links_Bps),
        nic_Bps=nic_Bps * (0.88 if lossless else 0.75),
        link_s=5e-6,
        nic_s=8e-6 if lossless else 15e-6,
    )


def wires_of(cluster: Cluster) -> Wires:
    """The wires of a described cluster; a GPU's direct links count together."""
    node, fabric = cluster.node, cluster.fabric
    seat = node.gpus[0]
    count = seat.links.get(SWITCH, 0) or sum(seat.links.values())
    per_link = node.gpu.link_Bps if node.gpu is not None else None
    nic = node.nic_Bps
    if fabric is not None and fabric.node_Bps is not None:
        nic = fabric.node_Bps
    elif fabric is not None:
        nic = nic / fabric.oversubscription
    return wires(
        domain_ranks=len(node.gpus) * cluster.domain_nodes,
        links_Bps=count * per_link if count and per_link else None,
        slot_Bps=seat.slot.Bps,
        # Without a NIC nothing leaves the node; a group that would is refused by the cluster itself.
        nic_Bps=max(nic, 1.0) / len(node.gpus),
        lossless=fabric is not None and fabric.transport is Transport.INFINIBAND,
    )


class Network(Protocol):
    """Time of one collective for each of a grid of groups."""

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """Seconds of `op` over `bytes` (nccl-tests' size) in groups of `ranks`, `stride` apart in rank order.

        Ranks fill nodes in order; as many groups as there are run at the same time.
        """
        ...

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """Islands of fast links that a group touches."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNetwork:
    """Rings over two kinds of link, for clusters of which only bandwidths are known; fields have shape (N,).

    `link_Bps` is what one GPU gets from its direct links, `nic_Bps` its share of the node's NICs, both one
    direction and as payload. `link_s` and `nic_s` are one hop.
    """

    domain_ranks: Ints
    link_Bps: Floats
    nic_Bps: Floats
    link_s: Floats
    nic_s: Floats

    @classmethod
    def of(cls, cluster: Cluster) -> LinkNetwork:
        """The links of a described cluster, each at the part of its rate that collectives reach."""
        wires = wires_of(cluster)
        return cls(
            domain_ranks=np.array([wires.domain_ranks]),
            link_Bps=np.array([wires.link_Bps]),
            nic_Bps=np.array([wires.nic_Bps]),
            link_s=np.array([wires.link_s]),
            nic_s=np.array([wires.nic_s]),
        )

    def nodes(self, ranks: ArrayLike, stride: ArrayLike) -> Ints:
        """Islands of fast links that a group touches."""
        return spread(ranks, stride, self.domain_ranks)[1]

    def time_s(self, op: str, bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike) -> Floats:
        """A ring's bandwidth term (all-to-all: the slower link's) plus hops, the shorter of ring and tree."""
        size = np.asarray(bytes, float)
        local, apart = (x.astype(float) for x in spread(ranks, stride, self.domain_ranks))
        joined = local * apart
        inner, outer = np.maximum(local - 1, 0), np.maximum(apart - 1, 0)
        wire = np.where(apart > 1, np.minimum(self.link_Bps, local * self.nic_Bps), self.link_Bps)
        share = np.where(joined > 1, (joined - 1) / np.maximum(joined, 1), 0.0)
        hops = np.minimum(inner + outer, 2 * np.log2(np.maximum(joined, 1))) * self.link_s + (
            np.minimum(outer, 2 * np.log2(np.maximum(apart, 1))) * self.nic_s
        )
        if op == "send_recv":
            return np.where(apart > 1, size / self.nic_Bps + self.nic_s, size / self.link_Bps + self.link_s)
        if op == "all_to_all":
            total = np.maximum(joined, 1)
            across = size * (joined - local) / total / self.nic_Bps
            within = size * inner / total / self.link_Bps
            time = np.maximum(across, within) + np.where(apart > 1, self.nic_s, self.link_s) * np.log2(total)
        elif op == "all_reduce":
            time = 2 * share * size / wire + 2 * hops
        else:
            time = share * size / wire + hops
        return np.where(joined > 1, time, 0.0)
