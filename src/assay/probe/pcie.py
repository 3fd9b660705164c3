"""The PCIe bus: link speed and width of a device, ACS and IOMMU of the machine."""

from __future__ import annotations

import re
from pathlib import Path

from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, entries, file_fact, read, whole

#: Transfers per second and lane of each generation, and the share of them that carries bytes
#: (8b/10b, 128b/130b, 242 of 256 bytes of a flit). Source: PCI Express base specifications 1.0 to 7.0.
_GENERATIONS: dict[float, tuple[int, float]] = {
    2.5e9: (1, 8 / 10),
    5.0e9: (2, 8 / 10),
    8.0e9: (3, 128 / 130),
    16.0e9: (4, 128 / 130),
    32.0e9: (5, 128 / 130),
    64.0e9: (6, 242 / 256),
    128.0e9: (7, 242 / 256),
}

_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s(?: PCIe)?")

_BRIDGE_CLASS = "0x0604"
#: VGA, 3D and other display controllers, and processing accelerators (MI300X).
_GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
_GPU_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD"}

_ACS_CAPABILITY = 0x000D
#: Request redirect, completion redirect, upstream forwarding: these send peer traffic to the root complex.
_ACS_REDIRECT = 0x04 | 0x08 | 0x10


def generation(speed: str) -> int:
    """The PCIe generation of a link speed as the kernel prints it: "16.0 GT/s PCIe" is 4."""
    return _generation(speed)[0]


def bandwidth_Bps(speed: str, width: int) -> float:
    """Bytes per second in one direction: transfers x lanes x coding / 8, before packet headers."""
    rate, (_, coding) = _rate(speed), _generation(speed)
    return rate * width * coding / 8


def read_link(subject: str, device: Path) -> tuple[Fact, ...]:
    """Generation, width and bandwidth now and at most, and NUMA node, of the PCI device at `device`."""
    facts = [fact for which in ("current", "max") for fact in _link(subject, device, which)]
    facts.append(file_fact(subject, "pcie.numa_node", device / "numa_node", unit="count", parse=_numa_node))
    return tuple(facts)


def read_bus(node: str, roots: Roots) -> tuple[Fact, ...]:
    """How many GPUs the bus shows, how many bridges redirect peer traffic, and what the IOMMU does."""
    return (_gpus(node, roots), _acs(node, roots), *_iommu(node, roots))


def acs_redirects(config: bytes) -> bool | None:
    """Whether access control sends peer traffic up to the root complex, from a device's config space.

    Walks the extended capabilities, which start at 0x100: 16 bits of id, 4 of version, 12 of next offset.
    None where the capability is absent. Raises ValueError where only the public 64 bytes are there.
    """
    if len(config) <= 64:
        raise ValueError(f"only {len(config)} bytes of config space are readable")
    offset, seen = 0x100, set[int]()
    while 0x100 <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS_CAPABILITY:
            return bool(int.from_bytes(config[offset + 6 : offset + 8], "little") & _ACS_REDIRECT)
        offset = header >> 20
    return None


def _rate(speed: str) -> float:
    match = _SPEED.fullmatch(speed)
    if match is None:
        raise ValueError(f"link speed {speed!r} is not of the form '16.0 GT/s PCIe'")
    return float(match[1]) * 1e9


def _generation(speed: str) -> tuple[int, float]:
    if _rate(speed) not in _GENERATIONS:
        raise ValueError(f"link speed {speed!r} belongs to no PCIe generation")
    return _GENERATIONS[_rate(speed)]


def _link(subject: str, device: Path, which: str) -> list[Fact]:
    speed, width = device / f"{which}_link_speed", device / f"{which}_link_width"
    lanes = file_fact(subject, f"pcie.width_{which}", width, unit="count", parse=_lanes)
    gen = file_fact(subject, f"pcie.generation_{which}", speed, unit="count", parse=generation)
    key = f"pcie.bandwidth_{which}"
    if isinstance(lanes.value, float | int) and gen.value is not None:
        value = bandwidth_Bps(read(speed).text or "", int(lanes.value))
        return [gen, lanes, known(subject, key, value, "B/s", str(speed))]
    return [gen, lanes, missing(subject, key, "B/s", gen.reason or lanes.reason or "unknown", str(speed))]


def _lanes(text: str) -> int:
    lanes = whole(text)
    # The kernel prints 0 or 63 or 255 for a link that is down or virtual.
    if lanes not in (1, 2, 4, 8, 12, 16, 32):
        raise ValueError(f"the link reports {lanes} lanes: down, or hidden by the hypervisor")
    return lanes


def _numa_node(text: str) -> int:
    node = whole(text)
    if node < 0:
        raise ValueError("the firmware gives this device no NUMA node (-1)")
    return node


def _gpus(node: str, roots: Roots) -> Fact:
    key, devices = "pcie.gpus", roots.sys / "bus/pci/devices"
    found = entries(devices)
    if not found:
        return missing(node, key, "count", f"no PCI device in {devices}", str(devices))
    count = sum(
        (read(d / "vendor").text in _GPU_VENDORS) and (read(d / "class").text or "").startswith(_GPU_CLASSES)
        for d in found
    )
    return known(node, key, count, "count", str(devices))


def _acs(node: str, roots: Roots) -> Fact:
    key, devices = "pcie.acs_redirecting_bridges", roots.sys / "bus/pci/devices"
    bridges = [d for d in entries(devices) if (read(d / "class").text or "").startswith(_BRIDGE_CLASS)]
    if not bridges:
        return missing(node, key, "count", f"no PCI bridge in {devices}", str(devices))
    try:
        count = sum(bool(acs_redirects((bridge / "config").read_bytes())) for bridge in bridges)
    except (OSError, ValueError) as error:
        return missing(node, key, "count", f"needs root: {error}", f"{devices}/*/config")
    return known(node, key, count, "count", f"{devices}/*/config")


def _iommu(node: str, roots: Roots) -> list[Fact]:
    groups = roots.sys / "kernel/iommu_groups"
    found = entries(groups)
    modes = {read(group / "type").text or "" for group in found} - {""}
    args = [a for a in (read(roots.proc / "cmdline").text or "").split() if "iommu" in a.partition("=")[0]]
    return [
        known(node, "iommu.groups", len(found), "count", str(groups)),
        known(node, "iommu.mode", " ".join(sorted(modes)), "text", str(groups))
        if modes
        else missing(node, "iommu.mode", "text", "no IOMMU group tells its type", str(groups)),
        known(node, "iommu.kernel_args", " ".join(args) or "none", "text", str(roots.proc / "cmdline")),
    ]
