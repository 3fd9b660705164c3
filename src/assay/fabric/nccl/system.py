"""A node as NCCL's topology code sees it: devices, links with NCCL's bandwidths, the best path of each pair.

Source: NCCL src/graph/topo.{h,cc} and paths.cc. Bandwidths are whole MB/s (NCCL rounds to 0.001 GB/s).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from assay.domain.cluster import SWITCH, Node, PcieLink, Socket

MBps = int


class PathType(IntEnum):
    """How far two devices are, best to worst; the names are NCCL's."""

    LOC = 0
    NVL = 1
    NVB = 2
    C2C = 3
    PIX = 4
    PXB = 5
    P2C = 6
    PXN = 7
    PHB = 8
    SYS = 9
    NET = 10
    DIS = 11


#: Bandwidth of one NVLink by compute capability, MB/s (2.27 … 2.30).
_NVLINK = ((100, 40_100), (90, 20_600), (87, 20_000), (86, 12_000), (80, 20_000), (70, 20_000), (60, 18_000))

#: Gen1 … Gen6, MB/s of one lane: half of the line rate in GT/s tells what NCCL expects to get.
_PCIE_LANE = {1: 187.5, 2: 375.0, 3: 750.0, 4: 1500.0, 5: 3000.0, 6: 6000.0}

LOCAL: MBps = 5_000_000

#: Between sockets, MB/s.
_INTEL = ((0xCF, 40_000), (0x8F, 22_000), (0x55, 10_000), (0, 6_000))
_SOCKET_LINK = {"amd": 16_000, "arm": 6_000, "power": 32_000, "zhaoxin": 6_000}

Key = tuple[str, int]


@dataclass(slots=True)
class _Link:
    """One directed link."""

    id: int
    kind: PathType
    start: Key
    end: Key
    bw: MBps


@dataclass(frozen=True, slots=True)
class Path:
    """The best way from one device to another: its directed links in order, slowest link, and distance."""

    links: tuple[int, ...]
    bw: MBps
    type: PathType

    @property
    def hops(self) -> int:
        """Number of links."""
        return len(self.links)


@dataclass(slots=True)
class System:
    """Devices, capacities and paths of one node, restricted to the GPUs of a group."""

    node: Node
    gpus: tuple[int, ...]
    inter: bool
    version: tuple[int, int]
    links: list[_Link] = field(default_factory=list)
    out: dict[Key, list[_Link]] = field(default_factory=lambda: defaultdict(list))
    paths: dict[tuple[Key, Key], Path] = field(default_factory=dict)

    @property
    def capability(self) -> int:
        """Compute capability of the oldest GPU in the group."""
        return min(self.node.gpus[g].compute_capability for g in self.gpus)

    @property
    def nics(self) -> range:
        """NIC ports, none where the group stays in the node."""
        return range(len(self.node.nics)) if self.inter else range(0)

    @property
    def has_nvswitch(self) -> bool:
        """Whether the GPUs meet in an NVSwitch."""
        return ("NVS", 0) in self.out

    def gpu_path(self, a: int, b: int) -> Path:
        """From the a-th to the b-th GPU of the group."""
        return self.paths[("GPU", a), ("GPU", b)]

    def to_nic(self, gpu: int, nic: int) -> Path:
        """From a GPU of the group to a NIC port."""
        return self.paths[("GPU", gpu), ("NET", nic)]

    def from_nic(self, nic: int, gpu: int) -> Path:
        """From a NIC port to a GPU of the group."""
        return self.paths[("NET", nic), ("GPU", gpu)]


def nic_MBps(rate_Bps: float) -> MBps:
    """A NIC's line rate as NCCL counts it."""
    return round(rate_Bps / 1e6)


def build_system(node: Node, gpus: Sequence[int], *, inter: bool, version: tuple[int, int]) -> System:
    """Devices, links and paths of `node` for a group on `gpus`; with `inter` it reaches other nodes."""
    system = System(node=node, gpus=tuple(gpus), inter=inter, version=version)
    _connect(system)
    _all_paths(system)
    _divert_peers(system)
    if inter:
        _relate_nics(system)
    return system


def _connect(system: System) -> None:
    node = system.node
    for at, switch in enumerate(node.switches):
        parent = ("CPU", switch.socket) if switch.parent is None else ("PCI", switch.parent)
        _pci(system, ("PCI", at), parent, switch.uplink)
    for at, gpu in enumerate(system.gpus):
        seat = node.gpus[gpu]
        _pci(system, ("GPU", at), _parent(seat.switch, seat.socket), seat.slot)
    if system.inter:
        cards: set[int] = set()
        for at, nic in enumerate(node.nics):
            card = at if nic.card is None else nic.card
            if card not in cards:
                cards.add(card)
                _pci(system, ("NIC", card), _parent(nic.switch, nic.socket), nic.slot)
            _both(system, ("NIC", card), ("NET", at), PathType.NET, nic_MBps(nic.rate_Bps))
    _connect_gpus(system)
    for one, socket in enumerate(node.sockets):
        for other in range(len(node.sockets)):
            if one != other:
                _add(system, ("CPU", one), ("CPU", other), PathType.SYS, _between_sockets(socket))
    for start, links in system.out.items():
        # Towards the devices first, up last: NCCL walks links in this order and keeps the first of equals.
        links.sort(key=functools.partial(_walking_order, start))


def _walking_order(start: Key, link: _Link) -> tuple[bool, bool, MBps]:
    return link.kind is not PathType.NVL, _is_up(start, link.end), -link.bw


def _connect_gpus(system: System) -> None:
    place = {gpu: at for at, gpu in enumerate(system.gpus)}
    for at, gpu in enumerate(system.gpus):
        seat = system.node.gpus[gpu]
        one = next((bw for cc, bw in _NVLINK if seat.compute_capability >= cc), 18_000)
        for peer, count in seat.links.items():
            if peer == SWITCH:
                _both(system, ("GPU", at), ("NVS", 0), PathType.NVL, count * one)
            elif peer in place:
                _add(system, ("GPU", at), ("GPU", place[peer]), PathType.NVL, count * one)
        if seat.c2c_Bps:
            _both(system, ("GPU", at), ("CPU", seat.socket), PathType.C2C, round(seat.c2c_Bps / 1e6))


def _parent(switch: int | None, socket: int) -> Key:
    return ("CPU", socket) if switch is None else ("PCI", switch)


def _is_up(start: Key, end: Key) -> bool:
    return (
        start[0] != "CPU"
        and end[0] in ("CPU", "PCI")
        and not (start[0] == "PCI" and end[0] == "PCI" and end[1] > start[1])
    )


def _pci(system: System, child: Key, parent: Key, link: PcieLink) -> None:
    _both(system, child, parent, PathType.PIX, round(link.lanes * _PCIE_LANE[link.generation]))


def _both(system: System, a: Key, b: Key, kind: PathType, bw: MBps) -> None:
    _add(system, a, b, kind, bw)
    _add(system, b, a, kind, bw)


def _add(system: System, start: Key, end: Key, kind: PathType, bw: MBps) -> None:
    link = _Link(id=len(system.links), kind=kind, start=start, end=end, bw=bw)
    system.links.append(link)
    system.out[start].append(link)


def _between_sockets(socket: Socket) -> MBps:
    if socket.maker == "intel":
        known = socket.model if socket.family == 6 and socket.model is not None else 0
        return next(bw for model, bw in _INTEL if known >= model)
    return _SOCKET_LINK.get(socket.maker, LOCAL)


def _all_paths(system: System) -> None:
    bases = [("CPU", at) for at in range(len(system.node.sockets))]
    bases += [("GPU", at) for at in range(len(system.gpus))]
    bases += [("NET", at) for at in system.nics]
    if system.has_nvswitch:
        bases.append(("NVS", 0))
    for base in bases:
        _paths_to(system, base)


def _paths_to(system: System, base: Key) -> None:
    """Breadth-first from `base`; each device keeps its way back.

    From 2.30 the nearer type wins, then the wider, then the shorter way; before, the shortest, and the
    wider of those found in one round.
    """
    found: dict[Key, Path] = {base: Path((), LOCAL, PathType.LOC)}
    front = [base]
    while front:
        following: list[Key] = []
        for here in front:
            path = found[here]
            for link in system.out[here]:
                relayed = here != base and here[0] == "GPU"
                if relayed and (link.kind is not PathType.NVL or link.end[0] != "GPU" or path.hops > 1):
                    continue
                kind = _path_type(here, link, path, relayed=relayed)
                bw = min(path.bw, link.bw)
                known = found.get(link.end)
                if known is None or _wins(system, (kind, bw, path.hops + 1), known):
                    back = next(b for b in system.out[link.end] if b.end == here and b.kind is link.kind)
                    found[link.end] = Path((back.id, *path.links), bw, kind)
                    if link.end not in following:
                        following.append(link.end)
        front = following
    for start, path in found.items():
        system.paths[start, base] = path


def _wins(system: System, new: tuple[PathType, MBps, int], known: Path) -> bool:
    kind, bw, hops = new
    if system.version >= (2, 30):
        return (kind, -bw, hops) < (known.type, -known.bw, known.hops)
    return known.hops >= hops and known.bw < bw


def _path_type(here: Key, link: _Link, path: Path, *, relayed: bool) -> PathType:
    kind = PathType.LOC if link.kind is PathType.NET else link.kind
    if here[0] == "PCI" and link.end[0] == "PCI":
        kind = PathType.PXB
    if link.kind is PathType.PIX and "CPU" in (here[0], link.end[0]):
        kind = PathType.PHB
    if relayed and path.type is PathType.NVL and kind is PathType.NVL and path.hops == 1:
        kind = PathType.NVB
    return max(path.type, kind)


def local_socket(system: System, gpu: int) -> int:
    """The socket that a GPU of the group reaches best."""
    ways = [(system.paths[("GPU", gpu), ("CPU", at)], at) for at in range(len(system.node.sockets))]
    return min(ways, key=lambda way: (-way[0].bw, way[0].type, way[0].hops))[1]


def _join(first: Path, second: Path, *, through_gpu: bool = False) -> Path:
    kind = max(first.type, second.type)
    if {first.type, second.type} == {PathType.PHB, PathType.C2C}:
        kind = PathType.P2C
    return Path(first.links + second.links, min(first.bw, second.bw), PathType.PXN if through_gpu else kind)


def _divert_peers(system: System) -> None:
    """GPUs farther than one PCIe tree talk through host memory, except pairs on AMD."""
    amd = system.node.sockets[0].maker == "amd"
    level = PathType.SYS if amd and len(system.gpus) <= 2 else PathType.PXB
    for g in range(len(system.gpus)):
        cpu = ("CPU", local_socket(system, g))
        for p in range(len(system.gpus)):
            if system.gpu_path(p, g).type > level:
                way = _join(system.paths[("GPU", p), cpu], system.paths[cpu, ("GPU", g)])
                system.paths[("GPU", p), ("GPU", g)] = way


def local_nics(system: System, gpu: int) -> list[int]:
    """The NIC ports that a GPU of the group reaches best: widest, then nearest."""
    return _local([system.to_nic(gpu, nic) for nic in system.nics])


def _local(paths: Sequence[Path]) -> list[int]:
    best = min(((-path.bw, path.type) for path in paths), default=None)
    return [at for at, path in enumerate(paths) if (-path.bw, path.type) == best]


def nic_of_channel(system: System, gpu: int, channel: int) -> int:
    """The NIC port that NCCL gives a GPU for a channel: GPUs that share NICs are spread over them."""
    nics = local_nics(system, gpu)
    sharing = _local([system.from_nic(nics[0], g) for g in range(len(system.gpus))])
    start = system.gpus[gpu] % (len(sharing) if system.version >= (2, 30) else 1 << 30)
    if len(nics) & (len(nics) - 1) == 0:
        start = _mirror(start, len(nics))
    start += channel % -(-len(nics) // len(sharing))
    return nics[start % len(nics)]


def _mirror(value: int, power: int) -> int:
    """The low bits of `value` in reverse order, for a power of two."""
    bits = power.bit_length() - 1
    return sum(1 << (bits - 1 - bit) for bit in range(bits) if value >> bit & 1)


def local_gpu(system: System, nic: int) -> int | None:
    """The GPU of the group that has this NIC port as its own, if one has."""
    near = _local([system.from_nic(nic, g) for g in range(len(system.gpus))])
    for channel in range(32):
        for gpu in near:
            if nic_of_channel(system, gpu, channel) == nic:
                return gpu
    return None


def uses_gpudirect(system: System, gpu: int, nic: int, *, read: bool) -> bool:
    """Whether the NIC may reach the GPU's memory itself."""
    seat, port = system.node.gpus[system.gpus[gpu]], system.node.nics[nic]
    if not (seat.gpudirect and port.gpudirect):
        return False
    if read and seat.compute_capability < 80 and len(system.gpus) > 1:
        peers = (p for p in range(len(system.gpus)) if p != gpu)
        if not any(system.gpu_path(gpu, p).type is PathType.NVL for p in peers):
            return False
    return system.to_nic(gpu, nic).type <= (PathType.P2C if system.version >= (2, 29) else PathType.PXB)


def _relate_nics(system: System) -> None:
    """Far NICs are reached through an NVLinked GPU beside them (PXN); without GPUDirect through the host."""
    for nic in system.nics:
        for gpu in range(len(system.gpus)):
            proxy = local_gpu(system, nic)
            own = system.to_nic(gpu, nic)
            if proxy is not None and proxy != gpu:
                near, hop = system.to_nic(proxy, nic), system.gpu_path(gpu, proxy)
                better = near.bw > own.bw or own.type > PathType.PXN
                if (
                    near.type <= PathType.P2C
                    and uses_gpudirect(system, proxy, nic, read=True)
                    and system.gpu_path(proxy, gpu).type <= PathType.NVL
                    and better
                ):
                    system.paths[("GPU", gpu), ("NET", nic)] = _join(hop, near, through_gpu=True)
            if system.to_nic(gpu, nic).type < PathType.PHB and not _writes_directly(system, gpu, nic):
                _through_host(system, gpu, nic)


def _writes_directly(system: System, gpu: int, nic: int) -> bool:
    at = gpu
    if system.to_nic(gpu, nic).type is PathType.PXN:
        proxy = local_gpu(system, nic)
        at = gpu if proxy is None else proxy
    return uses_gpudirect(system, at, nic, read=False)


def _through_host(system: System, gpu: int, nic: int) -> None:
    cpu = ("CPU", local_socket(system, gpu))
    here, there = ("GPU", gpu), ("NET", nic)
    system.paths[there, here] = _join(system.paths[there, cpu], system.paths[cpu, here])
    system.paths[here, there] = _join(system.paths[here, cpu], system.paths[cpu, there])
