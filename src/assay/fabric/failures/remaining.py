"""What is left of a fabric's bandwidth after a failure, by pattern of traffic and kind of routing.

A collective waits for its slowest link, so that what is left is the time of a byte on the fullest link
before, over that after. A node that lost some of its NICs sends by those that it has left (NCCL makes as
many channels as the poorest node can): so many of its rails. A node that lost all is out of the pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import unknown_name
from assay.fabric.failures.breakage import Failure, broken, lost_nodes
from assay.fabric.routes.hashing import collisions
from assay.fabric.routes.minimal import d_mod_k
from assay.fabric.routes.patterns import Flows, flows
from assay.fabric.routes.spread import Paths, spread
from assay.fabric.topology.network import Network
from assay.fabric.topology.tiers import Tiers

#: How traffic is routed: a table of whole destinations, hashes of flows, or adaptively.
ROUTINGS = ("static", "ecmp", "adaptive")
#: Tables of larger fabrics are not made; whole destinations are then dealt over the cables of a bundle.
MOST_TABLED = 2048
ECMP_SEEDS = 50
PATTERNS = ("ring", "tree", "all_to_all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Parts of the healthy bandwidth that are left. `pattern_frac` is by pattern; `rails_frac` what the
    poorest node has left of its NICs; `stranded` flows have no way at all.
    """

    pattern_frac: dict[str, float]
    bisection_frac: float
    rails_frac: float
    stranded: int
    out: tuple[str, ...]


def remaining(
    network: Network,
    failures: Sequence[Failure],
    *,
    routing: str = "adaptive",
    nodes: Sequence[str] | None = None,
) -> Remaining:
    """What failures leave of a network, over all nodes or those of a job in their order."""
    return Healthy(network, routing=routing, nodes=nodes).after(failures)


class Healthy:
    """A network before anything fails: worked out once, so that many failures can be held against it."""

    def __init__(
        self, network: Network, *, routing: str = "adaptive", nodes: Sequence[str] | None = None
    ) -> None:
        if routing not in ROUTINGS:
            raise unknown_name("routing", routing, ROUTINGS)
        self.network, self.routing = network, routing
        self.planes = {plane: Tiers.of(network, plane) for plane in {d.plane for d in network.switches()}}
        self.nodes = list(nodes or dict.fromkeys(device.node for device in network.adapters))
        first = next(iter(self.planes.values()))
        self.flows = {pattern: flows(pattern, first.adapters, self.nodes) for pattern in PATTERNS}
        self.seconds = {
            plane: self._times(network, tiers, self.flows) for plane, tiers in self.planes.items()
        }

    def after(self, failures: Sequence[Failure]) -> Remaining:
        """What the failures leave. Planes carry equal parts, and a collective waits for the slowest."""
        network = broken(self.network, failures)
        out = lost_nodes(self.network, failures)
        found = [self._plane(plane, network, out) for plane in self.planes]
        return Remaining(
            pattern_frac={name: min(one.pattern_frac[name] for one in found) for name in PATTERNS},
            bisection_frac=float(np.mean([one.bisection_frac for one in found])),
            rails_frac=min(one.rails_frac for one in found),
            stranded=max(one.stranded for one in found),
            out=found[0].out,
        )

    def _plane(self, plane: int, network: Network, lost: Sequence[str]) -> Remaining:
        before, tiers = self.planes[plane], Tiers.of(network, plane)
        out = sorted({*lost, *_silent(tiers)} & set(self.nodes))
        rails_frac = _rails_frac(before, tiers, out)
        wanted, healthy = self.flows, self.seconds[plane]
        if out:
            members = [name for name in self.nodes if name not in out]
            wanted = {pattern: flows(pattern, before.adapters, members) for pattern in PATTERNS}
            healthy = self._times(self.network, before, wanted)
        # Flows of an adapter that is gone travel by the node's others: that is what rails_frac counts.
        kept = {pattern: one.among(tiers.leaf_of >= 0) for pattern, one in wanted.items()}
        now = self._times(network, tiers, kept)
        return Remaining(
            pattern_frac={
                name: min(rails_frac, 0.0 if now[name][1] else _part(healthy[name][0], now[name][0]))
                for name in PATTERNS
            },
            bisection_frac=_bisection(tiers) / max(_bisection(before), 1.0),
            rails_frac=rails_frac,
            stranded=max(lost_flows for _, lost_flows in now.values()),
            out=tuple(out),
        )

    def _times(
        self, network: Network, tiers: Tiers, wanted: Mapping[str, Flows]
    ) -> dict[str, tuple[float, int]]:
        """For each pattern seconds of a byte of every flow on the fullest link, and flows without a way."""
        if self.routing == "static" and len(network.adapters) <= MOST_TABLED:
            tables, rates = d_mod_k(network), np.repeat([cable.Bps for cable in network.cables], 2)
            loads = {name: tables.loads(one) for name, one in wanted.items()}
            return {
                name: (float((load / rates).max(initial=0.0)), lost) for name, (load, lost) in loads.items()
            }
        paths = Paths.of(tiers)
        return {name: self._spread_time(tiers, one, paths) for name, one in wanted.items()}

    def _spread_time(self, tiers: Tiers, wanted: Flows, paths: Paths) -> tuple[float, int]:
        load = spread(tiers, wanted, paths)
        worst, _ = load.worst(tiers)
        if self.routing == "static":
            for carried in (load.up, load.down):
                worst = max(worst, _dealt(carried, tiers.up, tiers.up_count))
        if self.routing == "ecmp" and wanted.pattern != "all_to_all":
            nic_s = float(load.seconds_per_byte(tiers)["nic"].max(initial=0.0))
            worst = max(worst, nic_s * collisions(tiers, wanted, ECMP_SEEDS).expected)
        return worst, round(load.stranded)


def _part(before_s: float, after_s: float) -> float:
    return min(1.0, before_s / after_s) if after_s else 1.0


def _dealt(load: NDArray[np.float64], Bps: NDArray[np.float64], count: NDArray[np.int64]) -> float:
    """Seconds of the fullest cable when whole flows are dealt over the cables of a bundle."""
    each = np.ceil(np.divide(load, count, out=np.zeros_like(load), where=count > 0) - 1e-9)
    rate = np.divide(Bps, count, out=np.ones_like(Bps), where=count > 0)
    return float((each / rate).max(initial=0.0))


def _nodes(tiers: Tiers) -> list[str]:
    return list(dict.fromkeys(device.node for device in tiers.adapters))


def _silent(tiers: Tiers) -> set[str]:
    """Nodes none of whose adapters has a cable."""
    plugged = {d.node for d, leaf in zip(tiers.adapters, tiers.leaf_of, strict=True) if leaf >= 0}
    return {device.node for device in tiers.adapters} - plugged


def _rails_frac(before: Tiers, after: Tiers, out: Sequence[str]) -> float:
    """What the poorest node that takes part has left of its NICs' bandwidth."""
    place = {name: at for at, name in enumerate(_nodes(before))}
    of = np.array([place[device.node] for device in before.adapters])
    had = np.bincount(of, weights=before.nic_Bps)
    has = np.bincount(of, weights=after.nic_Bps)
    kept = [at for name, at in place.items() if name not in out]
    return float((has[kept] / had[kept]).min()) if kept else 0.0


def _bisection(tiers: Tiers) -> float:
    """B/s between two halves: the narrowest level, halved."""
    levels = [float(tiers.nic_Bps.sum())]
    levels += [float(bundle.sum()) for bundle in (tiers.up, tiers.top) if bundle.size]
    return min(levels) / 2
