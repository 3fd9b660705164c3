"""A group of ranks on a cluster: which links carry it, their datasheet rates, and what NCCL sees."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from assay.domain.cluster import SWITCH, Cluster, Node
from assay.domain.fabric import Transport
from assay.fabric.nccl.known import graphs_of
from assay.fabric.nccl.summary import Situation

#: Direct links by what they are; "switched" PCIe has peers below one PCIe switch, "host" goes through memory.
LINKS = ("nvlink", "xgmi", "pcie", "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a group of `per_node` ranks in each node of a cluster stands on.

    `link_Bps` is what one GPU can send to its peers, `memory_Bps` what its memory does, `nic_Bps` all NIC
    ports of the node together. Inside an NVLink domain of several nodes, the domain counts as the node.
    """

    link: str
    generation: str
    link_Bps: float
    nic_Bps: float
    transport: Transport | None
    gpudirect: bool
    width: int
    hop_latency_s: float
    clock_Hz: float
    memory_Bps: float
    nccl: Situation


def generation_of(node: Node) -> str:
    """The GPUs' architecture family: volta, ampere, ada, hopper, blackwell or another vendor's."""
    if node.gpu is not None:
        return node.gpu.architecture.partition("-")[0]
    capability = node.compute_capability
    table = ((100, "blackwell"), (90, "hopper"), (89, "ada"), (80, "ampere"), (70, "volta"))
    return next((name for least, name in table if capability >= least), "volta")


#: The boost clock of each generation, for a GPU that is known only by its capability (catalogue).
_CLOCK_Hz = {"volta": 1.53e9, "ampere": 1.41e9, "ada": 2.52e9, "hopper": 1.98e9, "blackwell": 1.97e9}

#: The memory rate of each generation's modules, for the same.
_MEMORY_Bps = {"volta": 0.9e12, "ampere": 2.04e12, "ada": 0.86e12, "hopper": 3.35e12, "blackwell": 8.0e12}


@functools.lru_cache(maxsize=512)
def ground(
    cluster: Cluster,
    per_node: int,
    stride: int,
    *,
    inter: bool,
    nccl: tuple[int, int],
    nvls: bool,
    collnet: bool,
) -> Ground:
    """The ground of a group; cached, as a grid of layouts asks for few different ones."""
    node = cluster.node
    within = (per_node - 1) * stride < len(node.gpus)
    # A group over several trays of an NVLink domain has all GPUs of a tray on average.
    seats = tuple(at * stride for at in range(per_node)) if within else tuple(range(len(node.gpus)))
    graphs = graphs_of(node, seats, inter=inter, collnet=collnet, version=nccl)
    situation = Situation.of(
        node, graphs, per_node=per_node, inter=inter, version=nccl, nvls=nvls, collnet=collnet
    )
    link, link_Bps = link_of(node, seats)
    fabric = cluster.fabric
    nic_Bps = node.nic_Bps * cluster.domain_nodes
    if fabric is not None and fabric.node_Bps is not None:
        nic_Bps = min(nic_Bps, fabric.node_Bps * cluster.domain_nodes)
    return Ground(
        link=link,
        generation=generation_of(node),
        link_Bps=link_Bps,
        nic_Bps=nic_Bps / (fabric.oversubscription if fabric is not None else 1.0),
        transport=fabric.transport if fabric is not None else None,
        gpudirect=all(nic.gpudirect for nic in node.nics) and node.gpus[0].gpudirect,
        width=len(node.gpus) * cluster.domain_nodes,
        hop_latency_s=fabric.hop_latency_s if fabric is not None else 0.0,
        clock_Hz=(node.gpu.boost_clock_Hz if node.gpu is not None else None)
        or _CLOCK_Hz[generation_of(node)],
        memory_Bps=node.gpu.memory_Bps if node.gpu is not None else _MEMORY_Bps[generation_of(node)],
        nccl=situation,
    )


def link_of(node: Node, seats: tuple[int, ...]) -> tuple[str, float]:
    """The kind of link between the GPUs on `seats`, and what the poorest of them can send to the others."""
    each = (
        node.gpu.link_Bps
        if node.gpu is not None and node.gpu.link_Bps
        else _LINK_Bps(node.compute_capability)
    )
    totals = [
        sum(count for peer, count in node.gpus[at].links.items() if peer == SWITCH or peer in seats)
        for at in seats
    ]
    if min(totals) > 0 and _reaches_all(node, seats):
        kind = "xgmi" if node.gpu is not None and node.gpu.link == "xgmi" else "nvlink"
        return kind, min(totals) * each
    chosen = [node.gpus[at] for at in seats]
    peers = len({(seat.socket, seat.switch) for seat in chosen}) == 1 and chosen[0].switch is not None
    return ("pcie" if peers else "host"), min(seat.slot.Bps for seat in chosen)


def _reaches_all(node: Node, seats: tuple[int, ...]) -> bool:
    """Whether direct links among the seats join them all."""
    if node.has_link_switch:
        return True
    reached = {seats[0]}
    while True:
        more = reached | {peer for at in reached for peer in node.gpus[at].links if peer in seats}
        if more == reached:
            return len(reached) == len(seats)
        reached = more


def _LINK_Bps(capability: int) -> float:
    """One NVLink, one direction, of a GPU that is known only by its capability."""
    return 50e9 if capability >= 100 else 25e9 if capability >= 70 else 20e9
