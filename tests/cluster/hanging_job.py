"""One rank of a Gloo job of eight: tensor, pipeline and data groups of two each, with the flight recorder on.

`hanging_job.py FAULT CULPRIT`: at the third step the culprit is killed, stops in its loader, or
broadcasts where the others all-reduce. Who sees an error holds still, as a job does that waits for its agent.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.control_plane import _worker_server

STEPS = 3


class Loader:
    """Batches without end, until one does not come."""

    def __init__(self, stops_at: int | None) -> None:
        self.step, self.stops_at = 0, stops_at

    def __next__(self) -> torch.Tensor:
        self.step += 1
        if self.step == self.stops_at:
            reader, _writer = os.pipe()
            os.read(reader, 1)  # nobody writes
        return torch.ones(64)


def groups_of(rank: int) -> dict[str, dist.ProcessGroup]:
    """The groups of a rank; every rank makes all of them, in one order."""
    mine: dict[str, dist.ProcessGroup] = {}
    for name, apart in (("tensor", 1), ("pipeline", 2), ("data", 4)):
        for first in range(8):
            if not first & apart:
                group = dist.new_group([first, first | apart], timeout=timedelta(minutes=10))
                if rank in (first, first | apart):
                    mine[name] = group
    return mine


def train(rank: int, fault: str | None) -> None:
    groups = groups_of(rank)
    loader = Loader(STEPS if fault == "stopped" else None)
    for step in range(1, 1000):
        batch = next(loader)
        dist.all_reduce(batch, group=groups["tensor"])
        if step == STEPS and fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        dist.broadcast(batch, src=rank & ~2, group=groups["pipeline"])
        if step == STEPS and fault == "odd":
            dist.broadcast(batch, src=rank, group=groups["data"])
        dist.all_reduce(batch, group=groups["data"])


def main() -> None:
    fault, culprit = sys.argv[1], int(sys.argv[2])
    rank = int(os.environ["RANK"])
    with _worker_server(os.environ["TORCH_WORKER_SERVER_SOCKET"]):
        dist.init_process_group("gloo", timeout=timedelta(minutes=10))
        try:
            train(rank, fault if rank == culprit else None)
        except RuntimeError as error:
            print(f"[rank{rank}]: {error}", flush=True)
            time.sleep(600)


if __name__ == "__main__":
    main()
