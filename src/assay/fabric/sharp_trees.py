"""SHARP: trees over the switches that add up on the way, what limits them, and what they gain.

Every switch of a tree adds up what its children send and passes one message on, so that B bytes go up a NIC
once and come down once: B / NIC instead of a ring's 2(n−1)/n · B / NIC, with two passes through the tiers
instead of 2(n−1) steps. Limits, by generation (NVIDIA SHARP documentation): version 2 has one streaming
(large-message) tree through a switch, versions 3 and 4 several, so that jobs that share a spine take turns;
integers of 8 bits and fp8 are not added. NVLS is the same inside a node, in NVSwitches.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.cluster import Cluster
from assay.domain.fabric import Transport
from assay.errors import InputError
from assay.fabric.collective import Options, collective_time
from assay.fabric.failures.impact import network_of
from assay.fabric.placement import Placement
from assay.fabric.topology.network import Network

#: Ports' rate in B/s from which a switch is of a generation → SHARP version and streaming trees in a switch.
_GENERATIONS = ((100e9, 4, 8), (50e9, 3, 8), (25e9, 2, 1))
#: Number formats that switches add up, and those that they do not.
ADDS = ("fp64", "fp32", "fp16", "bf16", "int64", "int32", "int16")
ADDS_NOT = ("fp8", "int8", "fp4")
_SIZES = tuple(float(1 << shift) for shift in range(10, 34, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One tree: its root, the switches by depth, adapters below it."""

    root: str
    switches: int
    depth: int
    adapters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharpTrees:
    """The trees of a fabric, one a rail, and their limits; `gain`: bytes, time without over with SHARP."""

    version: int
    trees: tuple[Tree, ...]
    jobs_at_once: int
    adds_not: tuple[str, ...]
    gain: tuple[tuple[float, float], ...]


def build_trees(network: Network) -> tuple[Tree, ...]:
    """A tree for each rail: from its leaves to the first switch above that reaches all of them.

    Raises `InputError` where no switch does.
    """
    rails: dict[int, set[str]] = {}
    above: dict[str, set[str]] = {}
    for cable in network.cables:
        low, high = sorted((network.devices[cable.a], network.devices[cable.b]), key=lambda d: d.tier or 0)
        if low.is_adapter:
            rails.setdefault(low.rail if low.rail is not None else 0, set()).add(high.name)
        else:
            above.setdefault(low.name, set()).add(high.name)
    adapters = len(network.adapters) // max(len(rails), 1)
    return tuple(_tree(rail, leaves, above, adapters) for rail, leaves in sorted(rails.items()))


def sharp_trees(cluster: Cluster) -> SharpTrees:
    """The trees of a described cluster and the gain of an all-reduce over all of it."""
    fabric = cluster.fabric
    if fabric is None or fabric.transport is not Transport.INFINIBAND:
        raise InputError(
            f"cluster {cluster.id}: SHARP needs InfiniBand switches",
            fix="NVLS, inside the node, is part of assay predict collective",
        )
    rate = cluster.node.nics[0].rate_Bps
    found = next(((version, most) for least, version, most in _GENERATIONS if rate >= least), None)
    if found is None:
        raise InputError(
            f"cluster {cluster.id}: switches of {rate * 8e-9:g} Gbit/s have no SHARP for large messages"
        )
    return SharpTrees(
        version=found[0],
        trees=build_trees(network_of(cluster)),
        jobs_at_once=found[1],
        adds_not=ADDS_NOT,
        gain=_gain(cluster),
    )


def _tree(rail: int, leaves: set[str], above: dict[str, set[str]], adapters: int) -> Tree:
    """Breadth first upwards: at each tier the switches that all of the tier below reach."""
    tier, switches, depth = sorted(leaves), set(leaves), 1
    while len(tier) > 1:
        common = set.intersection(*(above.get(name, set()) for name in tier))
        if common:
            root = min(common)
            return Tree(root=root, switches=len(switches) + 1, depth=depth + 1, adapters=adapters)
        if depth > 8 or not all(above.get(name) for name in tier):
            raise InputError(f"no switch reaches all {len(leaves)} leaves of rail {rail}")
        # One switch above each is enough to go on; the fewest that cover all.
        tier = sorted({min(above[name]) for name in tier})
        switches |= set(tier)
        depth += 1
    return Tree(root=tier[0], switches=len(switches), depth=depth, adapters=adapters)


def _gain(cluster: Cluster) -> tuple[tuple[float, float], ...]:
    placement = Placement.of(len(cluster.node.gpus), cluster.count)
    if cluster.count < 2:
        return ()
    times = [
        collective_time(cluster, "all_reduce", _SIZES, placement, options=Options(sharp=sharp)).time_s
        for sharp in (False, True)
    ]
    return tuple((size, float(plain / added)) for size, plain, added in zip(_SIZES, *times, strict=True))
