"""A graph of NCCL's: the shape, number and speed of its channels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from assay.fabric.nccl.system import MBps, PathType

#: NCCL's limit: half of 64 channels, as each is doubled after the search.
MOST_CHANNELS = 32


class Pattern(IntEnum):
    """The shape of a channel."""

    BALANCED_TREE = 1
    SPLIT_TREE = 2
    TREE = 3
    RING = 4
    NVLS = 5
    COLLNET_DIRECT = 6


@dataclass(slots=True)
class Graph:
    """Channels found: each an order of GPUs, from a NIC port and to one; speeds are of one channel."""

    pattern: Pattern
    low: int = 1
    high: int = MOST_CHANNELS // 2
    collnet: bool = False
    cross: int = 0
    same: bool = True
    type_intra: PathType = PathType.LOC
    type_inter: PathType = PathType.LOC
    bw_intra: MBps = 0
    bw_inter: MBps = 0
    latency_s: float = 0.0
    hops: int = 0
    gpus: list[list[int]] = field(default_factory=list)
    nics: list[list[int]] = field(default_factory=list)
    count: int = 0

    def copy(self) -> Graph:
        """A copy that shares no list."""
        twin = replace(self)
        twin.gpus = [list(one) for one in self.gpus[: self.count]]
        twin.nics = [list(one) for one in self.nics[: self.count]]
        return twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """The graphs of one group in one kind of node."""

    ring: Graph
    tree: Graph
    nvls: Graph
    collnet_chain: Graph
    collnet_direct: Graph

    @property
    def channels(self) -> int:
        """Channels that rings and trees both have."""
        return min(self.ring.count, self.tree.count)
