"""How fast one all-reduce is predicted, in a process of its own: nothing cached but the shipped graphs.

Peers, same work, such a machine: ASTRA-sim 1,024 GPUs in 3.4 to 5.7 s and 353 MB; 4,096 in 15 to 247 s and
5.4 GB.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.figure import Figure

_WORK = """
import json, resource, sys, time
from assay.catalog.clusters import cluster
from assay.fabric.collective import collective_time
from assay.fabric.curve import curve
from assay.fabric.parameters import shipped
from assay.fabric.placement import Placement
described = cluster("dgx-h100").of(int(sys.argv[1]) // 8)
shipped()
collective_time(described, "all_gather", 1e9, Placement.of(8, 2))
found = []
for _ in range(20):
    curve.cache_clear()
    start = time.perf_counter()
    collective_time(described, "all_reduce", 1e9, Placement.of(8, described.count))
    found.append(time.perf_counter() - start)
print(json.dumps([min(found), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def _measured(gpus: int) -> tuple[float, float]:
    """Seconds of one prediction of that many GPUs, and the whole process's memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _WORK, str(gpus)], capture_output=True, text=True, check=True, timeout=120
    )
    seconds, size = json.loads(done.stdout)
    return seconds, size


def run() -> list[Figure]:
    """One all-reduce over 8,192 GPUs on rails, its memory, and 16,384 against 1,024 GPUs."""
    (seconds, size), (small_s, _), (large_s, _) = _measured(8192), _measured(1024), _measured(16384)
    return [
        Figure(what="one all-reduce over 8,192 GPUs", value=f"{seconds * 1e3:.1f} ms", reach="10 ms"),
        Figure(what="the whole process", value=f"{size / 1e6:.0f} MB", reach="100 MB"),
        Figure(what="16,384 against 1,024 GPUs", value=f"{large_s / small_s:.2f}×", reach="2×"),
    ]
