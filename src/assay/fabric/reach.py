"""Who can talk to whom in a cluster of several kinds of nodes, over what, and how large a link domain may be.

Direct links (NVLink, xGMI, HCCS) join GPUs of one vendor and one generation inside a domain. Between nodes
two things must match: the network (InfiniBand, Ethernet and the clouds' own do not mix without a gateway) and
the library that moves bytes from GPU memory (NCCL, RCCL, HCCL: one vendor each). Where only the network
matches, bytes go through host memory with Gloo or MPI, which know no GPU of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.domain.cluster import Cluster
from assay.domain.fabric import Transport

#: Vendor → the library that moves bytes between its GPUs.
LIBRARIES = {"NVIDIA": "NCCL", "AMD": "RCCL", "Huawei": "HCCL"}
#: Most GPUs in one domain of direct links: NVLink by generation, others by link. Sources: NVIDIA DGX-2 (2),
#: HGX A100 (3), DGX GH200 with the NVLink Switch System (4), NVIDIA's NVLink page (5); AMD Infinity platform.
DOMAIN_LIMIT = {"nvlink-2": 16, "nvlink-3": 16, "nvlink-4": 256, "nvlink-5": 576, "xgmi": 8}
_ETHERNET = (Transport.ROCE, Transport.TCP, Transport.TCPX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """How GPUs of two kinds reach each other. `way` is links, gpudirect, host or none; `Bps` of one pair of
    GPUs, one direction, datasheet; `library` None where none serves both. `why` says what decides it.
    """

    first: str
    second: str
    way: str
    library: str | None
    Bps: float
    why: str


def domain_limit(cluster: Cluster) -> int | None:
    """Most GPUs that direct links of this kind can join in one domain; None where that is not known."""
    gpu = cluster.node.gpu
    if gpu is None or gpu.link is None:
        return None if gpu is None else 1
    return DOMAIN_LIMIT.get(f"nvlink-{gpu.nvlink_generation}" if gpu.link == "nvlink" else gpu.link)


def talks(kinds: Sequence[Cluster]) -> tuple[Talk, ...]:
    """Every pair of kinds of nodes, each with itself too: between two nodes of them."""
    return tuple(_between(a, b) for at, a in enumerate(kinds) for b in kinds[at:])


def _between(a: Cluster, b: Cluster) -> Talk:
    vendors = [kind.node.gpu.vendor if kind.node.gpu else "?" for kind in (a, b)]
    library = LIBRARIES.get(vendors[0]) if vendors[0] == vendors[1] else None
    if a is b and a.domain_nodes > 1 and a.node.gpu is not None and a.node.gpu.link_Bps:
        links = (a.node.gpu.links or 0) * a.node.gpu.link_Bps
        return _talk(a, b, "links", library, links, f"one domain of {a.domain_nodes} nodes")
    networks = [kind.fabric.transport if kind.fabric else None for kind in (a, b)]
    if None in networks:
        return _talk(a, b, "none", None, 0.0, "a node has no network")
    nic = min(kind.node.nic_Bps / len(kind.node.gpus) for kind in (a, b))
    if not _joined(networks[0], networks[1]):
        names = " and ".join(network.value for network in networks if network)
        return _talk(a, b, "none", None, 0.0, f"{names} do not join without a gateway")
    if library is None:
        why = f"no library moves bytes between {vendors[0]} and {vendors[1]} GPUs; Gloo or MPI by the host"
        return _talk(a, b, "host", None, nic / 2, why)
    if networks[0] is not networks[1] or not all(_direct(kind) for kind in (a, b)):
        return _talk(a, b, "host", library, nic / 2, "no RDMA from GPU memory on both sides")
    capabilities = {kind.node.compute_capability for kind in (a, b)}
    why = "one kind" if a is b else "one vendor; the slower sets the pace"
    if library == "NCCL" and len(capabilities) > 1:
        why += ", and NCCL leaves LL128 off between different compute capabilities"
    return _talk(a, b, "gpudirect", library, nic, why)


def _joined(first: Transport | None, second: Transport | None) -> bool:
    return first is second or (first in _ETHERNET and second in _ETHERNET)


def _direct(kind: Cluster) -> bool:
    fabric = kind.fabric
    rdma = fabric is not None and fabric.transport.has_rdma
    return rdma and all(nic.gpudirect for nic in kind.node.nics) and kind.node.gpus[0].gpudirect


def _talk(a: Cluster, b: Cluster, way: str, library: str | None, Bps: float, why: str) -> Talk:
    return Talk(first=a.id, second=b.id, way=way, library=library, Bps=Bps, why=why)
