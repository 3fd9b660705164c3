"""A cluster as bytes see it: GPUs, NICs and PCIe of one node, how many nodes, and the fabric between them.

A node is flat lists that refer to one another by index: sockets, PCIe switches, GPUs and NICs. From
them follow every distance; `formats.nccl_topo` reads the same lists from an NCCL topology file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.domain.calibration import Calibration
from assay.domain.device import Gpu
from assay.domain.fabric import Fabric
from assay.errors import InputError

#: Bits per lane and second of each PCIe generation, and the fraction left by the line code.
_PCIE_LANE = {1: (2.5e9, 0.8), 2: (5e9, 0.8), 3: (8e9, 128 / 130), 4: (16e9, 128 / 130)}
_PCIE_LANE |= {5: (32e9, 128 / 130), 6: (64e9, 242 / 256)}

#: The peer of a direct link that ends in a switch (NVSwitch) rather than at another GPU.
SWITCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieLink:
    """One PCIe link by generation and lanes."""

    generation: int
    lanes: int = 16

    def __post_init__(self) -> None:
        _require(
            self.generation in _PCIE_LANE,
            f"PCIe generation {self.generation} is unknown; known are 1 to {max(_PCIE_LANE)}",
        )
        _require(1 <= self.lanes <= 32, f"a PCIe link of {self.lanes} lanes; 1 to 32 are possible")

    @property
    def Bps(self) -> float:
        """One direction after line code, before packet headers."""
        rate, code = _PCIE_LANE[self.generation]
        return self.lanes * rate * code / 8

    def __str__(self) -> str:
        return f"PCIe {self.generation} x{self.lanes} ({self.Bps / 1e9:.1f} GB/s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """One CPU (NUMA node): `maker` is intel, amd, arm, power or zhaoxin; family and model where known."""

    maker: str = "intel"
    family: int | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieSwitch:
    """A PCIe switch under a socket, or under another switch (`parent` is its index)."""

    socket: int
    uplink: PcieLink
    parent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeat:
    """A GPU in its slot. `links` maps a peer GPU's index, or SWITCH, to the number of direct links to it.

    `c2c_Bps` is a coherent link to the socket's CPU (NVLink-C2C), None where there is only PCIe.
    """

    compute_capability: int
    socket: int
    slot: PcieLink
    switch: int | None = None
    links: Mapping[int, int] = field(default_factory=dict, hash=False)
    gpudirect: bool = True
    c2c_Bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSeat:
    """A NIC port in its slot: line rate one direction, and the latency that its driver declares.

    Ports of one `card` share its slot; None is a card of its own.
    """

    name: str
    rate_Bps: float
    socket: int
    slot: PcieLink
    switch: int | None = None
    card: int | None = None
    gpudirect: bool = True
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.rate_Bps) and self.rate_Bps > 0, f"NIC {self.name}: rate {self.rate_Bps:g} B/s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `gpu` is its catalogue entry where the model is known."""

    id: str
    sockets: tuple[Socket, ...]
    gpus: tuple[GpuSeat, ...]
    nics: tuple[NicSeat, ...] = ()
    switches: tuple[PcieSwitch, ...] = ()
    gpu: Gpu | None = None

    def __post_init__(self) -> None:
        _require(bool(self.gpus), f"node {self.id} has no GPU")
        kinds: tuple[tuple[str, Sequence[GpuSeat | NicSeat]], ...] = (("GPU", self.gpus), ("NIC", self.nics))
        for kind, seats in kinds:
            for at, seat in enumerate(seats):
                _require(
                    0 <= seat.socket < len(self.sockets),
                    f"node {self.id}: {kind} {at} hangs on socket {seat.socket} of {len(self.sockets)}",
                )
                _require(
                    seat.switch is None or 0 <= seat.switch < len(self.switches),
                    f"node {self.id}: {kind} {at} hangs on PCIe switch {seat.switch} of {len(self.switches)}",
                )
                _require(
                    seat.switch is None or self.switches[seat.switch].socket == seat.socket,
                    f"node {self.id}: {kind} {at} hangs on socket {seat.socket}, its PCIe switch on another",
                )
        self._check_links()

    def _check_links(self) -> None:
        for at, seat in enumerate(self.gpus):
            for peer, count in seat.links.items():
                _require(
                    peer == SWITCH or (0 <= peer < len(self.gpus) and peer != at),
                    f"node {self.id}: GPU {at} is linked to GPU {peer}, which is not another of its GPUs",
                )
                _require(count > 0, f"node {self.id}: GPU {at} has {count} links to {peer}")
                back = self.gpus[peer].links.get(at, 0) if peer != SWITCH else count
                _require(
                    back == count,
                    f"node {self.id}: {count} links from GPU {at} to {peer}, but {back} come back",
                )

    @property
    def compute_capability(self) -> int:
        """Of the oldest GPU, as collectives follow the weakest."""
        return min(seat.compute_capability for seat in self.gpus)

    @property
    def has_link_switch(self) -> bool:
        """Whether the GPUs' direct links meet in a switch (NVSwitch)."""
        return any(SWITCH in seat.links for seat in self.gpus)

    def switch_path(self, switch: int | None) -> tuple[int, ...]:
        """The PCIe switches from `switch` up to its socket."""
        path: list[int] = []
        while switch is not None and len(path) <= len(self.switches):
            path.append(switch)
            switch = self.switches[switch].parent
        return tuple(path)

    @property
    def nic_Bps(self) -> float:
        """All NIC ports together, one direction."""
        return sum(nic.rate_Bps for nic in self.nics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`count` equal nodes on one fabric.

    `domain_nodes` nodes share one NVLink domain (18 for an NVL72 of four-GPU trays; 1 elsewhere).
    `calibration` is what was measured on it, None where all numbers are the datasheets'.
    """

    id: str
    name: str
    node: Node
    count: int
    fabric: Fabric | None = None
    domain_nodes: int = 1
    source: str = ""
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        _require(self.count >= 1, f"cluster {self.id}: {self.count} nodes")
        _require(self.domain_nodes >= 1, f"cluster {self.id}: an NVLink domain of {self.domain_nodes} nodes")
        check_possible(self.node)
        if self.count > self.domain_nodes:
            _require(
                self.fabric is not None and bool(self.node.nics),
                f"cluster {self.id}: {self.count} nodes need NICs and a fabric between them",
            )

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.count * len(self.node.gpus)

    def of(self, nodes: int) -> Cluster:
        """The same system with another number of nodes."""
        return replace(self, count=nodes)


def check_possible(node: Node) -> None:
    """Refuse hardware that cannot be: a NIC port faster than the PCIe slot that feeds it."""
    for nic in node.nics:
        if nic.rate_Bps > nic.slot.Bps:
            raise InputError(
                f"node {node.id}: NIC {nic.name} of {nic.rate_Bps * 8e-9:.0f} Gbit/s moves "
                f"{nic.rate_Bps / 1e9:.1f} GB/s, but its slot {nic.slot} is slower",
                fix="correct the NIC's rate or the slot's generation and lanes",
            )


def _require(true: bool, what: str) -> None:
    if not true:
        raise InputError(what)
