"""What the cost model needs of a node's graphs, and the situation that a group is in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.domain.cluster import Node
from assay.fabric.nccl.graph import Graph, Graphs, Pattern
from assay.fabric.nccl.system import PathType


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSummary:
    """Channels of one graph and their speed in NCCL's GB/s."""

    pattern: Pattern
    channels: int
    GBps_intra: float
    GBps_inter: float
    type_intra: PathType
    type_inter: PathType
    same: bool
    latency_us: float = 0.0

    @classmethod
    def of(cls, graph: Graph) -> GraphSummary:
        """The summary of a graph that the search found."""
        return cls(
            pattern=graph.pattern,
            channels=graph.count,
            GBps_intra=graph.bw_intra / 1000,
            GBps_inter=graph.bw_inter / 1000,
            type_intra=graph.type_intra,
            type_inter=graph.type_inter,
            same=graph.same,
            latency_us=graph.latency_s * 1e6,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A group as NCCL sees it: `per_node` ranks in each node, whether it leaves the node, what is there."""

    per_node: int
    inter: bool
    version: tuple[int, int]
    capability: int
    equal_gpus: bool
    cpu: str
    nvswitch: bool
    nvls: bool
    collnet: bool
    ring: GraphSummary
    tree: GraphSummary
    nvls_graph: GraphSummary
    collnet_chain: GraphSummary
    collnet_direct: GraphSummary

    @classmethod
    def of(
        cls,
        node: Node,
        graphs: Graphs,
        *,
        per_node: int,
        inter: bool,
        version: tuple[int, int],
        nvls: bool,
        collnet: bool,
    ) -> Situation:
        """The situation of a group whose graphs are known."""
        ring, tree = GraphSummary.of(graphs.ring), GraphSummary.of(graphs.tree)
        # Rings and trees share their channels, so that the poorer decides for both.
        both = min(ring.channels, tree.channels)
        capabilities = {seat.compute_capability for seat in node.gpus}
        capability = node.compute_capability
        return cls(
            per_node=per_node,
            inter=inter,
            version=version,
            capability=capability,
            equal_gpus=len(capabilities) == 1 or capability >= 90,
            cpu=node.sockets[0].maker,
            nvswitch=node.has_link_switch,
            nvls=nvls and node.has_link_switch and capability >= 90 and per_node > 2 and version >= (2, 17),
            collnet=collnet,
            ring=replace(ring, channels=both),
            tree=replace(tree, channels=both),
            nvls_graph=GraphSummary.of(graphs.nvls),
            collnet_chain=GraphSummary.of(graphs.collnet_chain),
            collnet_direct=GraphSummary.of(graphs.collnet_direct),
        )

    def graph(self, algorithm: str) -> GraphSummary:
        """The graph that an algorithm runs on."""
        return {
            "RING": self.ring,
            "PAT": self.tree,
            "TREE": self.tree,
            "NVLS": self.nvls_graph,
            "NVLS_TREE": self.nvls_graph,
            "COLLNET_CHAIN": self.collnet_chain,
            "COLLNET_DIRECT": self.collnet_direct,
        }[algorithm]

    @property
    def channels(self) -> int:
        """Channels that NCCL opens: each graph channel twice, more to feed NVLS or fast NICs."""
        count = min(self.ring.channels, self.tree.channels) * 2
        if self.collnet and self.collnet_chain.GBps_intra > self.collnet_chain.GBps_inter:
            count += count // 2
        if self.inter and self.capability >= 90 and self.ring.GBps_intra > 45 and count < 16:
            count *= 2
        if self.version < (2, 28) and self.nvls:
            count = max(count, 16 if self.capability < 100 else 32)
        return min(max(count, 1), 32)
