"""Nodes built from catalogue parts: GPUs, NICs and PCIe switches spread evenly over the sockets."""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.cluster import SWITCH, GpuSeat, NicSeat, Node, PcieLink, PcieSwitch, Socket
from assay.domain.device import Gpu
from assay.errors import InputError, unknown_name

#: How the GPUs of a node are joined by links of their own.
INTERCONNECTS = ("switch", "mesh", "cube-mesh", "pairs", "none")

#: CPUs by the name that people use: maker, family and model (as /proc/cpuinfo has them, where NCCL looks).
CPUS: dict[str, Socket] = {
    "intel-broadwell": Socket(maker="intel", family=6, model=79),
    "intel-skylake": Socket(maker="intel", family=6, model=85),
    "intel-ice-lake": Socket(maker="intel", family=6, model=106),
    "intel-sapphire-rapids": Socket(maker="intel", family=6, model=143),
    "intel-emerald-rapids": Socket(maker="intel", family=6, model=207),
    "intel-granite-rapids": Socket(maker="intel", family=6, model=173),
    "amd-rome": Socket(maker="amd", family=23, model=49),
    "amd-milan": Socket(maker="amd", family=25, model=1),
    "amd-genoa": Socket(maker="amd", family=25, model=17),
    "amd-turin": Socket(maker="amd", family=26, model=2),
    "nvidia-grace": Socket(maker="arm"),
    "power9": Socket(maker="power"),
}

#: CUDA compute capability by architecture; for other vendors a number that no NVIDIA rule picks out.
_CAPABILITY = {
    "volta": 70,
    "turing": 75,
    "ampere": 80,
    "ada": 89,
    "hopper": 90,
    "blackwell": 100,
    "blackwell-ultra": 103,
    "blackwell-rtx": 120,
    "rubin": 110,
}

#: NVLinks of the eight V100 of a DGX-1: two cubes of four, single and double edges.
_CUBE_MESH = (
    {1: 1, 2: 1, 3: 2, 4: 2},
    {0: 1, 2: 2, 3: 1, 5: 2},
    {0: 1, 1: 2, 3: 2, 6: 1},
    {0: 2, 1: 1, 2: 2, 7: 1},
    {0: 2, 5: 1, 6: 1, 7: 2},
    {1: 2, 4: 1, 6: 2, 7: 1},
    {2: 1, 4: 1, 5: 2, 7: 2},
    {3: 1, 4: 2, 5: 1, 6: 2},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a node is built from. `gpus_per_switch` GPUs share a PCIe switch; 0 puts them on the sockets.

    `cpu` None is a maker's unknown model: only NCCL's choices on GPUs depend on it.
    """

    gpu: Gpu
    gpus: int
    interconnect: str = "none"
    cpu: str | None = "intel-sapphire-rapids"
    sockets: int = 2
    gpus_per_switch: int = 1
    pcie_generation: int | None = None
    nics: int = 0
    nic_name: str = "nic"
    nic_Bps: float = 0.0
    nic_lanes: int = 16
    nic_pcie_generation: int | None = None
    gpudirect: bool = True


def compute_capability(gpu: Gpu) -> int:
    """The CUDA compute capability of a GPU; 0 for one that has none."""
    return _CAPABILITY.get(gpu.architecture, 0)


def build_node(name: str, parts: Parts) -> Node:
    """A node with its parts spread evenly: the first GPUs and NICs on the first socket."""
    if parts.cpu is not None and parts.cpu not in CPUS:
        raise unknown_name("CPU", parts.cpu, CPUS)
    if parts.interconnect not in INTERCONNECTS:
        raise unknown_name("interconnect", parts.interconnect, INTERCONNECTS)
    generation = parts.pcie_generation or parts.gpu.pcie_generation or 5
    slot = PcieLink(generation=generation)
    sockets = min(parts.sockets, parts.gpus)
    capability = compute_capability(parts.gpu)
    switches = _switches(parts, sockets, slot)
    place = [at // parts.gpus_per_switch if switches else None for at in range(parts.gpus)]
    gpus = tuple(
        GpuSeat(
            compute_capability=capability,
            socket=at * sockets // parts.gpus if switch is None else switches[switch].socket,
            slot=slot,
            switch=switch,
            links=_links(parts, at),
            gpudirect=parts.gpudirect,
        )
        for at, switch in enumerate(place)
    )
    return Node(
        id=name,
        sockets=(Socket() if parts.cpu is None else CPUS[parts.cpu],) * sockets,
        gpus=gpus,
        nics=_nics(
            parts, gpus, PcieLink(generation=parts.nic_pcie_generation or generation, lanes=parts.nic_lanes)
        ),
        switches=switches,
        gpu=parts.gpu,
    )


def _switches(parts: Parts, sockets: int, slot: PcieLink) -> tuple[PcieSwitch, ...]:
    if not parts.gpus_per_switch:
        return ()
    count = -(-parts.gpus // parts.gpus_per_switch)
    return tuple(PcieSwitch(socket=at * sockets // count, uplink=slot) for at in range(count))


def _links(parts: Parts, at: int) -> dict[int, int]:
    """Direct links of GPU `at`: peer (or SWITCH) → number."""
    links = parts.gpu.links or 0
    if parts.interconnect == "none" or parts.gpus < 2:
        return {}
    if not links:
        raise InputError(f"{parts.gpu.name} has no links for interconnect {parts.interconnect!r}")
    if parts.interconnect == "switch":
        return {SWITCH: links}
    if parts.interconnect == "mesh":
        each = max(1, links // (parts.gpus - 1))
        return {peer: each for peer in range(parts.gpus) if peer != at}
    if parts.interconnect == "pairs":
        peer = at ^ 1
        return {peer: links} if peer < parts.gpus else {}
    if parts.gpus != len(_CUBE_MESH):
        raise InputError(f"a cube mesh joins {len(_CUBE_MESH)} GPUs, not {parts.gpus}")
    return dict(_CUBE_MESH[at])


def _nics(parts: Parts, gpus: tuple[GpuSeat, ...], slot: PcieLink) -> tuple[NicSeat, ...]:
    """NICs beside the GPUs that they serve; several to a GPU, or one to several."""
    near = (gpus[at * len(gpus) // parts.nics] for at in range(parts.nics))
    return tuple(
        NicSeat(
            name=f"{parts.nic_name}-{at}",
            rate_Bps=parts.nic_Bps,
            socket=gpu.socket,
            slot=slot,
            switch=gpu.switch,
            gpudirect=parts.gpudirect,
        )
        for at, gpu in enumerate(near)
    )
