"""A failure of every class of link and switch of a fabric: one of each, and how many are alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.domain.cluster import Cluster
from assay.fabric.failures.breakage import Failure
from assay.fabric.failures.impact import network_of, usual_routing
from assay.fabric.failures.remaining import Healthy, Remaining
from assay.fabric.topology.network import Network

_CLASS = {(0, 1): "nic – leaf", (1, 2): "leaf – spine", (2, 3): "spine – core"}
_TIER = {1: "leaf switch", 2: "spine switch", 3: "core switch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The failure of one member of a class of `count` alike, and what it leaves."""

    name: str
    count: int
    failure: Failure
    left: Remaining


def sweep_cluster(cluster: Cluster, routing: str | None = None) -> Iterator[Swept]:
    """The sweep of a described cluster's fabric, as it is routed unless said otherwise."""
    fabric = cluster.fabric
    usual = "adaptive" if fabric is None else usual_routing(fabric)
    return sweep(network_of(cluster), routing=routing or usual)


def sweep(network: Network, *, routing: str = "adaptive") -> Iterator[Swept]:
    """What the failure of one cable or switch of each tier leaves; those of a design's tier are alike."""
    healthy = Healthy(network, routing=routing)
    links: dict[tuple[int, int], list[str]] = {}
    for cable in network.cables:
        tiers = sorted((network.devices[end].tier or 0, end) for end in (cable.a, cable.b))
        links.setdefault((tiers[0][0], tiers[1][0]), []).append(f"{cable.a}[{cable.a_port}]")
    classes = [(_CLASS.get(key, str(key)), "link", members) for key, members in sorted(links.items())]
    switches = [(name, [d.name for d in network.switches(tier)]) for tier, name in _TIER.items()]
    classes += [(name, "switch", members) for name, members in switches if members]
    for name, kind, members in classes:
        failure = Failure(kind=kind, what=members[0])
        yield Swept(name=name, count=len(members), failure=failure, left=healthy.after([failure]))
