"""How fast the predictor is: a collective, a warm step, a grid of layouts, size, and a whole process.

`peer` is what others take for the same work on such a machine (two cores).
"""

from __future__ import annotations

import itertools
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assay.catalog.clusters import cluster
from assay.catalog.devices import gpu
from assay.catalog.models import model
from assay.domain.layout import Layout
from assay.domain.workload import Workload
from assay.errors import InputError
from assay.fabric.collective import collective_time
from assay.fabric.placement import Placement
from assay.predict.memory import memory
from assay.predict.network import LinkNetwork
from assay.predict.physics import FITTED
from assay.predict.prediction import predict
from assay.predict.situation import Situation, with_layouts
from assay.predict.stack import stack
from assay.predict.step import step_times
from benchmarks.figure import Figure


def situation(gpus: int) -> Situation:
    """GPT-3 175B on so many H100s."""
    layout = Layout(tp=8, pp=8, vpp=6, dp=gpus // 64, schedule="interleaved")
    return Situation(
        workload=Workload(model=model("gpt3-175b"), seq_len=2048),
        layout=layout,
        global_batch=gpus * 3 // 2,
        gpu=gpu("h100-sxm"),
        stack=stack("megatron"),
    )


def grid(gpus: int, batch: int) -> list[Layout]:
    """Every layout of a small grid that multiplies out."""
    found = []
    for tp, pp, cp, mb, kind, sharding in itertools.product(
        (1, 2, 4, 8),
        (1, 2, 4, 8, 16),
        (1, 2),
        (1, 2, 4),
        ("none", "selective", "full"),
        ("none", "zero1", "zero2", "zero3"),
    ):
        dp = gpus // (tp * pp * cp)
        try:
            layout = Layout(tp=tp, pp=pp, cp=cp, dp=dp, micro_batch=mb, recompute=kind, sharding=sharding)
            layout.micro_batches(batch)
        except InputError:
            continue
        found.append(layout)
    return found


def best_s(work: Callable[[], object], times: int) -> float:
    """The fastest of a few runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def run() -> list[Figure]:
    """The figures of the issue, each beside its goal and its peers."""
    network = LinkNetwork.of(cluster("dgx-h100").of(128))
    one, large = situation(1024), situation(16384)
    small_s = best_s(lambda: predict(one, network), 50)
    large_s = best_s(lambda: predict(large, network), 50)
    base = replace(one, global_batch=3072)
    layouts = grid(1024, 3072)

    def work() -> None:
        c = with_layouts(base, layouts)
        step_times(c, network, FITTED)
        memory(c)

    rate = len(layouts) / best_s(work, 5)
    return [
        *_collective(),
        Figure(
            what="step of GPT-3 175B on 1,024 GPUs, warm",
            value=f"{small_s * 1e3:.2f} ms",
            reach="5 ms (Calculon 17.8 ms, SimuMax 56–79 ms)",
        ),
        Figure(what="16,384 GPUs against 1,024", value=f"{large_s / small_s:.2f} times", reach="2 times"),
        Figure(
            what=f"layouts, time and memory ({len(layouts)} in a grid)",
            value=f"{rate:,.0f} /s",
            reach="5,000 /s (Calculon 56, SimuMax 4.4)",
        ),
        *_process(),
    ]


def _collective() -> list[Figure]:
    """One all-reduce over 8,192 GPUs, rail-optimised; its memory includes the search of NCCL's graphs."""
    system = cluster("dgx-h100").of(1024)
    placement = Placement.of(8, 1024)
    sizes = np.array([2.0**30])
    tracemalloc.start()
    collective_time(system, "all_reduce", sizes, placement)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    taken_s = best_s(lambda: collective_time(system, "all_reduce", sizes, placement), 20)
    peers = "(ASTRA-sim: 1,024 in 3.4–5.7 s, 353 MB; 4,096 in 15–247 s, 5.4 GB)"
    return [
        Figure(what="all-reduce over 8,192 GPUs", value=f"{taken_s * 1e3:.2f} ms", reach=f"10 ms {peers}"),
        Figure(what="its memory", value=f"{peak_bytes / 1e6:.1f} MB", reach="100 MB"),
    ]


def _process() -> list[Figure]:
    """`assay predict` as a process: the wall time, and the CPU time, which other work does not lengthen."""
    words = (
        "predict --cluster dgx-h100 --nodes 128 --workload gpt3-175b --layout tp=8,pp=8 --global-batch 1536"
    )
    command = [sys.executable, "-m", "assay", *words.split()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    walls, used = [], []
    for _ in range(9):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(time.perf_counter() - begin)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    reach = "0.6 s (SimAI-Analytical 0.07 s in C++, Calculon 0.37 s)"
    return [
        Figure(what="assay predict, a process", value=f"{statistics.median(walls):.2f} s", reach=reach),
        Figure(what="its CPU time", value=f"{statistics.median(used):.2f} s"),
    ]
