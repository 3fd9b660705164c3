"""How long the doctor takes for what large jobs leave behind, and its peak memory, as a process.

`DOCTOR_FULL=1` also takes 256 ranks, 8 x 480,000 events and a log of 1 GB. For the dumps of 64 ranks, the
time of PyTorch's own analyser, `torchfrtrace`, stands beside it where it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure import Figure

RUN = "import sys; from assay.app.doctor import doctor; sys.exit(doctor(standalone_mode=False))"
#: What is measured, whether it is always, how it is made, and what is to be reached on 2 cores.
CASES = (
    ("recorder, 64 ranks x 2,000", True, "recorder --ranks 64 --entries 2000", "2 s, 250 MB"),
    ("recorder, 256 ranks x 2,000", False, "recorder --ranks 256 --entries 2000", "9 s, 800 MB"),
    ("Kineto, 8 ranks x 48,000", True, "trace --ranks 8 --events 48000", "4 s, 300 MB"),
    ("Kineto, 8 ranks x 480,000", False, "trace --ranks 8 --events 480000", "40 s"),
    ("NCCL log, 100 MB", True, "log --bytes 100000000", "6 s, 300 MB"),
    ("NCCL log, 1 GB", False, "log --bytes 1000000000", "60 s, 300 MB"),
)


def run() -> list[Figure]:
    """One run each; the wall-clock time of a busy machine is longer than the work."""
    figures = []
    for what, always, made, reach in CASES:
        if always or os.environ.get("DOCTOR_FULL"):
            with tempfile.TemporaryDirectory() as folder:
                kind, *options = made.split()
                # In a process of its own: the peak memory of a child begins with that of its parent.
                script = [
                    sys.executable,
                    "-m",
                    "benchmarks.doctor_inputs",
                    kind,
                    f"{folder}/{kind}",
                    *options,
                ]
                subprocess.run(script, check=True)
                value = measured([sys.executable, "-c", RUN, folder])
                figures.append(Figure(what=f"doctor: {what}", value=value, reach=reach))
                usual = shutil.which("torchfrtrace", path=str(Path(sys.executable).parent))
                if usual and "64 ranks" in what:
                    value = measured([usual, "-p", "nccl_trace_rank_", f"{folder}/{kind}"])
                    figures.append(Figure(what=f"torchfrtrace: {what}", value=value))
    return figures


def measured(command: Sequence[str]) -> str:
    """Wall-clock seconds, seconds of work, and peak megabytes of a process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    return f"{seconds:.1f} s ({used.ru_utime + used.ru_stime:.1f} s work), {used.ru_maxrss / 1024:.0f} MB"
