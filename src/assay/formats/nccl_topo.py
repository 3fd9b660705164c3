"""NCCL topology and graph files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE).

One tree, two readings: a whole topology becomes a `Node`, where what is lacking is an error; of any, also
one that a diagnosis has to work with, `read_records` gives the devices and graphs as they are written.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.domain.cluster import SWITCH, GpuSeat, NicSeat, Node, PcieLink, PcieSwitch, Socket
from assay.errors import InputError
from assay.formats.xml_tree import XmlTree, parse_xml

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDevice:
    """A GPU or NIC of the file with its PCI attributes; `nvlinks` is the sum over all targets."""

    file: str
    line: int
    text: str
    kind: str
    name: str
    busid: str
    link_speed: str
    link_width: str
    numaid: str
    depth: int
    nvlinks: int
    gdr: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """One graph that NCCL found: 0 ring, 1 tree, 3 NVLS; `channels` 0 when it found none."""

    file: str
    line: int
    id: int
    channels: int
    type_intra: str
    type_inter: str


@dataclass(slots=True)
class _Reader:
    """Collects the flat lists of a Node while walking the tree of elements."""

    tree: XmlTree
    sockets: list[Socket] = field(default_factory=list)
    switches: list[PcieSwitch] = field(default_factory=list)
    gpus: list[tuple[ET.Element, str, int, PcieLink, int | None]] = field(default_factory=list)
    nics: list[NicSeat] = field(default_factory=list)
    cards: dict[str, int] = field(default_factory=dict)

    def text(self, element: ET.Element, key: str) -> str:
        if key not in element.attrib:
            raise InputError(
                f"<{element.tag}> lacks {key!r}",
                where=self.tree.where(element),
                fix=f'add {key}="…" to the element',
            )
        return element.attrib[key]

    def whole(self, element: ET.Element, key: str, default: int | None = None) -> int:
        if default is not None and key not in element.attrib:
            return default
        text = self.text(element, key)
        try:
            return int(text, 0)
        except ValueError:
            raise InputError(
                f"{key}={text!r} is not a whole number", where=self.tree.where(element)
            ) from None

    def cpu(self, element: ET.Element) -> None:
        arch = self.text(element, "arch")
        maker = _ARCHS.get(arch)
        family = model = None
        if maker is None:
            vendor = self.text(element, "vendor")
            maker = _MAKERS.get(vendor) or _MAKERS.get(vendor.strip(), vendor.strip().lower())
            family = self.whole(element, "familyid") if "familyid" in element.attrib else None
            model = self.whole(element, "modelid") if "modelid" in element.attrib else None
        self.sockets.append(Socket(maker=maker, family=family, model=model))
        for child in element:
            if child.tag == "pci":
                self.pci(child, len(self.sockets) - 1, None)
            elif child.tag == "nic":
                # A NIC straight on the CPU is not limited by a slot.
                self.nic(child, f"cpu{len(self.sockets)}", len(self.sockets) - 1, _WIDEST, None)

    def pci(self, element: ET.Element, socket: int, switch: int | None) -> None:
        link = self.slot(element)
        bus = self.text(element, "busid")
        for child in element:
            if child.tag == "gpu":
                self.gpus.append((child, bus.lower(), socket, link, switch))
            elif child.tag == "nic":
                self.nic(child, bus, socket, link, switch)
        inner = [child for child in element if child.tag == "pci"]
        if inner:
            self.switches.append(PcieSwitch(socket=socket, uplink=link, parent=switch))
            here = len(self.switches) - 1
            for child in inner:
                self.pci(child, socket, here)

    def slot(self, element: ET.Element) -> PcieLink:
        speed = self.text(element, "link_speed")
        number = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", speed)
        # NCCL takes a link that says nothing for one of 8 GT/s.
        nothing = "" if speed.strip() else "8"
        rate = number[1].removesuffix(".0") if number else nothing
        if rate not in _GENERATION:
            raise InputError(
                f"link_speed={speed!r} is no PCIe speed",
                where=self.tree.where(element),
                fix=f"write the rate of a lane, as '32.0 GT/s PCIe': {', '.join(_GENERATION)} GT/s",
            )
        return PcieLink(generation=_GENERATION[rate], lanes=self.whole(element, "link_width") or 16)

    def nic(self, element: ET.Element, bus: str, socket: int, slot: PcieLink, switch: int | None) -> None:
        card = self.cards.setdefault(bus.rpartition(".")[0] or bus, len(self.cards))
        for net in element:
            if net.tag != "net":
                continue
            mbit = self.whole(net, "speed")
            self.check_possible(net, mbit * 1e6 / 8, slot)
            self.nics.append(
                NicSeat(
                    name=net.get("name", f"net{len(self.nics)}"),
                    rate_Bps=(mbit if mbit > 0 else _DEFAULT_MBIT) * 1e6 / 8,
                    socket=socket,
                    slot=slot,
                    switch=switch,
                    card=card,
                    gpudirect=bool(self.whole(net, "gdr", 0)),
                    latency_s=_number(net.get("latency", "0")) * 1e-6,
                )
            )

    def check_possible(self, net: ET.Element, rate_Bps: float, slot: PcieLink) -> None:
        """Refuse a port that is faster than the slot that feeds it."""
        if rate_Bps > slot.Bps:
            raise InputError(
                f"<net> {net.get('name', '')} of {rate_Bps * 8e-9:g} Gbit/s moves {rate_Bps / 1e9:.1f} GB/s, "
                f"but its slot is {slot}",
                where=self.tree.where(net),
                fix="correct speed, or link_speed and link_width of the <pci> around it",
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

    def links(self, gpu: ET.Element, at: dict[str, int]) -> dict[int, int]:
        links: dict[int, int] = {}
        for link in gpu:
            if link.tag != "nvlink":
                continue
            target = self.text(link, "target").lower()
            if link.get("tclass") == _NVSWITCH_CLASS:
                peer = SWITCH
            elif target in at:
                peer = at[target]
            else:
                continue  # the far GPU is not part of this job, as NCCL has it too
            links[peer] = links.get(peer, 0) + self.whole(link, "count")
        return links

    def c2c(self, gpu: ET.Element) -> float | None:
        links = [one for one in gpu if one.tag == "c2c"]
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
    return node_of(parse_xml("\n".join(line.rstrip("\n") for line in lines), name))


def node_of(tree: XmlTree) -> Node:
    """The node of a whole topology."""
    root, name = tree.root, tree.file
    if root.tag != "system":
        raise InputError(f"the root is <{root.tag}>, not <system>", where=tree.where(root))
    reader = _Reader(tree=tree)
    try:
        for cpu in root:
            if cpu.tag == "cpu":
                reader.cpu(cpu)
    except RecursionError:
        raise InputError("PCI devices lie in one another without end", where=f"{name}:1") from None
    if not reader.gpus:
        raise InputError(
            "no <gpu> is in this topology",
            where=f"{name}:1",
            fix="dump it with NCCL_TOPO_DUMP_FILE on the node",
        )
    seats = reader.seats()
    try:
        return Node(
            id=name.rpartition("/")[2].removesuffix(".xml"),
            sockets=tuple(reader.sockets),
            gpus=seats,
            nics=tuple(reader.nics),
            switches=tuple(reader.switches),
        )
    except InputError as fault:
        raise InputError(fault.what, where=name, fix=fault.fix) from None


def pci_device(tree: XmlTree) -> int | None:
    """The PCI device id of the first GPU (0x2330 is an H100 SXM); None where the file does not say."""
    text = next((pci.get("device", "") for pci in tree.root.iter("pci") if pci.find("gpu") is not None), "")
    return int(text, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]{1,4}", text) else None


def read_records(tree: XmlTree) -> Iterator[TopologyDevice | Graph]:
    """Every GPU and NIC under `system`, or every graph under `graphs`, whatever they lack."""
    if tree.root.tag == "graphs":
        for graph in tree.root.iter("graph"):
            yield Graph(
                file=tree.file,
                line=tree.line[graph],
                id=_count(graph.get("id")),
                channels=_count(graph.get("nchannels")),
                type_intra=graph.get("typeintra", ""),
                type_inter=graph.get("typeinter", ""),
            )
        return
    for cpu in tree.root.iter("cpu"):
        yield from _devices(tree, cpu, cpu.get("numaid", ""), 0)


def _devices(tree: XmlTree, above: ET.Element, numaid: str, depth: int) -> Iterator[TopologyDevice]:
    if depth > 50:
        return
    for pci in above.findall("pci"):
        for kind, leaf in [("gpu", g) for g in pci.findall("gpu")] + [
            ("net", n) for n in pci.findall("nic/net")
        ]:
            yield TopologyDevice(
                file=tree.file,
                line=tree.line[pci],
                text=tree.shown(pci),
                kind=kind,
                busid=pci.get("busid", ""),
                numaid=numaid,
                depth=depth,
                name=leaf.get("name") or f"GPU {leaf.get('dev', '?')}",
                link_speed=pci.get("link_speed", ""),
                link_width=pci.get("link_width", ""),
                nvlinks=sum(_count(link.get("count")) for link in leaf.findall("nvlink")),
                gdr=None if leaf.get("gdr") is None else leaf.get("gdr") == "1",
            )
        yield from _devices(tree, pci, numaid, depth + 1)


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0
