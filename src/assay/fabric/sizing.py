"""How many switches and cables a fat tree of switches needs for a number of nodes.

Closed formulas that reproduce the printed component counts of NVIDIA's DGX SuperPOD reference
architectures (H100 NDR, B200 NDR, B300 XDR; pages "network fabrics"). With a radix r and d = r/2 ports down:
leaves = rails × ⌈nodes/d⌉, two tiers while ports ≤ r²/2; spines the smallest divisor of the ports up that is
large enough, so that every leaf has equal bundles to every spine; in three tiers as many spines as leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSize:
    """Switches by tier and cables by level; `bisection_Bps` is one direction across the middle."""

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
    oversubscription: float
    port_Bps: float

    @property
    def switches(self) -> int:
        """All switches."""
        return self.leaf + self.spine + self.core

    @property
    def cables(self) -> int:
        """All cables."""
        return self.node_leaf_cables + self.leaf_spine_cables + self.spine_core_cables

    @property
    def transceivers(self) -> int:
        """Twin-port transceivers: two ports share a cage, so that there is one for each cable."""
        return self.cables

    @property
    def bisection_Bps(self) -> float:
        """Bandwidth from one half of the NICs to the other, one direction."""
        return self.nodes * self.rails * self.port_Bps / 2 / self.oversubscription

    @property
    def most_hops(self) -> int:
        """Switches on the longest shortest path."""
        return 2 * self.tiers - 1


def size_fabric(
    nodes: int, *, rails: int = 8, radix: int = 64, oversubscription: float = 1.0, port_Bps: float = 50e9
) -> FabricSize:
    """The fabric for `nodes` nodes of `rails` NIC ports each, on switches of `radix` ports.

    `oversubscription` is ports down over ports up of a leaf. Raises `InputError` for what cannot be built.
    """
    _check(nodes, rails, radix, oversubscription)
    down = _ports_down(radix, oversubscription)
    up = round(down / oversubscription)
    ports = nodes * rails
    leaf = rails * -(-nodes // down)
    if nodes * rails <= down * 2 and rails == 1 and nodes <= radix:
        return _made(nodes, rails, radix, oversubscription, port_Bps, tiers=1, leaf=1)
    if ports <= down * radix:
        # Every spine takes an equal bundle from each leaf, so the spines divide a leaf's ports up.
        wanted = leaf * up / radix
        spine = next(s for s in range(1, up + 1) if up % s == 0 and s >= wanted)
        return _made(nodes, rails, radix, oversubscription, port_Bps, tiers=2, leaf=leaf, spine=spine)
    if ports > down * (radix // 2) * radix:
        raise InputError(
            f"{ports} ports need a fourth tier: three tiers of {radix}-port switches end at "
            f"{down} × {radix // 2} × {radix} = {down * (radix // 2) * radix}",
            fix="use switches of more ports, or fewer NICs a node",
        )
    spine = -(-leaf * up // (radix // 2))
    core = -(-spine * (radix // 2) // radix)
    return _made(nodes, rails, radix, oversubscription, port_Bps, tiers=3, leaf=leaf, spine=spine, core=core)


def _ports_down(radix: int, oversubscription: float) -> int:
    """Ports of a leaf towards the nodes."""
    return round(radix * oversubscription / (1 + oversubscription))


def _made(
    nodes: int,
    rails: int,
    radix: int,
    oversubscription: float,
    port_Bps: float,
    *,
    tiers: int,
    leaf: int,
    spine: int = 0,
    core: int = 0,
) -> FabricSize:
    # Bundles are equal and leaves are cabled up whole, whether or not all their ports down are in use.
    up = round(_ports_down(radix, oversubscription) / oversubscription)
    return FabricSize(
        nodes=nodes,
        rails=rails,
        radix=radix,
        tiers=tiers,
        leaf=leaf,
        spine=spine,
        core=core,
        node_leaf_cables=nodes * rails,
        leaf_spine_cables=leaf * up if tiers > 1 else 0,
        spine_core_cables=spine * (radix // 2) if tiers > 2 else 0,
        oversubscription=oversubscription,
        port_Bps=port_Bps,
    )


def _check(nodes: int, rails: int, radix: int, oversubscription: float) -> None:
    if nodes < 1 or rails < 1:
        raise InputError(f"{nodes} nodes of {rails} NIC ports make no fabric")
    if radix < 4 or radix % 2:
        raise InputError(
            f"a switch of {radix} ports has no equal halves up and down", fix="use an even radix of 4 or more"
        )
    if oversubscription < 1:
        raise InputError(
            f"oversubscription {oversubscription:g}:1 is below 1:1", fix="write 1 for a non-blocking fabric"
        )
