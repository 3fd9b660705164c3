"""A training job for tests: a step is work, an all-reduce of 1 MB and a log line; a checkpoint every 20.

Environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; FOLDER for checkpoints and the file `spike`, which
makes the loss jump while it is there. Goes on from its last checkpoint.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = int(os.environ.get("STEPS", "100000"))
FOLDER = Path(os.environ["FOLDER"])


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    weights, first, kept = torch.zeros(250_000), 0, FOLDER / "checkpoint.pt"
    if kept.exists():
        saved = torch.load(kept)
        weights, first = saved["weights"], saved["step"]
    print(f"rank {rank}/{world} goes on from step {first}", flush=True)
    last_s = time.perf_counter()
    for step in range(first, STEPS):
        begin_s = time.perf_counter()
        while time.perf_counter() - begin_s < 0.02:
            torch.mm(torch.ones(64, 64), torch.ones(64, 64))
        busy_s = time.perf_counter() - begin_s
        time.sleep(0.15)
        gradient = torch.ones_like(weights)
        dist.all_reduce(gradient)
        weights += gradient / world
        now_s = time.perf_counter()
        loss = 2.0 + 0.01 * (step % 7) + (50.0 if (FOLDER / "spike").exists() else 0.0)
        print(
            f"step {step} loss {loss:.3f} step_time {now_s - last_s:.4f} s compute_time: {busy_s:.4f} s",
            flush=True,
        )
        last_s = now_s
        if step % 20 == 19 and rank == 0:
            print(f"saving checkpoint at step {step}", flush=True)
            torch.save({"weights": weights, "step": step + 1}, kept.with_suffix(".new"))
            kept.with_suffix(".new").replace(kept)
            print(f"saved checkpoint at step {step}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as fault:
        print(f"[rank{os.environ['RANK']}]: RuntimeError: {fault}", flush=True)
        sys.stdout.flush()
        os._exit(1)
