"""How long `assay --help` takes as a process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.figure import Figure


def run() -> list[Figure]:
    """Median of 15 starts, after one to warm the disk cache."""
    seconds = []
    for _ in range(16):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "assay", "--help"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    return [Figure(what="assay --help", value=f"{statistics.median(seconds[1:]):.3f} s", reach="0.15 s")]
