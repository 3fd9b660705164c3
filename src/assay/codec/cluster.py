"""Cluster files: YAML or TOML of a node's parts, their number and the fabric → plain parts, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assay.codec.document import Document, read_document
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.errors import unknown_name
from assay.units import parse


class NodeText(FileModel):
    """The node section of a cluster file; devices are catalogue ids."""

    gpu: str
    gpus: int = Field(ge=1, le=256)
    interconnect: str
    cpu: str
    sockets: int = Field(default=2, ge=1, le=16)
    gpus_per_switch: int = Field(default=1, ge=0)
    pcie_generation: int | None = None
    nic: str | None = None
    nics: int = Field(default=0, ge=0, le=256)
    nic_rate: str | None = None
    nic_pcie_generation: int | None = None
    nic_lanes: int = 16
    gpudirect: bool = True


class _FabricText(FileModel):
    transport: str
    wiring: str
    radix: int = 64
    oversubscription: float | int = 1.0
    hop_latency: str = "0.3 us"
    adaptive_routing: bool = False
    sharp: bool = False
    planes: int = Field(default=1, ge=1, le=8)
    ports_per_cable: int = Field(default=1, ge=1, le=8)
    manager_ports: int = Field(default=0, ge=0)
    latency: str | None = None
    node_bandwidth: str | None = None


class _ClusterText(FileModel):
    schema_: int = Field(alias="schema")
    id: str
    name: str
    nodes: int = Field(ge=1)
    domain_nodes: int = Field(default=1, ge=1)
    aliases: list[str] = Field(default_factory=list)
    source: str = ""
    node: NodeText
    fabric: _FabricText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """A cluster file as read: names of devices are still names."""

    id: str
    name: str
    aliases: tuple[str, ...]
    count: int
    domain_nodes: int
    source: str
    node: NodeText
    fabric: Fabric | None
    document: Document

    @contextmanager
    def placed(self, *path: str) -> Iterator[None]:
        """Faults raised inside are told at this key of the file."""
        with placed(self.document.where(*path)):
            yield


def load_cluster_parts(source: Path | str, name: str | None = None) -> ClusterParts:
    """Read a cluster file, or text that is shown as `name`. Raises `InputError` with file:line."""
    document = read_document(source, name)
    text = read_as(document, _ClusterText, kind="cluster")
    return ClusterParts(
        id=text.id,
        name=text.name,
        aliases=tuple(text.aliases),
        count=text.nodes,
        domain_nodes=text.domain_nodes,
        source=text.source,
        node=text.node,
        fabric=None if text.fabric is None else _fabric(text.id, text.fabric, document),
        document=document,
    )


def _fabric(name: str, text: _FabricText, document: Document) -> Fabric:
    def where(key: str) -> str:
        return document.where("fabric", key)

    def word(key: str, value: str, kinds: type[Transport] | type[Wiring]) -> str:
        known = [kind.value for kind in kinds]
        if value not in known:
            raise unknown_name(key, value, known, where=where(key))
        return value

    def measure(key: str, value: str | None, unit: str) -> float | None:
        return None if value is None else parse(value, unit=unit, where=where(key)).value

    hop = measure("hop_latency", text.hop_latency, "s")
    with placed(document.where("fabric")):
        return Fabric(
            id=name,
            transport=Transport(word("transport", text.transport, Transport)),
            wiring=Wiring(word("wiring", text.wiring, Wiring)),
            radix=text.radix,
            oversubscription=float(text.oversubscription),
            hop_latency_s=hop if hop is not None else 0.0,
            adaptive_routing=text.adaptive_routing,
            sharp=text.sharp,
            planes=text.planes,
            ports_per_cable=text.ports_per_cable,
            manager_ports=text.manager_ports,
            latency_s=measure("latency", text.latency, "s"),
            node_Bps=measure("node_bandwidth", text.node_bandwidth, "B/s"),
        )
