"""The network between nodes: what kind it is, how it is wired, and what one hop of it costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from assay.errors import InputError


class Transport(Enum):
    """What carries bytes between nodes."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"
    SLINGSHOT = "slingshot"
    TCP = "tcp"
    TCPX = "tcpx"

    @property
    def has_rdma(self) -> bool:
        """Whether the NIC itself moves the bytes (RDMA), so that the GPU's memory may be its target."""
        return self is not Transport.TCP


class Wiring(Enum):
    """How nodes hang on the switches."""

    RAIL = "rail-optimised"
    FAT_TREE = "fat-tree"
    SINGLE = "single-switch"
    DRAGONFLY = "dragonfly+"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The compute fabric of a cluster.

    `radix` is the ports of a switch at the NICs' rate, `oversubscription` the ports down over the ports up
    of a leaf, `hop_latency_s` one switch and its cable. An opaque network (a cloud's) is given by what was
    measured on it: `latency_s` of a small message between two nodes, `node_Bps` in one direction of a node.
    `planes` are separate, equal fabrics that share each NIC's rate; a cable carries `ports_per_cable` ports.
    `manager_ports` leaf ports belong to the machines that manage the fabric.
    """

    id: str
    transport: Transport
    wiring: Wiring
    radix: int = 64
    oversubscription: float = 1.0
    hop_latency_s: float = 0.3e-6
    adaptive_routing: bool = False
    sharp: bool = False
    planes: int = 1
    ports_per_cable: int = 1
    manager_ports: int = 0
    latency_s: float | None = None
    node_Bps: float | None = None

    def __post_init__(self) -> None:
        _require(self.radix >= 2, f"fabric {self.id}: a switch of {self.radix} ports joins nothing")
        _require(
            math.isfinite(self.oversubscription) and self.oversubscription >= 1,
            f"fabric {self.id}: oversubscription {self.oversubscription:g}:1 is below 1:1",
        )
        _require(
            self.planes >= 1 and self.ports_per_cable >= 1 and self.manager_ports >= 0,
            f"fabric {self.id}: {self.planes} planes, {self.ports_per_cable} ports a cable, "
            f"{self.manager_ports} manager ports",
        )
        _require(
            self.hop_latency_s >= 0, f"fabric {self.id}: hop latency {self.hop_latency_s:g} s is negative"
        )
        for name, value in (("latency_s", self.latency_s), ("node_Bps", self.node_Bps)):
            _require(value is None or value > 0, f"fabric {self.id}: {name} = {value} is not positive")
        _require(
            self.wiring is not Wiring.OPAQUE or self.node_Bps is not None,
            f"fabric {self.id}: an opaque network needs its measured node_Bps",
        )
        _require(
            not self.sharp or self.transport is Transport.INFINIBAND,
            f"fabric {self.id}: SHARP needs InfiniBand switches, not {self.transport.value}",
        )


def _require(true: bool, what: str) -> None:
    if not true:
        raise InputError(what)
