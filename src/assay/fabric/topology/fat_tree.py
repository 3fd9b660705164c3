"""A sized fat tree or dragonfly+, cable by cable.

Down ports of a leaf come first, then its ports up; spines and cores number theirs in the order in which the
switches below are cabled. A leaf's ports up go round the spines of its pod, a pod's ports up round the cores.
With rails, leaf g·rails + r takes NIC r of the g-th block of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from assay.fabric.sizing import FabricSize
from assay.fabric.topology.network import Cable, Device, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Patterns for the names of devices; `{i}` counts from 0, `{node}` and `{rail}` are a NIC's."""

    node: str = "node{i:04d}"
    adapter: str = "{node}/mlx5_{rail}"
    leaf: str = "leaf{i:03d}"
    spine: str = "spine{i:03d}"
    core: str = "core{i:03d}"


@dataclass(slots=True)
class _Ports:
    """The next free port of every device."""

    used: dict[str, int] = field(default_factory=dict)

    def take(self, device: str, at_least: int = 1) -> int:
        port = max(self.used.get(device, 0) + 1, at_least)
        self.used[device] = port
        return port


def fat_tree(
    size: FabricSize,
    *,
    by_rail: bool = True,
    names: Names | None = None,
    name: str = "design",
    rate: str = "",
) -> Network:
    """The network of a size; every plane has switches of its own."""
    said = names or Names()
    devices: dict[str, Device] = {}
    cables: list[Cable] = []
    for plane in range(size.planes):
        cables.extend(_plane(size, plane, by_rail, said, devices, rate))
    return Network(name, devices, tuple(cables))


def _plane(
    size: FabricSize, plane: int, by_rail: bool, names: Names, devices: dict[str, Device], rate: str
) -> Iterator[Cable]:
    ports = _Ports()

    def cable(below: str, above: str, at_least: int, below_at_least: int = 1) -> Cable:
        return Cable(
            a=below,
            a_port=ports.take(below, below_at_least),
            b=above,
            b_port=ports.take(above, at_least),
            Bps=size.port_Bps,
            rate=rate,
        )

    leaves, spines, cores = (
        _switches(devices, pattern, count // size.planes, plane, tier)
        for pattern, count, tier in (
            (names.leaf, size.leaf, 1),
            (names.spine, size.spine, 2),
            (names.core, size.core, 3),
        )
    )
    for node in range(size.nodes):
        for rail in range(size.rails):
            device = _adapter(names, node, rail, devices)
            yield _one(device, leaves[_leaf_of(size, node, rail, by_rail)], plane, cable)
    if size.tiers == 1:
        return
    pods = -(-len(leaves) // size.pod_leaves)
    each = len(spines) // pods
    for number, leaf in enumerate(leaves):
        pod, within = divmod(number, size.pod_leaves)
        for port in range(size.ports_up):
            spine = spines[pod * each + (within * size.ports_up + port) % each]
            yield cable(leaf, spine, 1, size.ports_down + 1 + port)
    if size.groups > 1:
        yield from _between_groups(size, spines, cable)
    if size.tiers == 2:
        return
    half = size.radix // 2
    for number, spine in enumerate(spines):
        for port in range(half):
            yield cable(spine, cores[(number * half + port) % len(cores)], 1, half + 1 + port)


def _between_groups(
    size: FabricSize, spines: list[str], cable: Callable[[str, str, int, int], Cable]
) -> Iterator[Cable]:
    """The cables of a dragonfly+ between groups: each pair has as many, dealt over the spines of both."""
    half, each = size.radix // 2, len(spines) // size.groups
    pairs = size.groups * (size.groups - 1) // 2
    dealt = [0] * size.groups
    for first in range(size.groups):
        for second in range(first + 1, size.groups):
            for _ in range(size.global_cables // pairs):
                ends = [spines[group * each + dealt[group] % each] for group in (first, second)]
                dealt[first] += 1
                dealt[second] += 1
                yield cable(ends[0], ends[1], half + 1, half + 1)


def _one(device: str, leaf: str, plane: int, cable: Callable[[str, str, int, int], Cable]) -> Cable:
    """A NIC's cable in a plane: port 1 in the first plane, 2 in the second."""
    return cable(device, leaf, 1, plane + 1)


def _leaf_of(size: FabricSize, node: int, rail: int, by_rail: bool) -> int:
    if size.tiers == 1:
        return 0
    if by_rail:
        return node // size.ports_down * size.rails + rail
    return (node * size.rails + rail) // size.ports_down


def _adapter(names: Names, node: int, rail: int, devices: dict[str, Device]) -> str:
    host = names.node.format(i=node)
    name = names.adapter.format(node=host, rail=rail)
    if name not in devices:
        devices[name] = Device(name=name, tier=0, node=host, rail=rail)
    return name


def _switches(devices: dict[str, Device], pattern: str, count: int, plane: int, tier: int) -> list[str]:
    """Names of the switches of a plane's tier; the second plane goes on counting."""
    names = [pattern.format(i=plane * count + i) for i in range(count)]
    devices.update({name: Device(name=name, tier=tier, plane=plane) for name in names})
    return names
