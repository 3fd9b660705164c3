"""Seeded inputs for the doctor's benchmarks: flight-recorder dumps, profiler traces, an NCCL log.

python benchmarks/doctor_inputs.py recorder OUT --ranks 64 --entries 2000
python benchmarks/doctor_inputs.py trace OUT --ranks 8 --events 48000
python benchmarks/doctor_inputs.py log OUT --bytes 1000000000
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
from pathlib import Path

SIZES = ([[1048576]], [[26214400]], [[4096, 8192]], [[1]])


def recorder(folder: Path, ranks: int, entries: int, seed: int = 1) -> None:
    """One pickle per rank; the last rank never enters the last all-reduce, so all others wait for it."""
    sizes = [random.Random(seed + seq).choice(SIZES) for seq in range(entries)]
    frames = [
        {"name": name, "filename": "/opt/train/megatron/schedules.py", "line": line}
        for name, line in (("all_reduce", 812), ("forward_backward", 410), ("train_step", 233), ("main", 40))
    ]
    for rank in range(ranks):
        mine = entries - 1 if rank == ranks - 1 else entries
        records = [
            {
                "frames": frames,
                "record_id": seq,
                "pg_id": 0,
                "process_group": ("0", "default_pg"),
                "collective_seq_id": seq,
                "p2p_seq_id": 0,
                "op_id": seq,
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1_700_000_000_000_000_000 + seq * 1_000_000 + rank * 1000,
                "input_sizes": sizes[seq],
                "input_dtypes": ["BFloat16"],
                "output_sizes": sizes[seq],
                "output_dtypes": ["BFloat16"],
                "state": "scheduled" if seq == entries - 1 else "completed",
                "is_p2p": False,
                "retired": seq != entries - 1,
                "timeout_ms": 600000,
            }
            for seq in range(mine)
        ]
        dump = {
            "version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
            "pg_status": {
                "0": {"last_enqueued_collective": mine - 1, "last_completed_collective": entries - 2}
            },
            "entries": records,
        }
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump))


def trace(folder: Path, ranks: int, events: int, seed: int = 1) -> None:
    """One trace per rank of about `events` events; rank 3 computes a tenth longer, so the others wait."""
    for rank in range(ranks):
        draw = random.Random(seed)
        now, rows = 0.0, []
        layers = 60
        steps = max(1, events // (layers * 2 + 2))
        for step in range(steps):
            start = now
            for layer in range(layers):
                compute = 900 * (1 + 0.05 * draw.random()) * (1.1 if rank == 3 else 1.0)
                rows.append(_kernel(f"sm90_xmma_gemm_bf16_{layer % 7}", 7, now, compute))
                now += compute
                wait = 0.0 if rank == 3 else 90.0
                rows.append(
                    _kernel(
                        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", 20, now, 200 + wait
                    )
                )
                now += 200 + wait
            rows.append(
                {
                    "ph": "X",
                    "cat": "user_annotation",
                    "name": f"ProfilerStep#{step}",
                    "pid": 1,
                    "tid": 1,
                    "ts": start,
                    "dur": now - start,
                }
            )
        document = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
            "traceEvents": rows,
        }
        (folder / f"trace_{rank}.json").write_text(json.dumps(document))


def _kernel(name: str, stream: int, ts: float, dur: float) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": round(ts, 3),
        "dur": round(dur, 3),
        "args": {
            "device": 0,
            "stream": stream,
            "correlation": int(ts),
            "grid": [128, 1, 1],
            "block": [256, 1, 1],
        },
    }


def log(file: Path, size_bytes: int, seed: int = 1) -> None:
    """An NCCL log of 256 ranks with collectives logged, ending with a port error on one node."""
    draw = random.Random(seed)
    with file.open("w") as out:
        for rank in range(256):
            out.write(_line(rank, f"Bootstrap : Using eth0:10.0.{rank // 8}.1<0>"))
            out.write(_line(rank, "Using network IB"))
            out.write(
                _line(
                    rank,
                    f"comm 0x55d0 rank {rank} nRanks 256 nNodes 32 localRanks 8 localRank {rank % 8} MNNVL 0",
                )
            )
        count = 0
        while out.tell() < size_bytes:
            rank = draw.randrange(256)
            count += 1
            buffer = f"0x7f3c{count:08x}"
            call = f"AllReduce: opCount {count // 256:x} sendbuff {buffer} recvbuff {buffer} count 26214400"
            out.write(
                _line(
                    rank,
                    f"{call} datatype 9 op 0 root 0 comm 0x55d0c0ffee00 [nranks=256] stream 0x55d0deadbe00",
                )
            )
            if count % 8 == 0:
                peer = (rank + 1) % 256
                out.write(
                    _line(
                        rank,
                        f"Channel {count % 16:02}/0 : {rank}[{rank % 8}] -> {peer}[{peer % 8}] via P2P/CUMEM",
                    )
                )
            if count % 16 == 0:
                out.write(
                    f"[rank{rank}] step {count} loss: 2.31 step time: 1.52 s tokens per second 12345.6\n"
                )
        out.write(
            "\nnode-7:1056:3056 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error\n"
        )


def _line(rank: int, text: str) -> str:
    return f"node-{rank // 8}:{1000 + rank}:{3000 + rank} [{rank % 8}] NCCL INFO {text}\n"


def main() -> None:
    """Make one kind of input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["recorder", "trace", "log"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--events", type=int, default=48000)
    parser.add_argument("--bytes", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.kind == "log":
        log(given.out, given.bytes, given.seed)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    if given.kind == "recorder":
        recorder(given.out, given.ranks, given.entries, given.seed)
    else:
        trace(given.out, given.ranks, given.events, given.seed)


if __name__ == "__main__":
    main()
