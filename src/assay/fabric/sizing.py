"""How many switches and cables a fat tree of switches needs for a number of nodes.

Closed formulas that reproduce the printed component counts of NVIDIA's DGX SuperPOD reference
architectures (H100 NDR, B200 NDR, B300 XDR, B300 Spectrum-X; pages "network fabrics"). With a radix r and
d = r/2 ports down: leaves = rails × ⌈nodes/d⌉, two tiers while ports ≤ r²/2; spines the smallest divisor of
the ports up that is large enough, so that every leaf has equal bundles to every spine; in three tiers pods
of one leaf a rail, with as many spines as carry their ports up. Planes are equal fabrics beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.cluster import Cluster
from assay.domain.fabric import Wiring
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSize:
    """Switches by tier and cables by level, all planes together.

    `rails` and `port_Bps` are those of one plane; `bisection_Bps` is one direction across the middle. A
    dragonfly+ has `groups` of leaves and spines, and `global_cables` between the spines of different groups.
    """

    nodes: int
    rails: int
    radix: int
    tiers: int
    leaf: int
    spine: int
    core: int
    node_leaf_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    manager_leaf_cables: int = 0
    oversubscription: float
    port_Bps: float
    planes: int = 1
    ports_per_cable: int = 1
    groups: int = 1
    global_cables: int = 0

    @property
    def ports_down(self) -> int:
        """Ports of a leaf towards the nodes."""
        return _ports_down(self.radix, self.oversubscription)

    @property
    def ports_up(self) -> int:
        """Ports of a leaf towards the spines."""
        return _ports_up(self.radix, self.oversubscription) if self.tiers > 1 else 0

    @property
    def pod_leaves(self) -> int:
        """Leaves of one pod of one plane; without a core all leaves are one pod."""
        leaf = self.leaf // self.planes
        if self.groups > 1:
            return leaf // self.groups
        return _pod_leaves(leaf, self.rails, self.radix) if self.tiers > 2 else leaf

    @property
    def switches(self) -> int:
        """All switches."""
        return self.leaf + self.spine + self.core

    @property
    def cables(self) -> int:
        """All cables, those to the managing machines among them."""
        levels = self.node_leaf_cables + self.leaf_spine_cables + self.spine_core_cables
        return levels + self.global_cables + self.manager_leaf_cables

    @property
    def transceivers(self) -> int:
        """Twin-port transceivers: two ports share a cage, so that there is one for each cable.

        Where a cable carries two ports itself, it ends in one transceiver on each side.
        """
        return self.cables * (2 if self.ports_per_cable > 1 else 1)

    @property
    def bisection_Bps(self) -> float:
        """Bandwidth from one half of the NICs to the other, one direction."""
        nics = self.nodes * self.rails * self.planes * self.port_Bps / 2 / self.oversubscription
        if self.groups == 1:
            return nics
        half = self.groups // 2
        pairs = self.groups * (self.groups - 1) // 2
        return min(nics, self.global_cables / pairs * half * (self.groups - half) * self.port_Bps)

    @property
    def most_hops(self) -> int:
        """Switches on the longest shortest path."""
        return 4 if self.groups > 1 else 2 * self.tiers - 1

    @property
    def oversubscription_by_tier(self) -> dict[str, float]:
        """Ports down over ports up of each tier that has ports up."""
        found = {"leaf": self.ports_down / self.ports_up} if self.tiers > 1 else {}
        return found | ({"spine": 1.0} if self.tiers > 2 else {})


def size_fabric(
    nodes: int,
    *,
    rails: int = 8,
    radix: int = 64,
    oversubscription: float = 1.0,
    port_Bps: float = 50e9,
    planes: int = 1,
    ports_per_cable: int = 1,
    manager_ports: int = 0,
    by_rail: bool = True,
) -> FabricSize:
    """The fabric for `nodes` nodes of `rails` NIC ports each in every plane, on switches of `radix` ports.

    `oversubscription` is ports down over ports up of a leaf. Without `by_rail` a leaf takes all ports of its
    nodes, else one rail of them. Raises `InputError` for what cannot be built.
    """
    _check(nodes, rails, radix, oversubscription, planes)
    down = _ports_down(radix, oversubscription)
    up = _ports_up(radix, oversubscription)
    ports = nodes * rails
    leaf = rails * -(-nodes // down) if by_rail else -(-ports // down)
    spine = core = 0
    if _fits_one_switch(nodes, rails, radix, by_rail):
        tiers, leaf = 1, 1
    elif ports <= down * radix and leaf <= radix:
        tiers = 2
        # Every spine takes an equal bundle from each leaf, so the spines divide a leaf's ports up.
        wanted = leaf * up / radix
        spine = next(s for s in range(1, up + 1) if up % s == 0 and s >= wanted)
    else:
        tiers, half = 3, radix // 2
        if ports > down * half * radix:
            raise InputError(
                f"{ports} ports need a fourth tier: three tiers of {radix}-port switches end at "
                f"{down} × {half} × {radix} = {down * half * radix}",
                fix="use switches of more ports, or fewer NICs a node",
            )
        pod = _pod_leaves(leaf, rails, radix)
        spine = -(-leaf // pod) * -(-pod * up // half)
        core = -(-spine * half // radix)
    # Leaves are cabled up whole, whether or not all their ports down are in use.
    wires = (
        nodes * rails,
        leaf * up if tiers > 1 else 0,
        spine * (radix // 2) if tiers > 2 else 0,
        min(manager_ports, leaf * (down if tiers > 1 else radix) - ports),
    )
    cables = [-(-count * planes // ports_per_cable) for count in wires]
    return FabricSize(
        nodes=nodes,
        rails=rails,
        radix=radix,
        tiers=tiers,
        leaf=leaf * planes,
        spine=spine * planes,
        core=core * planes,
        node_leaf_cables=cables[0],
        leaf_spine_cables=cables[1],
        spine_core_cables=cables[2],
        manager_leaf_cables=cables[3],
        oversubscription=oversubscription,
        port_Bps=port_Bps,
        planes=planes,
        ports_per_cable=ports_per_cable,
    )


def size_dragonfly(nodes: int, *, rails: int = 8, radix: int = 64, port_Bps: float = 50e9) -> FabricSize:
    """A dragonfly+: groups of r/2 leaves and r/2 spines, all joined; the groups' spines joined to each other.

    Between any two groups there are ⌊(r/2)²/(groups − 1)⌋ cables; at most (r/2)² + 1 groups. Source: Shpiner
    et al., Dragonfly+: low cost topology for scaling datacenters, HiPINEB 2017.
    """
    _check(nodes, rails, radix, 1.0, 1)
    half = radix // 2
    groups = -(-nodes * rails // half**2)
    if groups < 2:
        return size_fabric(nodes, rails=rails, radix=radix, port_Bps=port_Bps, by_rail=False)
    if groups > half**2 + 1:
        raise InputError(
            f"{nodes * rails} ports need {groups} groups, but {radix}-port switches join {half**2 + 1}",
            fix="use switches of more ports",
        )
    return FabricSize(
        nodes=nodes,
        rails=rails,
        radix=radix,
        tiers=2,
        leaf=groups * half,
        spine=groups * half,
        core=0,
        node_leaf_cables=nodes * rails,
        leaf_spine_cables=groups * half**2,
        spine_core_cables=0,
        oversubscription=1.0,
        port_Bps=port_Bps,
        groups=groups,
        global_cables=groups * (groups - 1) // 2 * (half**2 // (groups - 1)),
    )


def size_cluster_fabric(cluster: Cluster) -> FabricSize:
    """The fabric of a described cluster; raises `InputError` where it has none that can be drawn."""
    fabric, nics = cluster.fabric, cluster.node.nics
    if fabric is None or not nics:
        raise InputError(f"cluster {cluster.id} has no fabric between its nodes", fix="describe [fabric]")
    if fabric.wiring is Wiring.OPAQUE:
        raise InputError(
            f"cluster {cluster.id}: nobody says how its network is wired (wiring: {fabric.wiring.value})",
            fix="give the cabling as found (--from), or a cluster file with a wiring",
        )
    if fabric.wiring is Wiring.SINGLE and cluster.count * len(nics) > fabric.radix:
        raise InputError(
            f"cluster {cluster.id}: {cluster.count} nodes × {len(nics)} NIC ports do not fit on one switch "
            f"of {fabric.radix} ports",
            fix="write wiring: fat-tree",
        )
    if fabric.wiring is Wiring.DRAGONFLY:
        return size_dragonfly(cluster.count, rails=len(nics), radix=fabric.radix, port_Bps=nics[0].rate_Bps)
    return size_fabric(
        cluster.count,
        rails=len(nics),
        radix=fabric.radix,
        oversubscription=fabric.oversubscription,
        port_Bps=nics[0].rate_Bps / fabric.planes,
        planes=fabric.planes,
        ports_per_cable=fabric.ports_per_cable,
        manager_ports=fabric.manager_ports,
        by_rail=fabric.wiring is Wiring.RAIL,
    )


def _fits_one_switch(nodes: int, rails: int, radix: int, by_rail: bool) -> bool:
    """A single switch serves a few nodes; rail-optimised nodes keep their leaves, as they are to grow."""
    return nodes * rails <= radix and (rails == 1 or not by_rail)


def _ports_up(radix: int, oversubscription: float) -> int:
    """Ports of a leaf towards the spines."""
    return max(1, int(radix / (1 + oversubscription) + 1e-9))


def _ports_down(radix: int, oversubscription: float) -> int:
    """Ports of a leaf towards the nodes; down and up together are no more than the switch has."""
    return int(_ports_up(radix, oversubscription) * oversubscription + 1e-9)


def _pod_leaves(leaf: int, rails: int, radix: int) -> int:
    """Leaves of one pod of three tiers: whole blocks of rails, and no more pods than a core has ports."""
    return min(leaf, rails * -(-leaf // (rails * radix)))


def _check(nodes: int, rails: int, radix: int, oversubscription: float, planes: int) -> None:
    if nodes < 1 or rails < 1 or planes < 1:
        raise InputError(f"{nodes} nodes of {rails} NIC ports in {planes} planes make no fabric")
    if radix < 4 or radix % 2:
        raise InputError(
            f"a switch of {radix} ports has no equal halves up and down", fix="use an even radix of 4 or more"
        )
    if not 1 <= oversubscription <= radix - 1:
        raise InputError(
            f"oversubscription {oversubscription:g}:1 is not between 1:1 and {radix - 1}:1",
            fix="write 1 for a non-blocking fabric",
        )
