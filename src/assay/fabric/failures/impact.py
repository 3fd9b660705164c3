"""Everything that is asked to be wrong with a cluster's fabric, as factors on the time of its traffic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.domain.cluster import Cluster
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.errors import InputError
from assay.fabric.failures.breakage import Failure, gpu_part, parse_failure
from assay.fabric.failures.recovery import Recovery, recovery
from assay.fabric.failures.remaining import PATTERNS, ROUTINGS, Healthy, Remaining
from assay.fabric.loss.goodput import Connection, checked_loss, goodput_frac
from assay.fabric.sizing import size_cluster_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.network import Network
from assay.units import parse

#: What two adapters and the software beside them add to a round trip over switches.
_ENDS_S = 2e-6
#: How each transport repeats a lost packet, unless said otherwise.
_REPEAT = {
    Transport.INFINIBAND: "go-back-n",
    Transport.ROCE: "go-back-n",
    Transport.EFA: "selective",
    Transport.SLINGSHOT: "selective",
    Transport.TCP: "cubic",
    Transport.TCPX: "cubic",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is asked. `routing` None is adaptive where the fabric has it, else tables or hashes; `repeat` None
    is the transport's usual way.
    """

    failures: tuple[Failure, ...] = ()
    loss_frac: float = 0.0
    routing: str | None = None
    repeat: str | None = None
    jitter_s: float = 0.0

    @classmethod
    def of(
        cls,
        *,
        fail: Sequence[str] = (),
        degrade: Sequence[str] = (),
        loss: float = 0.0,
        ecmp: bool = False,
        adaptive: bool | None = None,
        repeat: str | None = None,
        jitter: str = "0 s",
    ) -> Conditions:
        """From the words of a command line; raises `InputError` where they contradict each other."""
        if ecmp and adaptive:
            raise InputError("--ecmp and --adaptive contradict each other", fix="give one of them")
        routing = "ecmp" if ecmp else "adaptive" if adaptive else "static" if adaptive is False else None
        failures = [parse_failure(text) for text in fail]
        failures += [parse_failure(text, degraded=True) for text in degrade]
        return cls(
            failures=tuple(failures),
            loss_frac=checked_loss(loss),
            routing=routing,
            repeat=repeat,
            jitter_s=parse(jitter, unit="s", where="--jitter").value,
        )

    @property
    def any(self) -> bool:
        """Whether anything is asked at all."""
        return bool(self.failures or self.loss_frac or self.jitter_s) or self.routing is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What the conditions do. `slowdown` by pattern is time between nodes over that of the healthy fabric
    with adaptive routing; `goodput_frac` what loss leaves of it; `gpu_part` the speed of the slowest GPU.
    """

    conditions: Conditions
    routing: str
    left: Remaining
    hashing: dict[str, float]
    goodput_frac: float
    connection: Connection
    gpu_part: float
    recovery: Recovery

    @property
    def slowdown(self) -> dict[str, float]:
        """Factor on the time of traffic between nodes; infinite where flows have no way."""
        return {name: self._of(name) for name in PATTERNS}

    def _of(self, pattern: str) -> float:
        part = self.left.pattern_frac[pattern] * self.goodput_frac
        return self.hashing[pattern] / part if part > 0 else float("inf")


def pattern_of(op: str) -> str:
    """The pattern of traffic that a collective is closest to."""
    return "all_to_all" if op == "all_to_all" else "ring"


def slowed_cluster(cluster: Cluster, harm: Impact, op: str) -> Cluster:
    """The cluster whose NICs carry so much less of a collective; raises `InputError` where it never ends."""
    factor = harm.slowdown[pattern_of(op)]
    fabric = cluster.fabric
    if not math.isfinite(factor) or fabric is None:
        raise InputError(
            f"{harm.left.stranded:,} flows have no way left, so that {op} never ends",
            fix="let fewer things fail at once, or look at assay predict fabric --fail …",
        )
    return replace(cluster, fabric=replace(fabric, oversubscription=fabric.oversubscription * factor))


def usual_routing(fabric: Fabric) -> str:
    """Adaptive where the fabric has it; else hashes on Ethernet and tables on InfiniBand."""
    if fabric.adaptive_routing:
        return "adaptive"
    return "static" if fabric.transport is Transport.INFINIBAND else "ecmp"


def network_of(cluster: Cluster) -> Network:
    """A cluster's fabric cable by cable; raises `InputError` where it has none that can be drawn."""
    if cluster.fabric is not None and cluster.fabric.wiring is Wiring.DRAGONFLY:
        raise InputError(
            f"cluster {cluster.id}: what is left of a dragonfly+ is not worked out from its design",
            fix="give it as found with its tables: assay predict fabric --from …",
        )
    by_rail = cluster.fabric is not None and cluster.fabric.wiring is Wiring.RAIL
    return fat_tree(size_cluster_fabric(cluster), by_rail=by_rail, name=cluster.id)


def impact(cluster: Cluster, conditions: Conditions, network: Network | None = None) -> Impact:
    """What conditions do to a cluster's fabric. Raises `InputError` for what does not exist in it."""
    fabric = cluster.fabric
    if fabric is None:
        raise InputError(f"cluster {cluster.id} has no fabric between its nodes", fix="describe [fabric]")
    routing = conditions.routing or usual_routing(fabric)
    if routing not in ROUTINGS:
        raise InputError(f"routing {routing!r}")
    drawn = network or network_of(cluster)
    ideal = Healthy(drawn)
    healthy = ideal if routing == "adaptive" else Healthy(drawn, routing=routing)
    repeat = conditions.repeat or _REPEAT[fabric.transport]
    hops = 2 * (2 * size_cluster_fabric(cluster).tiers - 1)
    connection = Connection(
        repeat=repeat,
        rate_Bps=cluster.node.nics[0].rate_Bps,
        round_trip_s=hops * fabric.hop_latency_s + _ENDS_S,
        packet_bytes=1448 if fabric.transport is Transport.TCP else 4096,
    )
    return Impact(
        conditions=conditions,
        routing=routing,
        left=healthy.after(conditions.failures),
        hashing={name: _over(healthy, ideal, name) for name in PATTERNS},
        goodput_frac=goodput_frac(connection, conditions.loss_frac),
        connection=connection,
        gpu_part=gpu_part(conditions.failures),
        recovery=recovery(conditions.failures, len(drawn.adapters), fabric.transport, routing),
    )


def _over(healthy: Healthy, ideal: Healthy, pattern: str) -> float:
    """How much longer a routing takes than an adaptive one, on the worst plane."""
    return max(
        times[pattern][0] / ideal.seconds[plane][pattern][0] if ideal.seconds[plane][pattern][0] else 1.0
        for plane, times in healthy.seconds.items()
    )
