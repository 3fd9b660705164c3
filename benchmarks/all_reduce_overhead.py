"""Our all-reduce timing against a bare torch.distributed loop, the two alternating in one run."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.figure import Figure

_BYTES = 16 * 2**20
_ROUNDS, _CALLS = 25, 8


def run() -> list[Figure]:
    """Ratio of the medians over rounds; each round times both, in turn first."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        here, there = spawn.Pipe(duplex=False)
        ranks = [spawn.Process(target=_rank, args=(rank, folder, there)) for rank in (0, 1)]
        for rank in ranks:
            rank.start()
        ours, bare = here.recv()
        for rank in ranks:
            rank.join()
    ratio = statistics.median(ours) / statistics.median(bare)
    return [
        Figure(what="bare loop, all-reduce 16 MiB, 2 ranks", value=f"{statistics.median(bare) * 1e3:.2f} ms"),
        Figure(what="the same through measure/, over bare", value=f"{ratio:.3f}", reach="0.95 … 1.05"),
    ]


def _rank(rank: int, folder: str, results: Connection) -> None:
    import torch
    import torch.distributed as dist

    from assay.measure.benchmarks.collectives import _Pipelined
    from assay.measure.context import Context
    from assay.measure.operations import OPERATIONS
    from assay.store.append import LineFile, SampleFile

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    context = Context(
        run="bench",
        folder=folder,
        scratch=folder,
        benchmark="collectives",
        replicate=0,
        rank=rank,
        numbers=(0, 1),
        local_rank=rank,
        hosts=("here", "here"),
        device="cpu",
        backend="gloo",
        seed=1,
        command_time_s=time.time(),
        launched_s=time.time(),
        deadline_s=time.time() + 600,
        settings={},
        units={},
        crowded=None,
        lines=LineFile(Path(folder) / f"rank-{rank:04d}.jsonl"),
        samples=SampleFile(Path(folder) / f"rank-{rank:04d}.f64", "samples"),
    )
    operation = OPERATIONS["all_reduce"](context, _BYTES)
    operation.fill()
    tensor = torch.ones(_BYTES // 4)

    def bare_s() -> float:
        dist.all_reduce(tensor)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(_CALLS):
            dist.all_reduce(tensor)
        return (time.perf_counter() - begin) / _CALLS

    def ours_s() -> float:
        return _Pipelined.of(context, operation, count=_CALLS).mean_s

    ours, bare = [], []
    for number in range(_ROUNDS):
        for is_ours in (number % 2 == 0, number % 2 == 1):
            (ours if is_ours else bare).append(ours_s() if is_ours else bare_s())
        tensor.fill_(1.0)
        operation.fill()
    if rank == 0:
        results.send((ours, bare))
    dist.barrier()
    dist.destroy_process_group()
