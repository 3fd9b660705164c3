"""What a collective's time is made of: named terms, each a count times a parameter with a physical meaning.

Time is a sum. Latency terms count launches and hops on the critical path; bandwidth terms count bytes over
the datasheet rate of the link that they cross, so that their parameter is the inverse of an efficiency. Of
the links inside a node and the NICs between nodes only the slower one carries the time.
The parameters are fitted to published measurements (see fabric.fit); no term knows where a row came from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.fabric import Transport
from assay.fabric.nccl.tuning import hop_us
from assay.fabric.parameters import RDMA
from assay.fabric.situation import Ground

Floats = NDArray[np.float64]

#: Up to this many bytes to one peer, NCCL's send and receive use LL (NCCL_P2P_LL_THRESHOLD).
P2P_LL_BYTES = 16384

#: A channel's buffer (NCCL_BUFFSIZE), and one of its 8 slots.
BUFFER_BYTES = 4194304
CHUNK_BYTES = BUFFER_BYTES // 8

#: What each rank sends at a step before NCCL opens a further channel for LL: 512 threads of 8 bytes.
CHANNEL_BYTES = 4096

#: How the time of a byte through host memory grows with the GPUs that share it, as measured on one system of
#: eight L40S: from 2 to 4 and from 4 to 8 ranks the bandwidth of each falls to a quarter. Four RTX 5090 on
#: two Xeon show nothing of the kind, so that it counts for AMD hosts only.
_CROWD_POWER = 2.0

#: Bytes on the wire for a byte of data: LL sends a flag with every 4 bytes, LL128 8 in 128.
_FLAGS = {"LL": 2.0, "LL128": 128 / 120, "SIMPLE": 1.0}


#: Families of terms that run at the same time: of links inside a node and NICs the slower carries the time.
CARRIERS = (("wire", "copy", "fill"), ("net",))


def carrier(name: str) -> int | None:
    """Which side of `CARRIERS` a term is on; None for what costs time beside both."""
    first = name.partition("/")[0]
    return (
        None if name == "net/sharp" else next((at for at, side in enumerate(CARRIERS) if first in side), None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Sizes and groups of one ground: arrays of one shape. `share` is the part of the NICs a group has.

    `nccl_Bps` is what NCCL takes its way to reach (size over time), which for trees is less than their links.
    """

    op: str
    algorithm: str
    protocol: str
    ground: Ground
    bytes: Floats
    per_node: int
    nodes: Floats
    share: Floats
    nccl_Bps: float = float("inf")


def terms(q: Question) -> dict[str, Floats]:
    """Term → count (1 for a launch, hops, or seconds at datasheet rate); see `CARRIERS` for what overlaps."""
    if q.algorithm == "P2P":
        return _exchange(q)
    g, n = q.ground, q.nodes * q.per_node
    found = {f"launch/{g.generation}": np.full_like(n, 1e3 / g.clock_Hz)}
    if q.protocol != "LL":
        found[f"start/{_start(q)}"] = np.ones_like(n)
    inside, outside = _hops(q, n)
    found[f"hop/{q.protocol}/{_kind(g)}"] = inside * _hop_s(q, "nvlink" if g.link == "nvlink" else "pcie")
    if q.protocol == "LL":
        found[f"chunk/LL/{_kind(g)}"] = (inside + outside) * _chunk_bytes(q, n) / CHANNEL_BYTES
    wire, copied, chunk = _inside_s(q, n)
    net = _outside_s(q, n)
    sharp = q.algorithm in ("NVLS", "COLLNET_DIRECT", "COLLNET_CHAIN")
    found[f"wire/{_engine(q)}/{_kind(g)}"] = wire
    if g.link == "nvlink":
        found["copy"] = copied
    found[f"fill/{_engine(q)}"] = chunk
    if g.transport is not None:
        many = q.nodes > 1
        found[f"net-start/{_way(g)}"] = np.where(many, 1.0, 0.0)
        found[f"net-hop/{q.protocol}/{_hopping(g)}"] = outside * _hop_s(q, "net")
        # A switch that adds up sends nothing on before the node has added up, so that both sides cost time.
        found["net/sharp" if sharp else f"net/{_net(g)}"] = net
        found[f"net-fill/{_way(g)}"] = _net_fill_s(q)
    return found


def _chunk_bytes(q: Question, n: Floats) -> Floats:
    """Bytes that wait at every hop: one channel's share until further channels open, then theirs."""
    if q.algorithm == "RING":
        return np.minimum(q.bytes / n, CHANNEL_BYTES)
    share = np.maximum(np.minimum(q.bytes, CHANNEL_BYTES), q.bytes / q.ground.nccl.channels)
    return np.minimum(share, 8 * CHANNEL_BYTES)


def _hop_s(q: Question, link: str) -> float:
    """NCCL's figure for a hop; where it counts none, that of a tree."""
    version = q.ground.nccl.version
    of_way = hop_us(q.algorithm, q.protocol, link, version)
    return (of_way or hop_us("TREE", q.protocol, link, version)) * 1e-6


def _start(q: Question) -> str:
    """What is set up once: by protocol for rings and trees, by algorithm for what switches add up."""
    if q.algorithm in ("RING", "TREE"):
        return q.protocol
    return _engine(q) if q.algorithm.startswith("NVLS") else q.algorithm


def _hopping(g: Ground) -> str:
    """Transports that share their cost of a hop."""
    return "rdma" if _net(g) in ("infiniband", "roce") else _net(g)


def _way(g: Ground) -> str:
    """The transport below its kind: NICs that write into the far GPU's memory, or a stack of software."""
    return f"{'rdma' if _net(g) in RDMA else 'stack'}/{_net(g)}"


def _kind(g: Ground) -> str:
    """NVLink differs by generation; PCIe does not."""
    return g.generation if g.link == "nvlink" else g.link


def _engine(q: Question) -> str:
    return "NVLS" if q.algorithm.startswith("NVLS") else q.protocol


def _net(g: Ground) -> str:
    return (g.transport or Transport.TCP).value


def bounds_s(q: Question) -> Floats:
    """No collective is faster than its bytes over the datasheet rate of the slower link."""
    n = q.nodes * q.per_node
    if q.algorithm == "P2P":
        return np.zeros_like(n)
    return np.maximum(_inside_s(q, n)[0], _outside_s(q, n))


def _hops(q: Question, n: Floats) -> tuple[Floats, Floats]:
    """Hops on the critical path, inside nodes and between them."""
    peers, nodes = q.per_node - 1, q.nodes
    doublings = np.ceil(np.log2(np.maximum(nodes, 1)))
    if q.algorithm == "RING":
        around = 2 if q.op == "all_reduce" else 1
        between = around * (nodes - 1)
        return around * (n - 1) - between, between
    if q.algorithm == "TREE":
        return np.full_like(n, 2.0 * peers), 2 * doublings
    if q.algorithm == "NVLS_TREE":
        return np.zeros_like(n), 2 * doublings
    if q.algorithm == "COLLNET_CHAIN":
        return np.full_like(n, 2.0 * peers), np.where(nodes > 1, 1.0, 0.0)
    if q.algorithm == "PAT":
        return np.zeros_like(n), doublings
    return np.zeros_like(n), np.where(nodes > 1, 1.0, 0.0)


def _inside_s(q: Question, n: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds at the link's rate for what a GPU sends, what it copies within itself, and its first chunks."""
    size, link, ppn, none = q.bytes, q.ground.link_Bps, q.per_node, np.zeros_like(n)
    if ppn == 1:
        return none, none, none
    step = CHUNK_BYTES * q.ground.nccl.channels
    if q.algorithm.startswith(("NVLS", "COLLNET_DIRECT")):
        chunk = np.minimum(size / 2, step) / link
        if q.op == "all_reduce":
            return size * (1 + 1 / ppn) / link, none, chunk
        return size * (ppn - 1) / ppn / link, size / n / q.ground.memory_Bps, chunk
    if q.op in ("broadcast", "reduce"):
        return size / link, none, np.minimum(size / n, step) / link
    if q.algorithm in ("TREE", "COLLNET_CHAIN"):
        return 2 * size / link, none, np.minimum(size / 2, step) / link
    wire = _ring_share(q, n) * size / link * _crowding(q, n)
    return wire, size / n / q.ground.memory_Bps, np.minimum(size / n, step) / link


def _ring_share(q: Question, n: Floats) -> Floats:
    return (2 if q.op == "all_reduce" else 1) * (n - 1) / n


def _crowding(q: Question, n: Floats) -> Floats:
    """Without peer access every hop goes through the host's memory, which all pairs of an AMD host share."""
    if q.ground.link != "host" or q.ground.nccl.cpu != "amd":
        return np.ones_like(n)
    return np.full_like(n, max(q.per_node / 2, 1.0) ** _CROWD_POWER)


def _outside_s(q: Question, n: Floats) -> Floats:
    """Seconds at the NICs' line rate for what leaves one node."""
    nodes, size = q.nodes, q.bytes
    if q.ground.nic_Bps <= 0:
        return np.zeros_like(n)
    nics = q.ground.nic_Bps * q.share
    if q.op in ("broadcast", "reduce"):
        load = np.ones_like(n)
    elif q.algorithm == "RING":
        load = _ring_share(q, n)
    elif q.algorithm in ("TREE", "NVLS_TREE"):
        load = np.where(nodes > 2, 2.0, 1.0)
    elif q.algorithm == "PAT":
        load = (nodes - 1) / nodes
    else:
        load = np.ones_like(n)
    time = load * size * _FLAGS[q.protocol] / nics
    if q.algorithm == "TREE" and q.protocol != "LL":
        time = np.maximum(time, size / q.nccl_Bps)
    return np.where(nodes > 1, time, 0.0)


def _net_fill_s(q: Question) -> Floats:
    """Seconds at the NICs' rate for the first buffers, which cross before the pipeline is full."""
    step = BUFFER_BYTES * q.ground.nccl.channels
    nics = np.maximum(q.ground.nic_Bps * q.share, 1.0)
    return np.where(q.nodes > 1, np.minimum(q.bytes, step) / nics, 0.0)


def _exchange(q: Question) -> dict[str, Floats]:
    """All-to-all and send/receive: every peer is its own message; the own block is copied."""
    g, n = q.ground, q.nodes * q.per_node
    pair = q.op == "send_recv"
    each = q.bytes if pair else q.bytes / n
    small = each <= P2P_LL_BYTES
    peers = np.ones_like(n) if pair else n - 1
    near = np.where(q.nodes > 1, 0.0, 1.0) if pair else np.full_like(n, q.per_node - 1.0)
    far = peers - near
    wire = near * each / g.link_Bps * (_crowding(q, n) if not pair else 1.0)
    leaving = each * q.per_node * (1.0 if pair else far)
    net = np.where(far > 0, leaving / np.maximum(g.nic_Bps * q.share, 1.0), 0.0)
    found = {
        f"launch/{g.generation}": np.full_like(n, 1e3 / g.clock_Hz),
        "start/P2P-LL": np.where(small, 1.0, 0.0),
        "start/P2P": np.where(small, 0.0, 1.0),
        "peer": near,
        f"wire/P2P/{_kind(g)}": wire,
    }
    if g.link == "nvlink":
        found["copy"] = np.full_like(n, 0.0) if pair else each / g.memory_Bps
    if g.transport is not None:
        found["net-peer"] = far
        found[f"net-start/{_way(g)}"] = np.where(far > 0, 1.0, 0.0)
        found[f"net/{_net(g)}"] = net
    return found
