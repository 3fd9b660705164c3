"""Cluster files: YAML or TOML of a node's parts, their number and the fabric → plain parts, checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assay.codec.amount import write_amount
from assay.codec.document import Document, read_document, write_yaml
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.calibration import Calibration, Factor
from assay.domain.cluster import Cluster
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.errors import InputError, unknown_name
from assay.units import parse


class NodeText(FileModel):
    """The node section of a cluster file; devices are catalogue ids."""

    gpu: str
    gpus: int = Field(ge=1, le=256)
    interconnect: str
    cpu: str | None = None
    sockets: int = Field(default=2, ge=1, le=16)
    gpus_per_switch: int = Field(default=1, ge=0)
    pcie_generation: int | None = None
    nic: str | None = None
    nics: int = Field(default=0, ge=0, le=256)
    nic_rate: str | None = None
    nic_pcie_generation: int | None = None
    nic_lanes: int = 16
    gpudirect: bool = True


class DeviceText(FileModel):
    """A device that no catalogue knows; amounts carry their units."""

    name: str
    memory: str
    memory_bandwidth: str
    peak: dict[str, str]
    sm_count: int = Field(ge=1)


class _FactorText(FileModel):
    value: float | int
    low: float | int | None = None
    high: float | int | None = None
    n: int | None = None


class _CalibrationText(FileModel):
    source: str
    factors: dict[str, _FactorText]


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
    base: str | None = None
    node: NodeText | None = None
    device: DeviceText | None = None
    fabric: _FabricText | None = None
    calibration: _CalibrationText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """A cluster file as read: names of devices are still names.

    Either `base` names a shipped system, or `node` describes one; `device` describes its GPU where the
    catalogue does not.
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    count: int
    domain_nodes: int
    source: str
    base: str | None
    node: NodeText | None
    device: DeviceText | None
    fabric: Fabric | None
    calibration: Calibration | None
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
    if (text.base is None) == (text.node is None):
        raise InputError(
            "a cluster is described by 'node', or by 'base', the shipped system that it is",
            where=document.where("base" if text.base else "schema"),
            fix="keep one of the two" if text.base else "add base: dgx-h100, or a node section",
        )
    if text.base is not None and (text.fabric is not None or text.device is not None):
        raise InputError("'base' already has a fabric and a device", where=document.where("base"))
    return ClusterParts(
        id=text.id,
        name=text.name,
        aliases=tuple(text.aliases),
        count=text.nodes,
        domain_nodes=text.domain_nodes,
        source=text.source,
        base=text.base,
        node=text.node,
        device=text.device,
        fabric=None if text.fabric is None else _fabric(text.id, text.fabric, document),
        calibration=_calibration(text.calibration, document),
        document=document,
    )


def write_calibrated(cluster: Cluster, *, base: str | None) -> str:
    """The YAML of a measured cluster: `base` with its factors, or its own device and round network numbers.

    `load_cluster_parts` reads it back to the same numbers.
    """
    data: dict[str, object] = {"schema": 1, "id": cluster.id, "name": cluster.name, "nodes": cluster.count}
    data |= {"base": base} if base is not None else _described(cluster)
    c = cluster.calibration
    if c is not None:
        factors = {f.name: _plain_factor(f) for f in c.factors}
        data["calibration"] = {"source": c.source, "factors": factors}
    return write_yaml(data)


def _plain_factor(factor: Factor) -> dict[str, object]:
    parts = {name: getattr(factor, name) for name in ("value", "low", "high", "n")}
    return {name: value for name, value in parts.items() if value is not None}


def _described(cluster: Cluster) -> Mapping[str, object]:
    gpu, fabric, node = cluster.node.gpu, cluster.fabric, cluster.node
    if gpu is None:
        raise InputError(f"the GPU of {cluster.id} is not known")
    peaks = {key: write_amount(value, "FLOP/s") for key, value in gpu.peak_flop_per_s.items()}
    hardware: dict[str, object] = {
        "gpu": gpu.id,
        "gpus": len(node.gpus),
        "interconnect": "none",
        "sockets": len(node.sockets),
        "gpus_per_switch": 0,
        "nics": len(node.nics),
        "gpudirect": False,
    }
    data: dict[str, object] = {
        "node": hardware,
        "device": {
            "name": gpu.name,
            "memory": write_amount(gpu.memory_bytes, "B"),
            "memory_bandwidth": write_amount(gpu.memory_Bps, "B/s"),
            "peak": peaks,
            "sm_count": gpu.sm_count or 1,
        },
    }
    if fabric is not None and fabric.node_Bps is not None:
        rate = hardware["nic_rate"] = write_amount(fabric.node_Bps, "B/s")
        data["fabric"] = {
            "transport": fabric.transport.value,
            "wiring": fabric.wiring.value,
            "node_bandwidth": rate,
        }
    return data


def _calibration(text: _CalibrationText | None, document: Document) -> Calibration | None:
    if text is None:
        return None
    factors = []
    for name, said in text.factors.items():
        with placed(document.where("calibration", "factors", name)):
            factors.append(Factor(name=name, **said.model_dump()))
    return Calibration(source=text.source, factors=tuple(factors))


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
