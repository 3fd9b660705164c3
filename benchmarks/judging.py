"""Judging a generated run of 1,024 GPUs on 128 nodes with all pairs of nodes."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure


def run() -> list[Figure]:
    """Seconds and memory of `assay judge` as a process, on a run of about 200,000 lines."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["--seed", "1", "--nodes", "128", "--gpus", "8", "--pairs", "all", "--restarts", "5"]
        subprocess.run([sys.executable, "-m", "assay.store.generate", str(out), *words], check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "assay", "judge", str(out), "--json"],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss / 2**20
    return [
        Figure(what="judge 1,024 GPUs, 8,128 pairs", value=f"{seconds:.1f} s", reach="10 s"),
        Figure(what="processor time of it, on whatever load", value=f"{busy:.1f} s"),
        Figure(what="memory of the largest process", value=f"{peak:.2f} GiB", reach="1 GB"),
    ]
