"""A step on two ranks of this machine from a trace of one, against the measured one.

A small model is trained under DistributedDataParallel with one thread a rank, on one rank and on two, and
traced; the all-reduces of this machine are measured between; then `assay validate traces` compares.

Run: python validation/traced.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from assay.api.measuring import MeasureOptions, measure
from assay.api.tracing import validate_traces

MODEL = {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 4096, "sequence": 128}
BATCH, STEPS = 4, 8


def train(out: str) -> None:
    """One rank of a traced job; torchrun's environment says which."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule

    from assay.measure.transformer import Shape, Transformer
    from assay.measure.worker import keep_memory

    keep_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(Transformer(Shape(**MODEL)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    text = torch.randint(MODEL["vocabulary"], (BATCH, MODEL["sequence"] + 1))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(text[:, :-1], text[:, 1:]).backward()
        optimizer.step()

    def keep(trace: profile) -> None:
        if dist.get_rank() == 0:
            trace.export_chrome_trace(out)

    plan = schedule(wait=3, warmup=2, active=STEPS, repeat=1)
    traced = profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan, on_trace_ready=keep
    )
    with traced:
        for _ in range(5 + STEPS):
            step()
            traced.step()
    dist.barrier()
    dist.destroy_process_group()


def trace(ranks: int, out: Path) -> Path:
    """The trace of a job on so many ranks."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    subprocess.run(
        [*map(str, words), __file__, "--out", str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return out


def main(runs: int) -> None:
    """Print every comparison and the median of each kind."""
    errors: dict[str, list[float]] = defaultdict(list)
    for number in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            one = trace(1, Path(folder) / "one.json")
            options = MeasureOptions(
                out=Path(folder) / "run",
                ranks=2,
                suite="quick",
                restarts=1,
                only=("environment", "gemm", "memory", "peer", "collectives"),
            )
            measured = measure(options)
            two = trace(2, Path(folder) / "two.json")
            for row in validate_traces([one, two], cluster=str(measured)).rows:
                if row.predicted is None:
                    raise SystemExit(f"{row.id}: {row.skipped}")
                every = errors[f"{row.groups[0]} ({row.id})"]
                every.append(row.predicted / row.measured - 1)
                said = f"predicted {row.predicted:.4f} s, measured {row.measured:.4f} s, {every[-1]:+.1%}"
                print(f"run {number} {row.id}: {said}", flush=True)
    for name, every in errors.items():
        print(f"{name}: median error {statistics.median(every):+.1%} over {len(every)} runs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", help="be one rank of a traced job; the trace goes here")
    asked = parser.parse_args()
    if asked.out:
        train(asked.out)
    else:
        main(asked.runs)
