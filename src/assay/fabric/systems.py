"""Clusters from the words of published measurements: "H100 SXM5", "NVLink4 x18 NVSwitch3", "8x400G NDR IB".

Only classes of hardware are recognised, never a source or a file.
"""

from __future__ import annotations

import functools
import re

from assay.catalog.devices import gpu as catalogue_gpu
from assay.catalog.nodes import Parts, build_node
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.errors import InputError

#: Words of a GPU's name, in the order in which they are looked for → catalogue id, and the usual CPU.
_GPUS = (
    ("gb300", "gb300", "nvidia-grace"),
    ("gb200", "gb200", "nvidia-grace"),
    ("gh200", "h100-sxm", "nvidia-grace"),
    ("b300", "b300", "intel-granite-rapids"),
    ("b200", "b200", "intel-emerald-rapids"),
    ("h200 nvl", "h200-nvl", "amd-genoa"),
    ("h200", "h200-sxm", "intel-sapphire-rapids"),
    ("h100 nvl", "h100-nvl", "amd-genoa"),
    ("h100 pcie", "h100-pcie", "amd-genoa"),
    ("h100", "h100-sxm", "intel-sapphire-rapids"),
    ("h800", "h800-sxm", "intel-sapphire-rapids"),
    ("h20", "h20", "intel-sapphire-rapids"),
    ("a100 pcie 80", "a100-pcie-80gb", "amd-milan"),
    ("a100 pcie", "a100-pcie-40gb", "amd-milan"),
    ("a100 sxm4 40", "a100-sxm-40gb", "amd-rome"),
    ("a100 40", "a100-sxm-40gb", "amd-rome"),
    ("a100", "a100-sxm-80gb", "amd-rome"),
    ("a800", "a800-sxm-80gb", "amd-milan"),
    ("v100 pcie", "v100-pcie-16gb", "intel-skylake"),
    ("v100", "v100-sxm2-32gb", "intel-skylake"),
    ("mi300", "mi300x", "amd-genoa"),
    ("mi355", "mi355x", "amd-turin"),
    ("l40s", "l40s", "amd-genoa"),
    ("4090", "rtx-4090", "amd-genoa"),
    ("5090", "rtx-5090", "intel-sapphire-rapids"),
)

_TRANSPORTS = (
    ("efa", Transport.EFA),
    ("slingshot", Transport.SLINGSHOT),
    ("tcpx", Transport.TCPX),
    ("tcp", Transport.TCP),
    ("socket", Transport.TCP),
    ("spectrum", Transport.ROCE),
    ("roce", Transport.ROCE),
    ("gib", Transport.ROCE),
    ("ib", Transport.INFINIBAND),
    ("rdma", Transport.ROCE),
)

_RATES = re.compile(r"(\d+)\s*x\s*(\d+)\s*G", re.IGNORECASE)
_ONE_RATE = re.compile(r"(\d+)\s*G\b", re.IGNORECASE)


def gpu_of(words: str) -> tuple[Gpu, str] | None:
    """The catalogue's GPU that the words name, and the CPU that usually goes with it, or None."""
    said = words.lower().replace("_", " ")
    for word, name, cpu in _GPUS:
        if word in said:
            return catalogue_gpu(name), cpu
    return None


def transport_of(words: str) -> Transport | None:
    """What carries bytes between nodes, from the words for the network."""
    said = words.lower()
    if "via tcp" in said or "tcp sockets" in said or "tcp fallback" in said:
        return Transport.TCP
    return next((kind for word, kind in _TRANSPORTS if word in said), None)


@functools.lru_cache(maxsize=256)
def described_cluster(gpu: str, nodes: int, per_node: int, intra: str, inter: str) -> Cluster:
    """The cluster that a published curve was measured on; raises `InputError` with what is not known."""
    found = gpu_of(gpu)
    if found is None:
        raise InputError(f"the GPU {gpu!r} is not in the catalogue")
    model, cpu = found
    interconnect = _interconnect(model, intra)
    seats = _seats(model, per_node, intra)
    transport, count, rate = _network(inter, nodes, seats)
    name = f"{model.id}-{inter or 'node'}"
    parts = Parts(
        gpu=model,
        gpus=seats,
        interconnect=interconnect,
        cpu=cpu,
        gpus_per_switch=_gpus_per_switch(model, seats, intra),
        nics=count,
        nic_Bps=rate,
        nic_pcie_generation=5,
        gpudirect=transport is not Transport.TCP,
    )
    fabric = None
    if transport is not None:
        infiniband = transport is Transport.INFINIBAND
        fabric = Fabric(id=name, transport=transport, wiring=Wiring.RAIL, sharp=infiniband)
    domain = nodes if "mnnvl" in intra.lower() or "nvl72" in intra.lower() else 1
    return Cluster(
        id=name, name=name, node=build_node(name, parts), count=nodes, fabric=fabric, domain_nodes=domain
    )


def _seats(model: Gpu, per_node: int, intra: str) -> int:
    """GPUs of the whole node, of which the measurement may have used a part."""
    said = intra.lower()
    if "quad" in said or model.id.startswith("gb"):
        return max(4, per_node)
    return per_node if model.link is None or "bridge" in said or per_node > 8 else 8


def _gpus_per_switch(model: Gpu, seats: int, intra: str) -> int:
    """Cards sit on the sockets, those with peer access below one switch; boards of modules have switches.

    Two modules and their NICs share one up to Ampere (DGX-1, DGX-2, DGX A100 user guides), later one each.
    """
    said = intra.lower()
    if model.form != "pcie":
        return 2 if model.architecture in ("volta", "ampere") else 1
    return seats if "p2p" in said and "disabled" not in said else 0


def _interconnect(model: Gpu, intra: str) -> str:
    said = intra.lower()
    if model.link is None or "pcie" in said or "disabled" in said:
        return "none" if "bridge" not in said else "pairs"
    if "bridge" in said:
        return "pairs"
    if "cube" in said or (model.id.startswith("v100-sxm2") and "nvswitch" not in said):
        return "cube-mesh"
    if "direct" in said or "mesh" in said or model.link == "xgmi":
        return "mesh"
    return "switch"


def _network(inter: str, nodes: int, seats: int) -> tuple[Transport | None, int, float]:
    """Transport, NICs and the rate of each; ports beyond one a GPU are one NIC together."""
    if nodes == 1:
        return None, 0, 0.0
    transport = transport_of(inter)
    rates = _RATES.search(inter)
    single = _ONE_RATE.search(inter)
    if transport is None:
        raise InputError(f"the network {inter!r} names no transport")
    if rates is not None:
        count, gbit = int(rates[1]), int(rates[2])
    elif single is not None:
        count, gbit = 1, int(single[1])
    else:
        raise InputError(f"the network {inter!r} names no rate")
    if count > seats:
        gbit, count = gbit * count // seats, seats
    return transport, count, gbit * 1e9 / 8
