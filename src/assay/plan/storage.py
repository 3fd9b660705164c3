"""What training asks of storage, and what that storage leaves of the GPUs' time.

Checkpoints hold every weight in bf16 and, in fp32, its master copy and both moments: 14 bytes a weight. The
printed sizes of Llama 3.1 8B, 70B and 405B, Nemotron-4 and BLOOM agree within 3 % once their "GB" are read as
GiB (docs/plan/storage.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.domain.layout import Layout
from assay.domain.workload import Workload
from assay.errors import InputError

WEIGHT_BYTES, STATE_BYTES = 2.0, 12.0

#: A blocking copy of one rank's share to host memory, as asynchronous saves begin with (PCIe 4 x16, half its
#: rate).
HOST_COPY_Bps = 12.5e9
#: Bytes of a token in a packed data set of two-byte or four-byte ids.
TOKEN_BYTES = 4.0
#: Size of one random read of such a data set.
READ_BYTES = 4096.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A shared file system: both directions in all and of one node, 4k random reads a second, and their
    latency."""

    id: str
    read_Bps: float
    write_Bps: float
    node_read_Bps: float
    node_write_Bps: float
    read_4k_per_s: float
    latency_s: float
    source: str = ""

    def __post_init__(self) -> None:
        for name in (
            "read_Bps",
            "write_Bps",
            "node_read_Bps",
            "node_write_Bps",
            "read_4k_per_s",
            "latency_s",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"storage {self.id}: {name} = {value:g}; more than zero is wanted")


#: The three classes of NVIDIA's DGX SuperPOD H100 storage guidance, for one scalable unit of 32 nodes; IOPS
#: and latency are the floor of the public rental guide (1000k IOPS under 1 ms), which that guidance leaves
#: open.
CLASSES: dict[str, Storage] = {
    one.id: one
    for one in (
        Storage(
            id="good",
            read_Bps=15e9,
            write_Bps=7e9,
            node_read_Bps=4e9,
            node_write_Bps=2e9,
            read_4k_per_s=1e6,
            latency_s=1e-3,
            source="as remembered of DGX SuperPOD H100 guidance, storage, good",
        ),
        Storage(
            id="better",
            read_Bps=40e9,
            write_Bps=20e9,
            node_read_Bps=8e9,
            node_write_Bps=4e9,
            read_4k_per_s=1e6,
            latency_s=1e-3,
            source="as remembered of DGX SuperPOD H100 guidance, storage, better",
        ),
        Storage(
            id="best",
            read_Bps=125e9,
            write_Bps=62e9,
            node_read_Bps=40e9,
            node_write_Bps=20e9,
            read_4k_per_s=1e6,
            latency_s=1e-3,
            source="as remembered of DGX SuperPOD H100 guidance, storage, best",
        ),
    )
}
#: Nodes of the unit that the classes are given for; a larger cluster has its aggregate in proportion.
UNIT_NODES = 32


def scaled(storage: Storage, nodes: int) -> Storage:
    """A class's aggregate for so many nodes: never below one unit's."""
    units = max(1.0, nodes / UNIT_NODES)
    return Storage(
        id=storage.id,
        read_Bps=storage.read_Bps * units,
        write_Bps=storage.write_Bps * units,
        node_read_Bps=storage.node_read_Bps,
        node_write_Bps=storage.node_write_Bps,
        read_4k_per_s=storage.read_4k_per_s * units,
        latency_s=storage.latency_s,
        source=storage.source,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One save: bytes in all and of the rank that writes most, seconds that training stands, and of the
    write."""

    total_bytes: float
    rank_bytes: float
    blocking_s: float
    write_s: float
    load_s: float
    asynchronous: bool

    def fits_in(self, interval_s: float) -> bool:
        """Whether a write ends before the next begins."""
        return self.write_s <= interval_s + self.blocking_s


def checkpoint_bytes(workload: Workload) -> float:
    """Bytes of a whole checkpoint: 14 a weight; of adapters alone where only they are trained."""
    return (WEIGHT_BYTES + STATE_BYTES) * workload.trained_parameters


def rank_bytes(workload: Workload, layout: Layout) -> float:
    """Bytes that the busiest rank writes when all ranks write at once, each a part of its own shard.

    Sharded optimizer state is spread over every rank; else one replica's ranks write all of it.
    """
    total = checkpoint_bytes(workload)
    replica = layout.tp * layout.pp * (layout.cp if layout.sharding != "none" else 1)
    writers = layout.ranks if layout.sharding != "none" else replica
    return total / writers


def checkpoint(
    workload: Workload, layout: Layout, storage: Storage, *, nodes: int, asynchronous: bool = True
) -> Checkpoint:
    """Save and load times: the slower of the whole system, all nodes together, and the busiest rank's
    node."""
    total, mine = checkpoint_bytes(workload), rank_bytes(workload, layout)
    writers = max(1, min(nodes, math.ceil(total / mine / max(layout.ranks / nodes, 1))))
    # Every replica reads all weights and its shard of the state again.
    reread = total + WEIGHT_BYTES * workload.trained_parameters * (layout.dp - 1)
    return save_of(
        total, mine, storage, nodes=nodes, writers=writers, reread=reread, asynchronous=asynchronous
    )


def save_of(
    total: float,
    mine: float,
    storage: Storage,
    *,
    nodes: int,
    reread: float,
    writers: int | None = None,
    asynchronous: bool = True,
) -> Checkpoint:
    """A save of `total` bytes, `mine` by the busiest rank, written by `writers` nodes (None: all of them)."""
    write_s = total / min(storage.write_Bps, (writers or nodes) * storage.node_write_Bps)
    load_s = reread / min(storage.read_Bps, nodes * storage.node_read_Bps)
    return Checkpoint(
        total_bytes=total,
        rank_bytes=mine,
        blocking_s=mine / HOST_COPY_Bps if asynchronous else write_s,
        write_s=write_s,
        load_s=load_s,
        asynchronous=asynchronous,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNeed:
    """What a data pipeline asks for against what storage gives; `utilisation_frac` is what it leaves of the
    GPUs."""

    need_Bps: float
    need_4k_per_s: float
    give_Bps: float
    give_4k_per_s: float
    readers: int
    utilisation_frac: float
    bound_by: str


def input_need(
    storage: Storage,
    *,
    samples_per_s: float,
    sample_bytes: float,
    nodes: int,
    readers_per_node: int = 32,
    read_bytes: float = READ_BYTES,
) -> InputNeed:
    """Need and supply of random reads of `read_bytes` each, read ahead of the step.

    By Little's law, `readers` outstanding reads of latency L give readers/L a second, whatever the system
    could.
    """
    reads = math.ceil(sample_bytes / read_bytes)
    need_Bps, need_per_s = samples_per_s * sample_bytes, samples_per_s * reads
    give_Bps = min(storage.read_Bps, nodes * storage.node_read_Bps)
    readers = nodes * readers_per_node
    supply = {
        "bandwidth": give_Bps / need_Bps if need_Bps else math.inf,
        "iops": storage.read_4k_per_s / need_per_s if need_per_s else math.inf,
        "latency": readers / storage.latency_s / need_per_s if need_per_s else math.inf,
    }
    bound_by = min(supply, key=lambda name: supply[name])
    return InputNeed(
        need_Bps=need_Bps,
        need_4k_per_s=need_per_s * max(read_bytes / READ_BYTES, 1.0),
        give_Bps=give_Bps,
        give_4k_per_s=min(storage.read_4k_per_s, readers / storage.latency_s),
        readers=readers,
        utilisation_frac=min(1.0, supply[bound_by]),
        bound_by=bound_by if supply[bound_by] < 1 else "gpus",
    )
