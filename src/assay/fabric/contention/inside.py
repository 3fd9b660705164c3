"""Links inside a node as links like any other: GPU and NIC slots, PCIe switches, sockets, direct links.

A flow between a GPU and a NIC, or between two GPUs, crosses the slots at both ends and the uplinks of the
PCIe switches that lie between them; from one socket to another also the link between sockets. GPUs with
direct links use those. Each link carries one direction; shares are max-min fair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.cluster import SWITCH, Node
from assay.errors import InputError
from assay.fabric.contention.fair import Crossings
from assay.fabric.contention.fold import folded_shares

#: One direction between two sockets, as NCCL takes it (src/graph/topo.h); Intel from Sapphire Rapids on.
SOCKET_Bps = {"intel": 22e9, "amd": 16e9, "arm": 6e9, "power": 32e9, "zhaoxin": 6e9}


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU (`gpu`) or a NIC (`nic`) of a node, by its index."""

    kind: str
    index: int


def shares_inside(node: Node, flows: Sequence[tuple[Place, Place]]) -> list[float]:
    """The rate of each flow in B/s when all run at once; raises `InputError` for what is not there."""
    names: dict[str, int] = {}
    capacity: list[float] = []
    flow_at: list[int] = []
    link_at: list[int] = []
    for number, (source, target) in enumerate(flows):
        for name, Bps in path(node, source, target).items():
            if name not in names:
                names[name] = len(names)
                capacity.append(Bps)
            flow_at.append(number)
            link_at.append(names[name])
    crossings = Crossings(
        flow=np.array(flow_at, dtype=np.int64),
        link=np.array(link_at, dtype=np.int64),
        weight=np.ones(len(flow_at)),
        capacity_Bps=np.array(capacity),
        flows=len(flows),
    )
    return [float(rate) for rate in folded_shares(crossings)]


def gpus_out(node: Node) -> list[float]:
    """The rate of each GPU in B/s when all send at once, each by the NIC that its place in the node gives."""
    if not node.nics:
        return [0.0] * len(node.gpus)
    by = [at * len(node.nics) // len(node.gpus) for at in range(len(node.gpus))]
    return shares_inside(node, [(Place("gpu", at), Place("nic", nic)) for at, nic in enumerate(by)])


def path(node: Node, source: Place, target: Place) -> dict[str, float]:
    """The links that a flow crosses, by name, with their bandwidth in B/s, one direction."""
    if source == target:
        raise InputError(f"a flow from {source.kind} {source.index} to itself")
    ends = [_seat(node, place) for place in (source, target)]
    direct = _direct(node, source, target)
    if direct is not None:
        return direct
    found = {f"{source.kind}{source.index} out": ends[0][0], f"{target.kind}{target.index} in": ends[1][0]}
    ways = [node.switch_path(switch) for _, switch, _ in ends]
    common = set(ways[0]) & set(ways[1])
    for way, direction in zip(ways, ("up", "down"), strict=True):
        for switch in way:
            if switch not in common:
                found[f"switch{switch} {direction}"] = node.switches[switch].uplink.Bps
    sockets = [socket for _, _, socket in ends]
    if sockets[0] != sockets[1]:
        maker = node.sockets[sockets[0]].maker
        found[f"socket{sockets[0]} to socket{sockets[1]}"] = SOCKET_Bps.get(maker, min(SOCKET_Bps.values()))
    return found


def _seat(node: Node, place: Place) -> tuple[float, int | None, int]:
    """Bandwidth of a place's slot (a NIC's rate where that is less), its PCIe switch and its socket."""
    seats = {"gpu": node.gpus, "nic": node.nics}.get(place.kind)
    if seats is None or not 0 <= place.index < len(seats):
        raise InputError(f"node {node.id} has no {place.kind} {place.index}")
    if place.kind == "gpu":
        gpu = node.gpus[place.index]
        return gpu.slot.Bps, gpu.switch, gpu.socket
    nic = node.nics[place.index]
    return min(nic.slot.Bps, nic.rate_Bps), nic.switch, nic.socket


def _direct(node: Node, source: Place, target: Place) -> dict[str, float] | None:
    """NVLink or xGMI between two GPUs, None where there is none."""
    gpu = node.gpu
    if (source.kind, target.kind) != ("gpu", "gpu") or gpu is None or gpu.link_Bps is None:
        return None
    mine, theirs = node.gpus[source.index].links, node.gpus[target.index].links
    if SWITCH in mine and SWITCH in theirs:
        return {
            f"gpu{source.index} links out": mine[SWITCH] * gpu.link_Bps,
            f"gpu{target.index} links in": theirs[SWITCH] * gpu.link_Bps,
        }
    if target.index in mine:
        return {f"gpu{source.index} to gpu{target.index}": mine[target.index] * gpu.link_Bps}
    return None
