"""MPI's collectives on a cluster: published algorithms, their costs, and the sizes at which MPICH changes.

α-β-γ costs of Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
IJHPCA 19(1), 2005, and Bruck et al. 1997. Ranks fill nodes in order; of each step it counts how many ranks of
a node send over its NICs at the same time. The numbers below are assumed, not measured: the range is wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.domain.cluster import Cluster
from assay.domain.fabric import Fabric, Wiring
from assay.fabric.situation import link_of

Floats = NDArray[np.float64]

#: Sender and receiver together, for one message, s. RDMA: osu_latency over InfiniBand is 1 to 2 µs, of which
#: a switch takes the least; sockets: tens of µs; shared memory and peers in a node: below 1 µs. Assumed.
RDMA_HOST_S, TCP_HOST_S, NODE_HOST_S = 1.0e-6, 25e-6, 0.6e-6
#: Bytes that a host's core adds up in a second where no GPU is known. Assumed.
HOST_ADD_Bps = 5e9
#: Measured over predicted that the range allows. Assumed.
RANGE = (0.5, 2.5)


class Cost(NamedTuple):
    """Seconds by what takes them; arrays over sizes. Steps follow one another, so costs add up."""

    latency: Floats
    link: Floats
    nic: Floats
    add: Floats

    def then(self, other: Cost) -> Cost:
        """This, and after it the other."""
        return Cost(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def total_s(self) -> Floats:
        """All of it."""
        return self.latency + self.link + self.nic + self.add


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """What `per_node` ranks in each of `nodes` nodes have: a message's start, rates of one rank, the NICs.

    A rank drives one NIC at a time (`port_Bps`); all ranks of a node that send share `nic_Bps`. Adding up
    reads two values and writes one, at `add_Bps` of results.
    """

    per_node: int
    nodes: int
    node_s: float
    net_s: float
    link_Bps: float
    port_Bps: float
    nic_Bps: float
    add_Bps: float

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.per_node * self.nodes

    @property
    def is_even(self) -> bool:
        """Whether the number of ranks is a power of two."""
        return self.ranks & (self.ranks - 1) == 0

    def inside(self) -> Wires:
        """The ranks of one node among themselves."""
        return replace(self, nodes=1)

    def leaders(self) -> Wires:
        """One rank of each node."""
        return replace(self, per_node=1)

    def step(self, sent: Floats, flows: int, times: int = 1) -> Cost:
        """`times` steps in which ranks send so many bytes, `flows` of a node's ranks to another node."""
        none = np.zeros_like(sent)
        near = times * (self.node_s + sent / self.link_Bps)
        if not flows:
            return Cost(none + times * self.node_s, times * sent / self.link_Bps, none, none)
        rate = min(self.port_Bps, self.nic_Bps / flows)
        away = times * (self.net_s + sent / rate)
        # The step is over when the slower of the ranks inside the node and those that leave it are done.
        late = np.maximum(near - away, 0.0) if flows < self.per_node else none
        return Cost(none + times * self.net_s, late, times * sent / rate, none)

    def added(self, size: Floats) -> Cost:
        """Adding so many bytes to those that are there."""
        none = np.zeros_like(size)
        return Cost(none, none, none, size / self.add_Bps)

    def shift(self, distance: int) -> int:
        """Ranks of a node whose partner, so many ranks further, is in another node."""
        return 0 if self.nodes == 1 else min(distance, self.per_node)

    def swap(self, distance: int) -> int:
        """The same where the partner's number differs in one bit.

        Where some ranks sit out, those that go on are numbered anew and no longer fill nodes.
        """
        aligned = self.is_even and distance < self.per_node
        return 0 if aligned else self.shift(distance)


def wires_of(cluster: Cluster, per_node: int, stride: int, nodes: int, share: float) -> Wires:
    """The wires of a group with `share` of its nodes' NICs; an NVLink domain counts as one node."""
    node, fabric, together = cluster.node, cluster.fabric, cluster.domain_nodes
    within = (per_node - 1) * stride < len(node.gpus)
    seats = tuple(at * stride for at in range(per_node)) if within else tuple(range(len(node.gpus)))
    nics = node.nic_Bps if fabric is None or fabric.node_Bps is None else min(node.nic_Bps, fabric.node_Bps)
    nics *= together * share / (1.0 if fabric is None else fabric.oversubscription)
    port = max((nic.rate_Bps for nic in node.nics), default=nics)
    return Wires(
        per_node=per_node,
        nodes=nodes,
        node_s=NODE_HOST_S,
        net_s=message_s(fabric, nodes),
        link_Bps=link_of(node, seats)[1],
        # A group that would leave a node without a NIC is refused by the cluster itself.
        port_Bps=max(min(port, nics), 1.0),
        nic_Bps=max(nics, 1.0),
        add_Bps=HOST_ADD_Bps if node.gpu is None else node.gpu.memory_Bps / 3,
    )


def message_s(fabric: Fabric | None, nodes: int) -> float:
    """α between two nodes: the hosts' part and the switches on the way, or what was measured."""
    if fabric is None:
        return NODE_HOST_S
    if fabric.latency_s is not None:
        return fabric.latency_s
    host = RDMA_HOST_S if fabric.transport.has_rdma else TCP_HOST_S
    one_leaf = fabric.wiring in (Wiring.SINGLE, Wiring.OPAQUE) or nodes <= fabric.radix // 2
    return host + (1 if one_leaf else 3) * fabric.hop_latency_s


def _doublings(count: int) -> int:
    """⌈log₂ count⌉."""
    return (count - 1).bit_length()


def _masks(ranks: int) -> list[int]:
    """1, 2, 4, … below the greatest power of two that is not above `ranks`."""
    return [1 << bit for bit in range(ranks.bit_length() - 1)]


def _none(size: Floats) -> Cost:
    return Cost(*(np.zeros_like(size) for _ in range(4)))


def _folded(w: Wires, size: Floats, *, adds: bool, back: Floats | None) -> Cost:
    """What a number of ranks that is no power of two costs: some send all to a neighbour, which answers."""
    if w.is_even:
        return _none(size)
    flows = w.shift(1) if w.per_node % 2 else 0
    out = w.step(size, flows)
    if back is not None:
        out = out.then(w.step(back, flows))
    return out.then(w.added(size)) if adds else out


def _tree(w: Wires, size: Floats, *, adds: bool) -> Cost:
    """Binomial tree: ⌈log₂ n⌉ steps of everything, one rank of a node over its NIC."""
    cost = w.leaders().step(size, 1, times=_doublings(w.nodes))
    cost = cost.then(w.step(size, 0, times=_doublings(w.per_node)))
    return cost.then(w.added(size * _doublings(w.ranks))) if adds else cost


def _scatter(w: Wires, size: Floats) -> Cost:
    """Binomial scatter, or the gather back: halves, farthest first; (n−1)/n of everything."""
    cost = _none(size)
    for part, whole in ((w.leaders(), size), (w.inside(), size / w.nodes)):
        count = part.ranks
        far = _doublings(count)
        if far:
            cost = cost.then(part.step(whole * (count - 1) / count / far, part.shift(1), times=far))
    return cost


def _doubling(w: Wires, size: Floats) -> Cost:
    """Recursive doubling of everything, adding up at each step."""
    cost = _folded(w, size, adds=True, back=size)
    for mask in _masks(w.ranks):
        cost = cost.then(w.step(size, w.swap(mask))).then(w.added(size))
    return cost


def _halving(w: Wires, size: Floats, *, near_first: bool) -> Cost:
    """Reduce-scatter by recursive halving: size/2, size/4, …; the nearest rank first inside an all-reduce."""
    cost = _none(size)
    for at, mask in enumerate(_masks(w.ranks) if near_first else reversed(_masks(w.ranks))):
        part = size / 2 ** (at + 1)
        cost = cost.then(w.step(part, w.swap(mask))).then(w.added(part))
    return cost


def _gathered(w: Wires, size: Floats, *, far_most: bool) -> Cost:
    """All-gather by recursive doubling; the farthest rank gets most, but for the end of an all-reduce."""
    cost, masks = _none(size), _masks(w.ranks)
    for at, mask in enumerate(reversed(masks) if far_most else masks):
        cost = cost.then(w.step(size / 2 ** (at + 1), w.swap(mask)))
    return cost


def _ring(w: Wires, size: Floats) -> Cost:
    """n − 1 steps of size/n to the next rank; one rank of a node sends over its NIC."""
    return w.step(size / w.ranks, w.shift(1), times=w.ranks - 1)


def _bruck_gather(w: Wires, size: Floats) -> Cost:
    """Bruck's all-gather: ⌈log₂ n⌉ steps for any n, the last of what is left."""
    cost, n = _none(size), w.ranks
    for mask in (1 << bit for bit in range(_doublings(n))):
        cost = cost.then(w.step(size / n * min(mask, n - mask), w.shift(mask)))
    return cost


def _bruck_all_to_all(w: Wires, size: Floats) -> Cost:
    """Bruck's all-to-all: half of everything in each of ⌈log₂ n⌉ steps."""
    cost = _none(size)
    for mask in (1 << bit for bit in range(_doublings(w.ranks))):
        cost = cost.then(w.step(size / 2, w.shift(mask)))
    return cost


def _pairwise(w: Wires, size: Floats) -> Cost:
    """n − 1 exchanges of size/n, each with another rank; g − 1 of them stay in a node of g ranks."""
    away = w.step(size / w.ranks, w.per_node, times=w.ranks - w.per_node) if w.nodes > 1 else _none(size)
    return away.then(w.step(size / w.ranks, 0, times=w.per_node - 1))


def _pairwise_adding(w: Wires, size: Floats) -> Cost:
    return _pairwise(w, size).then(w.added(size * (w.ranks - 1) / w.ranks))


def _rabenseifner(w: Wires, size: Floats) -> Cost:
    """Reduce-scatter by recursive halving, then all-gather by recursive doubling."""
    cost = _folded(w, size, adds=True, back=size).then(_halving(w, size, near_first=True))
    return cost.then(_gathered(w, size, far_most=False))


#: Operation → algorithm → its cost.
ALGORITHMS: Mapping[str, Mapping[str, Callable[[Wires, Floats], Cost]]] = {
    "all_reduce": {
        "DOUBLING": _doubling,
        "RABENSEIFNER": _rabenseifner,
        "RING": lambda w, s: _ring(w, s).then(w.added(s * (w.ranks - 1) / w.ranks)).then(_ring(w, s)),
    },
    "all_gather": {
        "DOUBLING": lambda w, s: _folded(w, s, adds=False, back=s).then(_gathered(w, s, far_most=True)),
        "BRUCK": _bruck_gather,
        "RING": _ring,
    },
    "reduce_scatter": {
        "HALVING": lambda w, s: _folded(w, s, adds=True, back=s / w.ranks).then(
            _halving(w, s, near_first=False)
        ),
        "PAIRWISE": _pairwise_adding,
    },
    "all_to_all": {"BRUCK": _bruck_all_to_all, "PAIRWISE": _pairwise},
    "broadcast": {
        "BINOMIAL": lambda w, s: _tree(w, s, adds=False),
        "SCATTER_DOUBLING": lambda w, s: _scatter(w, s).then(
            _folded(w, s, adds=False, back=s).then(_gathered(w, s, far_most=True))
        ),
        "SCATTER_RING": lambda w, s: _scatter(w, s).then(_ring(w, s)),
    },
    "reduce": {
        "BINOMIAL": lambda w, s: _tree(w, s, adds=True),
        "RABENSEIFNER": lambda w, s: (
            _folded(w, s, adds=True, back=None).then(_halving(w, s, near_first=True)).then(_scatter(w, s))
        ),
    },
    "send_recv": {"DIRECT": lambda w, s: w.step(s, w.per_node if w.nodes > 1 else 0)},
}
