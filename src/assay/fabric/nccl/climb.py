"""The walk around NCCL's search: speeds from the top down, and what is relaxed before a speed is given up.

Source: NCCL src/graph/search.cc, ncclTopoCompute, 2.27 to 2.30.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from assay.domain.cluster import Node
from assay.fabric.nccl.graph import MOST_CHANNELS, Graph, Graphs, Pattern
from assay.fabric.nccl.search import PERFECT, Search
from assay.fabric.nccl.system import MBps, PathType, System, build_system, nic_of_channel

#: Speeds tried, GB/s, top down; by whether the group leaves its node, and the oldest GPU's capability.
_INTRA = {
    0: (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    90: (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    100: (90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18),
}
_INTER = {
    0: (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    90: (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    100: (96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}

_STEPS_ALL = 1 << 19
_STEPS = 1 << 14
_STEPS_SAME = 1 << 8


def _speeds(system: System) -> list[MBps]:
    table = _INTER if system.inter else _INTRA
    speeds = [round(1000 * s) for s in table[max(k for k in table if system.capability >= k)]]
    if system.capability < 100:
        return speeds
    later: tuple[MBps, ...] = (86_000, 80_000) if system.inter and system.version >= (2, 30) else ()
    if not system.inter and system.version >= (2, 29):
        later = (45_000,)
    return sorted({*speeds, *later}, reverse=True)


def _reach(system: System) -> tuple[MBps, MBps]:
    """The widest single path of the group, and the widest GPU in all."""
    n, widest, total = len(system.gpus), 0, 0
    for g in range(n):
        if system.inter:
            paths = [system.to_nic(g, nic) for nic in system.nics]
        else:
            paths = [system.gpu_path(g, p) for p in range(n) if p != g]
        widest = max([widest, *(p.bw for p in paths)])
        links = system.out[("GPU", g)]
        nvlink = sum(k.bw for k in links if k.kind is PathType.NVL)
        pcie = max(k.bw for k in links if k.kind is PathType.PIX)
        total = max(total, nvlink, pcie)
    return widest, total


def find_graph(system: System, graph: Graph) -> Graph:
    """The channels of one pattern that NCCL would use on this system."""
    if graph.pattern is Pattern.NVLS and (not system.has_nvswitch or system.capability < 90):
        return graph
    return _Climb(system, graph).run()


class _Climb:
    """The walk over speeds and relaxations around `_Search`."""

    def __init__(self, system: System, graph: Graph) -> None:
        self.system, self.n = system, len(system.gpus)
        self.speeds = _speeds(system)
        self.widest, self.total = _reach(system)
        self.kind = graph.pattern
        crossing = (Pattern.RING, Pattern.BALANCED_TREE, Pattern.SPLIT_TREE)
        self.may_cross = len(system.nics) > 1 and graph.pattern in crossing
        self.try_same = graph.pattern is not Pattern.NVLS
        self._limits()
        self.best = replace(graph, type_intra=self.min_intra, type_inter=self.min_inter, same=self.try_same)
        self._fit_pattern()
        self.search = Search(system)

    def _limits(self) -> None:
        system, n = self.system, self.n
        self.min_intra, self.max_intra = PathType.LOC, PathType.SYS
        self.min_inter, self.max_inter = PathType.PIX, PathType.SYS
        if n > 1:
            kinds = [system.gpu_path(a, b).type for a in range(n) for b in range(n) if a != b]
            self.min_intra, self.max_intra = min([PathType.SYS, *kinds]), max(kinds)
        if system.inter:
            kinds = [system.to_nic(g, nic).type for g in range(n) for nic in system.nics]
            self.min_inter, self.max_inter = min([PathType.SYS, *kinds]), max(kinds)
            self.max_intra = self.max_inter
            if system.capability < 90 and system.version >= (2, 29):
                self.max_inter = PathType.SYS

    def _fit_pattern(self) -> None:
        best = self.best
        if best.pattern is Pattern.NVLS:
            best.high = min(32, self.n)
            if not self.system.inter:
                best.low = best.high
        if best.pattern is Pattern.COLLNET_DIRECT:
            best.high = min(8, self.n)
        if self.n == 1 and best.pattern is not Pattern.RING:
            best.pattern = Pattern.TREE
        if best.pattern is Pattern.RING and self._is_split() and best.high >= 2 and best.low == 1:
            best.low = 2
        self.kind = best.pattern

    def _is_split(self) -> bool:
        """Two groups of NVLinked GPUs with something slower between them."""
        domain = list(range(self.n))
        for g in range(self.n):
            for p in range(g + 1, self.n):
                if self.system.gpu_path(g, p).type is PathType.NVL:
                    domain[p] = domain[g]
        return sum(domain.count(d) > 1 for d in range(self.n)) == 2

    def run(self) -> Graph:
        self._first_pass()
        self._duplicate()
        self._second_pass()
        best = self.best
        if best.count == 0 and not best.collnet and best.pattern is not Pattern.NVLS:
            self._simple_order()
        return self.best

    def _first_pass(self) -> None:
        speeds = self.speeds
        total: float = self.total
        if self.n > 1 and self.kind is not Pattern.RING:
            total *= self.n / (self.n - 1)
        at = 0
        while at < len(speeds) - 1 and (speeds[at] > self.widest or speeds[at] * self.best.low > total):
            at += 1
        trial = replace(self.best, bw_intra=speeds[at], bw_inter=speeds[at])
        left_all = _STEPS_ALL
        while True:
            budget = _STEPS_SAME if trial.same else _STEPS
            left_all -= budget
            self.best, left = self.search.run(trial, self.best, budget)
            best = self.best
            if left == PERFECT or best.count * best.bw_inter >= self.total:
                return
            amd_sys = self.system.node.sockets[0].maker == "amd" and trial.type_intra is PathType.SYS
            if trial.same and not amd_sys:
                trial.same = False
                continue
            trial.same = self.try_same
            left_all += left
            if left_all < 0 and best.count:
                return
            if self._relax(trial):
                continue
            if at < len(speeds) - 1 and (best.count == 0 or speeds[at + 1] / best.bw_inter > 0.49):
                at += 1
                trial.bw_intra = trial.bw_inter = speeds[at]
                continue
            return

    def _relax(self, trial: Graph) -> bool:
        """Allow what is next worse: a simpler tree, farther GPUs, farther NICs, crossed NICs."""
        best, inter = self.best, self.system.inter
        if self.system.capability >= 90 and trial.pattern is Pattern.BALANCED_TREE:
            trial.pattern = Pattern.TREE
            return True
        trial.pattern = best.pattern
        limit = trial.type_inter if inter else self.max_intra
        if trial.type_intra < limit and (best.count == 0 or trial.type_intra < best.type_intra):
            trial.type_intra = PathType(trial.type_intra + 1)
            return True
        trial.type_intra = self.min_intra
        closer = best.count == 0 or trial.type_inter < best.type_inter or trial.type_inter < PathType.PXN
        if inter and trial.type_inter < self.max_inter and closer:
            trial.type_inter = PathType(trial.type_inter + 1)
            return True
        trial.type_inter = self.min_inter
        if self.may_cross and trial.cross == 0 and best.pattern in (Pattern.RING, Pattern.BALANCED_TREE):
            trial.cross = 2
            return True
        trial.cross = 0
        return False

    def _duplicate(self) -> None:
        """Lay every channel twice at half the speed where one channel is too much for one SM."""
        best = self.best
        if best.count == 0 or best.pattern is Pattern.NVLS or best.bw_intra < 25_000:
            return
        if self.system.capability > 80 and best.bw_intra < 50_000 and best.count > 4:
            return
        many = min(best.count * 2, best.high)
        best.gpus = (best.gpus * 2)[:many]
        best.nics = (best.nics * 2)[:many]
        times = -(-many // best.count)
        best.bw_intra, best.bw_inter = round(best.bw_intra / times), round(best.bw_inter / times)
        best.count = many

    def _second_pass(self) -> None:
        """From the solution upwards: rings faster, trees and NVLS faster on one side."""
        speeds, best = self.speeds, self.best
        at = 0
        while at < len(speeds) - 1 and speeds[at] > best.bw_inter:
            at += 1
        trial = best.copy()
        trial.bw_intra = trial.bw_inter = speeds[at]
        trial.low = best.count
        left = PERFECT
        while left != 0 and at > 0:
            best = self.best
            if best.pattern is Pattern.RING:
                at -= 1
                trial.bw_intra = trial.bw_inter = speeds[at]
            elif (
                best.pattern is Pattern.NVLS
                and trial.bw_inter == best.bw_inter
                and trial.bw_inter < trial.bw_intra * 2
            ):
                trial.low = trial.high = best.count
                at -= 1
                trial.bw_inter = speeds[at]
            elif trial.bw_intra == best.bw_intra and trial.bw_intra < trial.bw_inter * 2:
                at -= 1
                trial.bw_intra = speeds[at]
            else:
                return
            budget = _STEPS_SAME if trial.same else _STEPS
            self.best, left = self.search.run(trial, best, budget)
            if left == PERFECT or self.best.count * self.best.bw_inter >= self.total:
                continue

    def _simple_order(self) -> None:
        """NCCL's last resort when nothing fits: GPUs in order at a token speed."""
        best = self.best
        best.gpus, best.count = [list(range(self.n))], 1
        best.bw_intra, best.type_intra = 100, PathType.SYS
        if self.system.inter:
            best.nics = [[nic_of_channel(self.system, 0, 0), nic_of_channel(self.system, self.n - 1, 0)]]
            best.bw_inter, best.type_inter = 100, PathType.SYS
        else:
            best.bw_inter, best.type_inter = 0, PathType.DIS


def find_graphs(
    node: Node, gpus: Sequence[int], *, inter: bool, collnet: bool = False, version: tuple[int, int] = (2, 27)
) -> Graphs:
    """All graphs of a group on these GPUs of a node; `inter` when it reaches other nodes.

    Without a NIC NCCL searches as if the group stayed in the node.
    """
    system = build_system(node, gpus, inter=inter and bool(node.nics), version=version)

    def find(graph: Graph) -> Graph:
        return find_graph(system, graph)

    # The search goes as deep as channels times GPUs; each step is a few Python frames.
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 1000 + 8 * MOST_CHANNELS * len(gpus)))
    try:
        ring = find(Graph(pattern=Pattern.RING))
        tree = find(Graph(pattern=Pattern.BALANCED_TREE, low=ring.count, high=ring.count))
        chain = Graph(pattern=Pattern.TREE, collnet=True, low=ring.count, high=ring.count)
        direct = Graph(pattern=Pattern.COLLNET_DIRECT, collnet=True, high=MOST_CHANNELS)
        if collnet and system.inter:
            chain, direct = find(chain), find(direct)
        nvls = Graph(pattern=Pattern.NVLS, high=MOST_CHANNELS)
        if len(gpus) > 2:
            nvls = find(nvls)
    finally:
        sys.setrecursionlimit(before)
    return Graphs(ring=ring, tree=tree, nvls=nvls, collnet_chain=chain, collnet_direct=direct)
