"""NCCL topology files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): XML of CPUs, PCIe, GPUs and NICs → a Node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from assay.domain.cluster import SWITCH, GpuSeat, NicSeat, Node, PcieLink, PcieSwitch, Socket
from assay.errors import InputError

_MAKERS = {
    "GenuineIntel": "intel",
    "AuthenticAMD": "amd",
    "CentaurHauls": "zhaoxin",
    "  Shanghai  ": "zhaoxin",
}
_ARCHS = {"arm64": "arm", "aarch64": "arm", "ppc64": "power", "ppc64le": "power"}

#: GT/s of one lane → PCIe generation.
_GENERATION = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}

#: Where an unknown network speed stands for 10 Gbit/s, as in NCCL.
_DEFAULT_MBIT = 10_000

#: The switch that NVLinks end in, by PCI class; anything else at the far end is a GPU.
_NVSWITCH_CLASS = "0x068000"


@dataclass(slots=True)
class _Element:
    name: str
    items: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Collects the flat lists of a Node while walking the tree of elements."""

    name: str
    sockets: list[Socket] = field(default_factory=list)
    switches: list[PcieSwitch] = field(default_factory=list)
    gpus: list[tuple[_Element, str, int, PcieLink, int | None]] = field(default_factory=list)
    nics: list[NicSeat] = field(default_factory=list)
    cards: dict[str, int] = field(default_factory=dict)

    def where(self, element: _Element) -> str:
        return f"{self.name}:{element.line}"

    def text(self, element: _Element, key: str) -> str:
        if key not in element.items:
            raise InputError(
                f"<{element.name}> lacks {key!r}",
                where=self.where(element),
                fix=f'add {key}="…" to the element',
            )
        return element.items[key]

    def whole(self, element: _Element, key: str, default: int | None = None) -> int:
        if default is not None and key not in element.items:
            return default
        text = self.text(element, key)
        try:
            return int(text, 0)
        except ValueError:
            raise InputError(f"{key}={text!r} is not a whole number", where=self.where(element)) from None

    def cpu(self, element: _Element) -> None:
        arch = self.text(element, "arch")
        maker = _ARCHS.get(arch)
        family = model = None
        if maker is None:
            vendor = self.text(element, "vendor")
            maker = _MAKERS.get(vendor) or _MAKERS.get(vendor.strip(), vendor.strip().lower())
            family = self.whole(element, "familyid") if "familyid" in element.items else None
            model = self.whole(element, "modelid") if "modelid" in element.items else None
        self.sockets.append(Socket(maker=maker, family=family, model=model))
        for child in element.children:
            if child.name == "pci":
                self.pci(child, len(self.sockets) - 1, None)
            elif child.name == "nic":
                # A NIC straight on the CPU is not limited by a slot.
                self.nic(child, f"cpu{len(self.sockets)}", len(self.sockets) - 1, _WIDEST, None)

    def pci(self, element: _Element, socket: int, switch: int | None) -> None:
        link = self.slot(element)
        bus = self.text(element, "busid")
        for child in element.children:
            if child.name == "gpu":
                self.gpus.append((child, bus.lower(), socket, link, switch))
            elif child.name == "nic":
                self.nic(child, bus, socket, link, switch)
        inner = [child for child in element.children if child.name == "pci"]
        if inner:
            self.switches.append(PcieSwitch(socket=socket, uplink=link, parent=switch))
            here = len(self.switches) - 1
            for child in inner:
                self.pci(child, socket, here)

    def slot(self, element: _Element) -> PcieLink:
        speed = self.text(element, "link_speed")
        number = re.match(r"\s*(\d+(?:\.\d+)?)", speed)
        rate = number[1].removesuffix(".0") if number else "8"
        if rate not in _GENERATION:
            raise InputError(
                f"link_speed={speed!r} is no PCIe speed",
                where=self.where(element),
                fix=f"GT/s of a lane: {', '.join(_GENERATION)}",
            )
        return PcieLink(generation=_GENERATION[rate], lanes=self.whole(element, "link_width") or 16)

    def nic(self, element: _Element, bus: str, socket: int, slot: PcieLink, switch: int | None) -> None:
        card = self.cards.setdefault(bus.rpartition(".")[0] or bus, len(self.cards))
        for net in element.children:
            if net.name != "net":
                continue
            mbit = self.whole(net, "speed", _DEFAULT_MBIT)
            self.nics.append(
                NicSeat(
                    name=net.items.get("name", f"net{len(self.nics)}"),
                    rate_Bps=(mbit if mbit > 0 else _DEFAULT_MBIT) * 1e6 / 8,
                    socket=socket,
                    slot=slot,
                    switch=switch,
                    card=card,
                    gpudirect=bool(self.whole(net, "gdr", 0)),
                    latency_s=_number(net.items.get("latency", "0")) * 1e-6,
                )
            )

    def seats(self) -> tuple[GpuSeat, ...]:
        at = {bus: index for index, (_, bus, *_) in enumerate(self.gpus)}
        return tuple(
            GpuSeat(
                compute_capability=self.whole(gpu, "sm"),
                socket=socket,
                slot=slot,
                switch=switch,
                links=self.links(gpu, at),
                gpudirect=bool(self.whole(gpu, "gdr", 0)),
                c2c_Bps=self.c2c(gpu),
            )
            for gpu, _, socket, slot, switch in self.gpus
        )

    def links(self, gpu: _Element, at: dict[str, int]) -> dict[int, int]:
        links: dict[int, int] = {}
        for link in gpu.children:
            if link.name != "nvlink":
                continue
            target = self.text(link, "target").lower()
            if link.items.get("tclass") == _NVSWITCH_CLASS:
                peer = SWITCH
            elif target in at:
                peer = at[target]
            else:
                continue  # the far GPU is not part of this job, as NCCL has it too
            links[peer] = links.get(peer, 0) + self.whole(link, "count")
        return links

    def c2c(self, gpu: _Element) -> float | None:
        links = [one for one in gpu.children if one.name == "c2c"]
        return sum(self.whole(one, "count", 1) * self.whole(one, "bw") for one in links) * 1e6 or None


_WIDEST = PcieLink(generation=6, lanes=32)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def recognise(head: Sequence[str]) -> bool:
    """Whether the first lines are those of a topology file."""
    return any(line.lstrip().startswith("<system") for line in head)


def parse_topology(lines: Iterable[str], name: str) -> Node:
    """The node that the file describes. Raises `InputError` with file:line for what is broken or lacking."""
    root = _tree(lines, name)
    if root.name != "system":
        raise InputError(f"the root is <{root.name}>, not <system>", where=f"{name}:{root.line}")
    reader = _Reader(name=name)
    for cpu in root.children:
        if cpu.name == "cpu":
            reader.cpu(cpu)
    if not reader.gpus:
        raise InputError(
            "no <gpu> is in this topology",
            where=f"{name}:1",
            fix="dump it with NCCL_TOPO_DUMP_FILE on the node",
        )
    try:
        return Node(
            id=name.rpartition("/")[2].removesuffix(".xml"),
            sockets=tuple(reader.sockets),
            gpus=reader.seats(),
            nics=tuple(reader.nics),
            switches=tuple(reader.switches),
        )
    except InputError as fault:
        raise InputError(fault.what, where=name, fix=fault.fix) from None


def _tree(lines: Iterable[str], name: str) -> _Element:
    parser = expat.ParserCreate()
    top = _Element("", {}, 0)
    stack = [top]

    def opened(tag: str, items: dict[str, str]) -> None:
        element = _Element(tag, items, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def closed(_tag: str) -> None:
        stack.pop()

    def entity(*_: object) -> None:
        raise InputError("a topology file declares no entities", where=f"{name}:{parser.CurrentLineNumber}")

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.EntityDeclHandler = entity
    try:
        parser.Parse("".join(line if line.endswith("\n") else line + "\n" for line in lines), True)
    except expat.ExpatError as fault:
        raise InputError(
            f"not XML: {expat.ErrorString(fault.code)}",
            where=f"{name}:{fault.lineno}",
            fix="the file may be cut off: dump it again",
        ) from None
    return top.children[0]
