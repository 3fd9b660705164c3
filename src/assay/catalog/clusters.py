"""The shipped systems, and clusters from users' files, with every device looked up in the catalogue."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

from assay.catalog.devices import gpu, nic, pcie
from assay.catalog.nodes import CPUS, INTERCONNECTS, Parts, build_node
from assay.codec.cluster import ClusterParts, NodeText, load_cluster_parts
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.errors import InputError, unknown_name
from assay.units import parse

_FOLDER = "clusters"
#: What stands in the fields of a device that no datasheet describes.
_NO_DATASHEET = "the device is known by readings alone"
_UNKNOWN_FIELDS = ("int8_op_per_s", "boost_clock_Hz", "tensor_clock_Hz", "tdp_W")


@functools.cache
def cluster_ids() -> tuple[str, ...]:
    """The ids of the shipped systems, in alphabetical order."""
    folder = resources.files("assay.catalog").joinpath("data", _FOLDER)
    return tuple(
        sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    )


@functools.cache
def cluster(name: str) -> Cluster:
    """The shipped system with this id or alias; raises `UnknownNameError` with the nearest names."""
    said = name.strip().lower().replace("_", "-").replace(" ", "-")
    if said in cluster_ids():
        return _build(_parts(said))
    names = _aliases()
    if said not in names:
        raise unknown_name("cluster", name, [*cluster_ids(), *names])
    return _build(_parts(names[said]))


def load_cluster(source: Path | str, name: str | None = None) -> Cluster:
    """A cluster from a user's YAML or TOML file, or from text that is shown as `name`."""
    return _build(load_cluster_parts(source, name))


@functools.cache
def _parts(name: str) -> ClusterParts:
    file = resources.files("assay.catalog").joinpath("data", _FOLDER, f"{name}.toml")
    parts = load_cluster_parts(file.read_text(encoding="utf-8"), f"{name}.toml")
    if parts.id != name:
        raise InputError(f"the file {name}.toml describes {parts.id!r}")
    return parts


@functools.cache
def _aliases() -> Mapping[str, str]:
    return {alias: name for name in cluster_ids() for alias in _parts(name).aliases}


def _build(parts: ClusterParts) -> Cluster:
    if parts.base is not None:
        with parts.placed("base"):
            system = cluster(parts.base)
        return replace(system, id=parts.id, name=parts.name, count=parts.count, calibration=parts.calibration)
    node = parts.node
    if node is None:
        raise InputError(f"cluster {parts.id} has no node", where=parts.document.where("schema"))
    model = _gpu(parts, node.gpu)
    for key in ("pcie_generation", "nic_pcie_generation"):
        if (generation := getattr(node, key)) is not None:
            with parts.placed("node", key):
                pcie(generation)
    for key, known in (("cpu", CPUS), ("interconnect", INTERCONNECTS)):
        if getattr(node, key) not in known:
            with parts.placed("node", key):
                raise unknown_name(key, getattr(node, key), known)
    rate = _nic_rate(parts, node)
    with parts.placed("node"):
        built = build_node(
            parts.id,
            Parts(
                gpu=model,
                gpus=node.gpus,
                interconnect=node.interconnect,
                cpu=node.cpu,
                sockets=node.sockets,
                gpus_per_switch=node.gpus_per_switch,
                pcie_generation=node.pcie_generation,
                nics=node.nics,
                nic_name=node.nic or "nic",
                nic_Bps=rate,
                nic_lanes=node.nic_lanes,
                nic_pcie_generation=node.nic_pcie_generation,
                gpudirect=node.gpudirect,
            ),
        )
    with parts.placed("node", "nics"):
        return Cluster(
            id=parts.id,
            name=parts.name,
            node=built,
            count=parts.count,
            fabric=parts.fabric,
            domain_nodes=parts.domain_nodes,
            source=parts.source,
            calibration=parts.calibration,
        )


def _gpu(parts: ClusterParts, name: str) -> Gpu:
    """The catalogue's GPU, or the one that the file itself describes."""
    device = parts.device
    if device is None:
        with parts.placed("node", "gpu"):
            return gpu(name)

    def amount(text: str, unit: str, *path: str) -> float:
        return parse(text, unit=unit, where=parts.document.where("device", *path)).value

    peaks = {key: amount(text, "FLOP/s", "peak", key) for key, text in device.peak.items()}
    with parts.placed("device"):
        return measured_device(
            id=name,
            name=device.name,
            memory_bytes=round(amount(device.memory, "B", "memory")),
            memory_Bps=amount(device.memory_bandwidth, "B/s", "memory_bandwidth"),
            peak_flop_per_s=peaks,
            sm_count=device.sm_count,
        )


def measured_device(
    *,
    id: str,
    name: str,
    memory_bytes: int,
    memory_Bps: float,
    peak_flop_per_s: Mapping[str, float],
    sm_count: int,
) -> Gpu:
    """A device that no datasheet describes, from what was measured on it."""
    return Gpu(
        id=id,
        name=name,
        vendor="unknown",
        source="run",
        architecture="unknown",
        form="pcie",
        nvml_names=(),
        memory_bytes=memory_bytes,
        memory_Bps=memory_Bps,
        peak_flop_per_s=peak_flop_per_s,
        sm_count=sm_count,
        pcie_generation=4,
        pcie_lanes=16,
        missing=dict.fromkeys(_UNKNOWN_FIELDS, _NO_DATASHEET),
    )


def _nic_rate(parts: ClusterParts, node: NodeText) -> float:
    """One port's rate: as said, or the catalogue's."""
    if not node.nics:
        return 0.0
    if node.nic_rate is not None:
        return parse(node.nic_rate, unit="B/s", where=parts.document.where("node", "nic_rate")).value
    if node.nic is None:
        raise InputError(
            f"{node.nics} NICs, but neither which nor how fast",
            where=parts.document.where("node", "nics"),
            fix="add nic: connectx-7, or nic_rate: 400 Gbit/s",
        )
    with parts.placed("node", "nic"):
        return nic(node.nic).rate_Bps
