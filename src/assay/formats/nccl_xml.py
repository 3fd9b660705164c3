"""NCCL's topology and graph files (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.errors import InputError


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


def parse_xml(text: str, file: str) -> ET.Element:
    """The root element. A DOCTYPE is refused, since its entities can grow without bound."""
    if "<!ENTITY" in text:
        raise InputError(
            "declares entities, which none of these files needs", where=file, fix="remove the <!ENTITY lines"
        )
    try:
        return ET.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", text, count=1))
    except (ET.ParseError, ValueError, RecursionError) as error:
        position = getattr(error, "position", (1, 0))
        raise InputError(
            f"is not whole XML: {error}",
            where=f"{file}:{position[0]}",
            fix="copy the file again; it was probably cut off",
        ) from error


def read_topology(root: ET.Element, text: str, file: str) -> Iterator[TopologyDevice | Graph]:
    """Every GPU and NIC under `system`, or every graph under `graphs`."""
    lines = _lines(text)
    if root.tag == "graphs":
        for graph in root.iter("graph"):
            yield Graph(
                file=file,
                line=1,
                id=_int(graph.get("id")),
                channels=_int(graph.get("nchannels")),
                type_intra=graph.get("typeintra", ""),
                type_inter=graph.get("typeinter", ""),
            )
        return
    for cpu in root.iter("cpu"):
        yield from _walk(cpu, cpu.get("numaid", ""), 0, lines, file)


def _walk(
    node: ET.Element, numaid: str, depth: int, lines: Mapping[str, tuple[int, str]], file: str
) -> Iterator[TopologyDevice]:
    if depth > 50:
        return
    for pci in node.findall("pci"):
        busid = pci.get("busid", "")
        line, text = lines.get(busid, (1, ""))
        for kind, leaf in [("gpu", g) for g in pci.findall("gpu")] + [
            ("net", n) for n in pci.findall("nic/net")
        ]:
            yield TopologyDevice(
                file=file,
                line=line,
                text=text,
                kind=kind,
                busid=busid,
                numaid=numaid,
                depth=depth,
                name=leaf.get("name") or f"GPU {leaf.get('dev', '?')}",
                link_speed=pci.get("link_speed", ""),
                link_width=pci.get("link_width", ""),
                nvlinks=sum(_int(link.get("count")) for link in leaf.findall("nvlink")),
                gdr=None if leaf.get("gdr") is None else leaf.get("gdr") == "1",
            )
        yield from _walk(pci, numaid, depth + 1, lines, file)


def _lines(text: str) -> dict[str, tuple[int, str]]:
    """Where each busid stands."""
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r'busid="([^"]+)"', line):
            found.setdefault(match[1], (number, line.strip()[:200]))
    return found


def _int(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0
