"""NCCL's cost model: time = latency + bytes / bandwidth for each algorithm and protocol; the least time wins.

The numbers are NCCL's own, from src/graph/tuning.cc of 2.8 to 2.30: they say what NCCL chooses, not how
long it takes. Latencies are in µs and bandwidths in GB/s (1 GB/s = 1000 bytes per µs), as NCCL has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.fabric.nccl.graph import Pattern
from assay.fabric.nccl.summary import GraphSummary, Situation
from assay.fabric.nccl.system import PathType

Floats = NDArray[np.float64]

PROTOCOLS = ("LL", "LL128", "SIMPLE")

#: Rings and trees first: of equal times the earlier wins, as in NCCL.
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Latencies:
    """What starting takes, and one step over a link: algorithm → (LL, LL128, Simple)."""

    base: Mapping[str, tuple[float, float, float]]
    step: Mapping[str, Mapping[str, tuple[float, float, float]]]


def _latencies(
    *,
    base: Mapping[str, tuple[float, float, float]],
    ring_ll: float = 0.6,
    tree_ll: float = 0.6,
    tree_simple: tuple[float, float] = (28, 28),
    ring_net: float = 14,
    collnet: tuple[float, float, float] = (3.7, 2.8, 31),
    nvls: tuple[float, float] = (25, 14),
) -> _Latencies:
    """A version's table; `tree_simple` is (in a node, between nodes), `nvls` (a node, a tree's step)."""
    inside, outside = tree_simple
    direct, chain, far = collnet
    return _Latencies(
        base=base,
        step={
            "nvlink": {
                "TREE": (tree_ll, 1.25, inside),
                "RING": (ring_ll, 1.9, 3.4),
                "COLLNET_DIRECT": (0, 0, direct),
                "COLLNET_CHAIN": (0, 0, chain),
                "NVLS": (0, 0, nvls[0]),
                "NVLS_TREE": (0, 0, nvls[0]),
                "PAT": (0, 0, 4.0),
            },
            "pcie": {
                "TREE": (1.0, 1.9, inside),
                "RING": (1.0, 2.5, 5.7),
                "COLLNET_DIRECT": (0, 0, direct),
                "COLLNET_CHAIN": (0, 0, chain),
                "NVLS": (0, 0, 0),
                "NVLS_TREE": (0, 0, 0),
                "PAT": (0, 0, 4.0),
            },
            "net": {
                "TREE": (5.0, 8.5, outside),
                "RING": (2.7, 4.0, ring_net),
                "COLLNET_DIRECT": (0, 0, far),
                "COLLNET_CHAIN": (0, 0, far - 1),
                "NVLS": (0, 0, 18),
                "NVLS_TREE": (0, 0, nvls[1]),
                "PAT": (0, 0, 14),
            },
        },
    )


_OLD_BASE = {"TREE": (4.4, 4.4, 0.0), "RING": (3.6, 10.0, 8.4)}
_MIDDLE_BASE = {"TREE": (6.8, 14.0, 0.0), "RING": (6.6, 14.0, 8.4)}
_BASE = {"TREE": (6.8, 14.0, 8.4), "RING": (6.6, 14.0, 8.4)}

#: From each version on. Before 2.23 an NVLink step of a tree's Simple was counted for 28 µs, but in 2.18.
_LATENCIES: Mapping[tuple[int, int], _Latencies] = {
    (2, 8): _latencies(base=_OLD_BASE, ring_ll=0.47, tree_ll=0.52, ring_net=9.6, collnet=(4.0, 8.0, 10.7)),
    (2, 12): _latencies(base=_OLD_BASE, ring_ll=0.47, tree_ll=0.52, collnet=(8.0, 8.0, 10.7)),
    (2, 18): _latencies(
        base={**_MIDDLE_BASE, "NVLS": (0.0, 0.0, 23.0), "NVLS_TREE": (0.0, 0.0, 23.0)},
        tree_simple=(4.0, 14.0),
        collnet=(8.0, 4.75, 10.7),
        nvls=(0.0, 19.0),
    ),
    (2, 19): _latencies(base=_MIDDLE_BASE, nvls=(23.0, 14.0)),
    (2, 21): _latencies(base=_MIDDLE_BASE),
    (2, 23): _latencies(base=_BASE, tree_simple=(4.0, 14.0)),
    (2, 28): _latencies(base=_BASE, tree_simple=(4.0, 14.0), nvls=(25.0, 20.9)),
}

#: Until 2.16 a ring or tree of Ampere modules was counted for at most this, GB/s.
_AMPERE_MOST = 235.0

#: Per generation (Volta, Ampere, Hopper, Blackwell): at 1, 2 and more nodes.
_LL_MOST = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))

#: Trees lose at middle sizes: factors at 64 B × 2^i, for LL, LL128 and Simple (the last for NVLS trees only).
_TREE_FACTOR = np.array(
    [
        [
            1,
            1,
            1,
            1,
            0.9,
            0.8,
            0.7,
            0.7,
            0.7,
            0.7,
            0.6,
            0.5,
            0.4,
            0.4,
            0.5,
            0.6,
            0.7,
            0.8,
            0.9,
            1,
            1,
            1,
            1,
            1,
        ],
        [
            1,
            1,
            1,
            1,
            1,
            0.9,
            0.8,
            0.8,
            0.8,
            0.7,
            0.6,
            0.6,
            0.6,
            0.6,
            0.6,
            0.6,
            0.8,
            0.9,
            0.9,
            0.9,
            0.9,
            1,
            1,
            1,
        ],
        [0.9] * 7 + [0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9],
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Era:
    """What changed between versions: GB/s a channel by generation and nodes, and how NVLS is counted."""

    ring_ll128: tuple[tuple[float, float, float], ...]
    tree_ll128: tuple[tuple[float, float, float], ...]
    tree: tuple[tuple[float, float, float], ...]
    nvls_tree: tuple[tuple[float, float, float], ...] | None
    has_collnet_chain: bool


_T = TypeVar("_T")
_NONE = float("inf")
_VOLTA_AMPERE = ((20.0,) * 3, (20.0,) * 3)
_TREE_VA = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8))

_ERAS: Mapping[tuple[int, int], _Era] = {
    (2, 23): _Era(
        ring_ll128=(*_VOLTA_AMPERE, (36.7,) * 3, (73.4,) * 3),
        tree_ll128=(*_VOLTA_AMPERE, (36.7, 36.7, 29.0), (73.4, 73.4, 58.0)),
        tree=(*_TREE_VA, (38.7, 41.4, 36.0), (77.4, 82.8, 72.0)),
        nvls_tree=None,
        has_collnet_chain=True,
    ),
    (2, 28): _Era(
        ring_ll128=(*_VOLTA_AMPERE, (36.7,) * 3, (73.4, 34.6, 73.4)),
        tree_ll128=(*_VOLTA_AMPERE, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0)),
        tree=(*_TREE_VA, (38.7, 41.4, 36.0), (70.0, 42.8, 24.0)),
        nvls_tree=(*_TREE_VA, (_NONE, 57.7, 45.5), (_NONE, 96.0, 43.8)),
        has_collnet_chain=False,
    ),
    (2, 29): _Era(
        ring_ll128=(*_VOLTA_AMPERE, (36.7,) * 3, (40.0,) * 3),
        tree_ll128=(*_VOLTA_AMPERE, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0)),
        tree=(*_TREE_VA, (38.7, 41.4, 36.0), (70.0, 42.8, 24.0)),
        nvls_tree=(*_TREE_VA, (_NONE, 57.7, 45.5), (_NONE, 96.0, 80.0)),
        has_collnet_chain=False,
    ),
}

#: From 2.28: what an NVLS channel reaches of its GPU's links, by generation.
_NVLS_REACH = (0.0, 0.0, 0.85, 0.74)


def hop_us(algorithm: str, protocol: str, link: str, version: tuple[int, int] = (2, 27)) -> float:
    """A version's own figure for one step over `link`: nvlink, pcie or net."""
    return _of(_LATENCIES, version).step[link][algorithm][PROTOCOLS.index(protocol)]


def _of(table: Mapping[tuple[int, int], _T], version: tuple[int, int]) -> _T:
    """The entry of the newest version that is not newer; of the oldest for what is older still."""
    return table[max((known for known in table if known <= version), default=min(table))]


def _era(version: tuple[int, int]) -> _Era:
    return _of(_ERAS, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """NCCL's idea of one algorithm and protocol: arrays over groups; bandwidth 0 where it may not be used."""

    algorithm: str
    protocol: str
    latency_us: Floats
    GBps: Floats


def costs(op: str, situation: Situation, nodes: ArrayLike) -> list[Cost]:
    """Every algorithm and protocol that the operation has, for groups on `nodes` nodes each."""
    count = np.asarray(nodes, dtype=float)
    found: list[Cost] = []
    for algorithm in ALGORITHMS:
        if algorithm not in _algorithms(op, situation):
            continue
        graph = situation.graph(algorithm)
        if graph is None or graph.channels == 0:
            continue
        for index, protocol in enumerate(PROTOCOLS):
            if protocol != "SIMPLE" and algorithm not in ("RING", "TREE"):
                continue
            model = _Model(op=op, situation=situation, nodes=count, algorithm=algorithm, p=index, graph=graph)
            bandwidth = model.bandwidth()
            if protocol == "LL128" and not _may_ll128(situation, graph):
                bandwidth = np.zeros_like(bandwidth)
            found.append(
                Cost(algorithm=algorithm, protocol=protocol, latency_us=model.latency(), GBps=bandwidth)
            )
    return found


def times_us(op: str, cost: Cost, situation: Situation, nodes: ArrayLike, sizes: ArrayLike) -> Floats:
    """NCCL's time for `sizes` bytes; infinite where the way is not open to it."""
    n, size = np.broadcast_arrays(np.asarray(nodes, dtype=float), np.asarray(sizes, dtype=float))
    bandwidth, latency = cost.GBps * np.ones_like(n), cost.latency_us * np.ones_like(n)
    step = np.floor(np.log2(np.maximum(size, 1) / 64)).astype(int)
    last = 23 if cost.algorithm == "TREE" else 24
    inside = (step >= 0) & (step < last)
    if op == "all_reduce" and _is_bent(cost.algorithm, situation):
        factor = _TREE_FACTOR[PROTOCOLS.index(cost.protocol)][np.clip(step, 0, last - 1)]
        bandwidth = np.where(inside, bandwidth * factor, bandwidth)
    if cost.algorithm == "RING" and cost.protocol == "SIMPLE" and op == "all_reduce":
        plateau = 1.9 if situation.capability < 80 else 1.4
        share = np.floor(size / (situation.channels * n * situation.per_node))
        latency = np.where((n > 1) & (share >= 64), latency * plateau, latency)
    with np.errstate(divide="ignore"):
        return np.where(bandwidth > 0, latency + size / (1000 * bandwidth), np.inf)


def _is_bent(algorithm: str, situation: Situation) -> bool:
    """Whether the tree's dip at middle sizes applies."""
    blackwell_x86 = situation.capability >= 100 and situation.cpu in ("intel", "amd", "zhaoxin")
    return algorithm == "TREE" or (
        algorithm == "NVLS_TREE" and situation.version >= (2, 29) and blackwell_x86
    )


def _algorithms(op: str, s: Situation) -> tuple[str, ...]:
    """Those that the operation knows and this situation allows."""
    if op in ("broadcast", "reduce"):
        return ("RING",)
    if op in ("all_gather", "reduce_scatter"):
        pat = s.per_node == 1 and s.inter and s.capability >= 60 and s.version >= (2, 23)
        # NVLS in several nodes, and CollNet, would need the plugin's own all-gather.
        return ("RING", *(("PAT",) if pat else ()), *(("NVLS",) if s.nvls and not s.inter else ()))
    found = ["TREE", "RING"]
    if s.nvls and (not s.inter or s.collnet):
        found.append("NVLS")
    if s.nvls and s.inter:
        found.append("NVLS_TREE")
    if s.collnet and s.inter:
        found += ["COLLNET_DIRECT"] if s.nvswitch and s.per_node <= 8 else []
        found += ["COLLNET_CHAIN"] if _era(s.version).has_collnet_chain else []
    return tuple(found)


def _may_ll128(s: Situation, graph: GraphSummary) -> bool:
    """LL128 needs 128-byte stores to arrive whole: NVLink inside, near NICs outside, equal GPUs."""
    far = PathType.PXN if s.capability >= 90 else PathType.PXB
    return (
        s.version >= (2, 5)
        and s.capability >= 70
        and s.equal_gpus
        and graph.type_intra <= PathType.NVB
        and (graph.type_inter <= far)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """The formulas of one algorithm and protocol over arrays of node counts."""

    op: str
    situation: Situation
    nodes: Floats
    algorithm: str
    p: int
    graph: GraphSummary

    @property
    def ranks(self) -> Floats:
        return np.asarray(self.nodes * self.situation.per_node)

    @property
    def steps(self) -> Floats:
        if self.op == "all_reduce":
            return np.asarray(2 * (self.ranks - 1))
        return self.ranks - 1 if self.op in ("all_gather", "reduce_scatter") else self.ranks

    def by_nodes(self, table: tuple[float, float, float]) -> Floats:
        """A table's entry for 1, 2 or more nodes."""
        return np.select([self.nodes <= 1, self.nodes <= 2], [table[0], table[1]], table[2])

    @property
    def generation(self) -> int:
        return int(np.searchsorted([80, 90, 100], self.situation.capability, side="right"))

    def bandwidth(self) -> Floats:
        """Algorithm bandwidth, GB/s."""
        g, a, p, gen = self.graph, self.algorithm, self.p, self.generation
        era = _era(self.situation.version)
        few = (self.nodes <= 2) | a.startswith("COLLNET")
        each = np.where(few, g.GBps_intra, g.GBps_inter)
        if a.startswith("NVLS"):
            each = self._nvls_channel(era)
        bus = g.channels * each
        amd = self.situation.cpu == "amd"
        row = np.where(
            self.nodes <= 1, self.by_nodes(_LL_MOST[gen]), self.by_nodes(_LL_MOST[1 if amd else 0])
        )
        if self.situation.version < (2, 18) and gen == 1:
            bus = np.minimum(bus, _AMPERE_MOST)
        if a == "RING" and p == 0:
            bus = np.minimum(row, bus * self._ll_part())
        elif a == "RING" and p == 1:
            alone = self.situation.version < (2, 23) and self.situation.per_node < 2
            bus = np.minimum(bus * (0.7 if alone else 0.92), g.channels * self.by_nodes(era.ring_ll128[gen]))
        elif a == "TREE":
            bus = self._tree_bus(bus, row, era)
        elif a == "PAT":
            bus = bus * 0.75
        elif a == "COLLNET_DIRECT":
            share = self.situation.per_node / g.channels
            bus = bus / (share - (share - 1) / 2) * (0.85 if self.situation.capability >= 90 else 1.0)
        return bus * self._algorithm_share(era)

    def _ll_part(self) -> Floats:
        """What LL gets of a ring's bandwidth."""
        if self.situation.version >= (2, 21):
            return np.full_like(self.nodes, 0.5)
        return np.where((self.nodes > 1) | (self.op in ("all_reduce", "reduce")), 1 / 4, 1 / 3)

    def _nvls_channel(self, era: _Era) -> Floats:
        g, n, ppn = self.graph, self.nodes, self.situation.per_node
        if g.channels < 2:
            return np.zeros_like(n)
        if era.nvls_tree is None:
            if self.op != "all_reduce":
                return np.full_like(n, min(g.GBps_intra * (ppn - 1) / ppn, 0.9 * g.GBps_inter))
            outside = g.GBps_inter * np.where((self.algorithm == "NVLS_TREE") & (n > 2), 0.5, 1.0)
            return np.minimum(g.GBps_intra, outside)
        inside = g.GBps_intra * _NVLS_REACH[self.generation] * (g.channels - 1) / g.channels
        inside *= 2.0 if self.op == "all_reduce" else (ppn - 1) / ppn
        if self.algorithm == "NVLS":
            return np.full_like(n, min(inside, g.GBps_inter))
        outside = g.GBps_inter * np.where(n <= 2, 2.0, 1.0)
        return np.minimum(np.minimum(inside, outside), self.by_nodes(era.nvls_tree[self.generation]))

    def _tree_bus(self, bus: Floats, ll_most: Floats, era: _Era) -> Floats:
        channels, gen = self.graph.channels, self.generation
        bus = np.minimum(bus * 0.92, channels * self.by_nodes(era.tree[gen]))
        if self.p == 0:
            bus = np.minimum(bus / 3.8, ll_most)
        elif self.p == 1:
            wire = np.where(self.nodes <= 1, 7 / 9, 120 / 128)
            bus = np.minimum(bus * wire, channels * self.by_nodes(era.tree_ll128[gen]))
        return bus * 0.85 if self.graph.pattern is Pattern.TREE else bus

    def _algorithm_share(self, era: _Era) -> Floats:
        a = self.algorithm
        if a != "RING" and self.op in ("all_gather", "reduce_scatter"):
            return np.ones_like(self.nodes)
        if a.startswith("NVLS") and era.nvls_tree is None:
            if a == "NVLS_TREE" and self.situation.version < (2, 19):
                return np.asarray(0.7 * self.nodes / np.maximum(2 * (self.nodes - 1), 1))
            return np.full_like(self.nodes, 5 / 6)
        if a == "RING" or a.startswith("NVLS"):
            return self.ranks / self.steps
        return np.full_like(self.nodes, 0.5)

    def latency(self) -> Floats:
        """Latency, µs."""
        a, p, n, ppn = self.algorithm, self.p, self.nodes, self.situation.per_node
        table = _of(_LATENCIES, self.situation.version)
        base = table.base.get(a, (0.0, 0.0, 0.0))[p]
        inside = "nvlink" if self.graph.type_intra is PathType.NVL else "pcie"
        intra, inter = table.step[inside][a][p], self._inter_us()
        if a == "RING":
            return base + self._ring_us(intra, inter, inside)
        doublings = np.floor(np.log2(n))
        peers = ppn - 1
        if a == "TREE":
            return base + 2 * (peers * intra + doublings * inter)
        if a == "COLLNET_DIRECT":
            return base + 2 * (min(1, peers) * intra + peers * 0.4) + inter
        if a == "COLLNET_CHAIN":
            return base + 2 * peers * intra + inter
        if a == "NVLS":
            return base + intra + np.where(n > 1, inter, 0)
        if a == "NVLS_TREE":
            return base + intra + 2 * doublings * inter
        return 8.0 + doublings * inter / 3.5 + 2.8 * self.ranks

    def _inter_us(self) -> Floats:
        a = "TREE" if self.situation.per_node == 1 else self.algorithm
        inter = _of(_LATENCIES, self.situation.version).step["net"][a][self.p]
        flush = 2 if self.p == 2 else 1
        return np.full_like(self.nodes, inter + flush * self.graph.latency_us)

    def _ring_us(self, intra: float, inter: Floats, inside: str) -> Floats:
        n, p = self.nodes, self.p
        if self.op in ("broadcast", "reduce"):
            step = _of(_LATENCIES, self.situation.version).step
            one = {link: step[link]["RING"][p] for link in ("net", inside)}
            if self.graph.same:
                return np.where(n > 1, one["net"], one[inside])
            if p == 2:
                one = {link: step[link]["TREE"][p] for link in ("net", inside)}
            return self.steps * np.where(n > 1, one["net"], one[inside])
        post = (2.0 if self.situation.cpu == "amd" else 1.0) * (3 if p == 2 else 1)
        hop = np.where(n > 1, np.maximum(intra, post), intra)
        crossing = np.where(n > 1, (2 if self.op == "all_reduce" else 1) * (n - 1), 0)
        return (self.steps - crossing) * hop + crossing * inter
