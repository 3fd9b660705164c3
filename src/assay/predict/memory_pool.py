"""A model or volume in the pooled memory of an NVLink domain: does it fit, and what do remote accesses cost?

Data spread evenly over n GPUs, each reading all of it, find the part (n − 1)/n elsewhere. Local bytes come at
the memory's bandwidth, remote ones at what a GPU's links carry; both go on at the same time, so that a pass
over the data takes the longer of the two. The alternatives: a copy of everything in each GPU, where it fits;
or fetching what does not fit from the host's memory over PCIe or a coherent link.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.cluster import SWITCH, Cluster, Node
from assay.errors import InputError

#: Parts of the datasheet rate that plain loads reach: memory, direct links, the host's link
#: (docs/models/network.md for links; memory as kernels that stream).
_MEMORY_FRAC, _LINK_FRAC, _HOST_FRAC = 0.9, 0.8, 0.8
#: A superchip's CPU and its GPUs: NVLink-C2C, one direction, shared by the GPUs of a socket (NVIDIA Grace).
_C2C_Bps = 450e9
#: Memory that the driver, the context and buffers keep.
_RESERVE_FRAC = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to hold the data: whether it fits, and seconds for every GPU to read all of it once.

    `setup_s` is paid once before: copies. None for `pass_s` where the data cannot be held so.
    """

    name: str
    fits: bool
    pass_s: float | None
    setup_s: float
    bound_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledMemory:
    """What a domain of `gpus` GPUs holds together, and the ways to put `data_bytes` there."""

    data_bytes: float
    gpus: int
    domain_gpus: int
    pool_bytes: float
    each_bytes: float
    remote_frac: float
    local_Bps: float
    link_Bps: float
    host_Bps: float
    ways: tuple[Way, ...]

    @property
    def fits(self) -> bool:
        """Whether the pool holds the data."""
        return self.ways[0].fits

    @property
    def best(self) -> Way | None:
        """The fastest way in which the data fit."""
        held = [way for way in self.ways if way.fits and way.pass_s is not None]
        return min(held, key=lambda way: way.pass_s or 0.0, default=None)


def memory_pool(
    cluster: Cluster,
    data_bytes: float,
    *,
    gpus: int | None = None,
    read_frac: float = 1.0,
    locality: float = 0.0,
) -> PooledMemory:
    """The pool of one NVLink domain of the cluster, or of `gpus` of it.

    `read_frac` is the part of the data that a GPU reads in a pass, `locality` the part of its reads that
    placement keeps local beyond chance. Raises `InputError` where there is no domain, or too few GPUs in it.
    """
    gpu = cluster.node.gpu
    if gpu is None or gpu.link is None or gpu.link_Bps is None:
        raise InputError(
            f"the GPUs of {cluster.id} have no direct links to pool memory over",
            fix="read what does not fit through the host, or choose a system with NVLink or xGMI",
        )
    domain = len(cluster.node.gpus) * cluster.domain_nodes
    count = domain if gpus is None else gpus
    if not 1 <= count <= domain:
        raise InputError(
            f"{count} GPUs, but an NVLink domain of {cluster.id} has {domain}", fix=f"use 1 to {domain}"
        )
    if data_bytes <= 0 or not 0 < read_frac <= 1 or not 0 <= locality <= 1:
        raise InputError(
            f"{data_bytes:g} B, of which {read_frac:g} are read with {locality:g} of them kept local"
        )
    each = gpu.memory_bytes * (1 - _RESERVE_FRAC)
    seat = cluster.node.gpus[0]
    links = seat.links.get(SWITCH, 0) or sum(seat.links.values())
    link = links * gpu.link_Bps * _LINK_FRAC
    local = gpu.memory_Bps * _MEMORY_FRAC
    host = _host_Bps(cluster.node) * _HOST_FRAC
    remote = (count - 1) / count * (1 - locality)
    read = data_bytes * read_frac
    return PooledMemory(
        data_bytes=data_bytes,
        gpus=count,
        domain_gpus=domain,
        pool_bytes=each * count,
        each_bytes=each,
        remote_frac=remote,
        local_Bps=local,
        link_Bps=link,
        host_Bps=host,
        ways=(
            _pooled(data_bytes <= each * count, read, remote, local, link),
            _copied(data_bytes, each, read, local, link, count),
            _hosted(data_bytes, each, read, local, host),
        ),
    )


def _host_Bps(node: Node) -> float:
    """Datasheet rate between one GPU and its CPU's memory."""
    seat = node.gpus[0]
    if seat.c2c_Bps is not None:
        return seat.c2c_Bps
    if node.gpu is not None and node.gpu.form == "superchip":
        return _C2C_Bps / sum(other.socket == seat.socket for other in node.gpus)
    return seat.slot.Bps


def _pooled(fits: bool, read: float, remote: float, local: float, link: float) -> Way:
    times = {"links": read * remote / link, "memory": read * (1 - remote) / local}
    bound = max(times, key=lambda name: times[name])
    return Way(name="pooled", fits=fits, pass_s=times[bound] if fits else None, setup_s=0.0, bound_by=bound)


def _copied(data: float, each: float, read: float, local: float, link: float, count: int) -> Way:
    """Everything in each GPU, gathered over the links once."""
    fits = data <= each
    setup = data * (count - 1) / count / link if fits else 0.0
    return Way(
        name="copied", fits=fits, pass_s=read / local if fits else None, setup_s=setup, bound_by="memory"
    )


def _hosted(data: float, each: float, read: float, local: float, host: float) -> Way:
    """As much as fits in the GPU, the rest read from the host's memory in every pass."""
    kept = min(1.0, each / data)
    times = {"host link": read * (1 - kept) / host, "memory": read * kept / local}
    bound = max(times, key=lambda name: times[name])
    return Way(name="host", fits=True, pass_s=times[bound], setup_s=0.0, bound_by=bound)
