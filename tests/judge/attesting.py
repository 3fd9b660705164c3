"""Attestations and the results beside them, for the tests of judging."""

from __future__ import annotations

from judging import reading

from assay.domain.attestation import Attestation, Calls, Counted, Told
from assay.domain.event import Event
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject

GB = 10**9
LINK = Recipe.of(bytes=4096, transport="nccl", statistic="median", span="nodes", load="round")


def link(near, far, restart=0):
    return reading(4e10, subject=f"link:{near}>{far}", id="peer.bandwidth", recipe=LINK, restart=restart)


def busbw(size, *, ranks=2):
    recipe = _call(size, ranks) | {"method": "pipelined", "statistic": "mean"}
    return reading(3e11, subject="cluster", id="collective.all_reduce.busbw", recipe=Recipe.of(recipe))


def choice(size, taken, what="choice", *, ranks=2):
    return reading(
        taken, subject="cluster", id=f"collective.all_reduce.{what}", recipe=Recipe.of(_call(size, ranks))
    )


def _call(size, ranks):
    return {"bytes": size, "ranks": ranks, "dtype": "fp32", "transport": "nccl"}


def attestation(
    host,
    rank,
    *,
    benchmark="pairs",
    replicate=0,
    transport="nccl",
    asked=10 * GB,
    calls=None,
    rdma=10 * GB,
    ports=None,
    netdev=0,
    nvlink=None,
    nvlink_pair=None,
    network="IB",
    channels="NET/IB",
    version="2.27.3",
    rails=None,
):
    """A node's first rank. A text in place of bytes is why they are not known; None: no such device."""
    asks = [Calls(op="send", bytes=asked, ranks=2, nodes=2, here=1, count=1)]
    if calls is not None:
        whole = [call if len(call) == 5 else (*call, 2, 1) for call in calls]  # else two nodes, one rank each
        asks = [Calls(op=op, bytes=m, ranks=n, nodes=nodes, here=g, count=1) for op, m, n, nodes, g in whole]
    devices = [("rdma", name, sent) for name, sent in (ports or {"mlx5_0/1": rdma}).items()]
    devices += [("netdev", "eth0", netdev), ("nvlink", f"gpu:{host}/0", nvlink)]
    devices += [("nvlink_pair", f"gpu:{host}/0", nvlink_pair)]
    return Attestation(
        benchmark=benchmark,
        replicate=replicate,
        rank=rank,
        host=host,
        transport=transport,
        library=Told(value="/usr/lib/libnccl.so.2", source="/proc/self/maps"),
        version=Told(value=version),
        network=Told(value=network) if network else Told(value=None, reason="the log names no network"),
        plugin=Told(value=None, reason="the log names no plugin for the network"),
        channels=Told(value=channels),
        memory=Told(value="GPUDirect RDMA"),
        calls=tuple(asks),
        counted=tuple(_counted(*device) for device in devices if device[2] is not None),
        rails=tuple((rails or {}).items()),
        source=f"rank-{rank:04d}.jsonl:9",
    )


def _counted(over, device, sent):
    if isinstance(sent, str):
        return Counted(over=over, device=device, bytes=None, reason=sent)
    return Counted(over=over, device=device, bytes=float(sent), source="counter")


def started(host, rank, *, done, proof="rdma", benchmark="pairs"):
    """The events of a worker that has begun, and ended where it is `done`."""
    kinds = ("worker_started", "worker_done") if done else ("worker_started",)
    details = {"benchmark": benchmark, "replicate": 0, "host": host, "proof": proof}
    subject = Subject("rank", str(rank))
    return [Event(kind=kind, time_s=1.0, subject=subject, details=details, source="r:1") for kind in kinds]


def reading_of_shares(node, *, rdma, netdev, benchmark="pairs", transport="nccl"):
    """What runs wrote before there were attestations."""
    return [
        reading(
            share,
            subject=f"node:{node}",
            id="network.counted_share",
            recipe=Recipe.of(benchmark=benchmark, over=over, transport=transport),
            reason=None if share is not None else "no device counts bytes",
            source="rank-0000.jsonl:9",
        )
        for over, share in (("rdma", rdma), ("netdev", netdev))
    ]
