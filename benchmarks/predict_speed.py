"""How fast the predictor is: one warm step, a grid of layouts, and 16,384 against 1,024 GPUs.

Run: python benchmarks/predict_speed.py. Peers, same work, such a machine: Calculon 17.8 ms a step and
56 layouts a second, SimuMax 56 to 79 ms and 4.4 layouts a second.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

from assay.catalog.clusters import cluster
from assay.catalog.devices import gpu
from assay.catalog.models import model
from assay.domain.layout import Layout
from assay.domain.workload import Workload
from assay.errors import InputError
from assay.predict.memory import memory
from assay.predict.network import LinkNetwork
from assay.predict.physics import FITTED
from assay.predict.prediction import predict
from assay.predict.situation import Situation, with_layouts
from assay.predict.stack import stack
from assay.predict.step import step_times


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


def main() -> None:
    """Print the three figures."""
    network = LinkNetwork.of(cluster("dgx-h100").of(128))
    one, large = situation(1024), situation(16384)
    small_s = best_s(lambda: predict(one, network), 50)
    large_s = best_s(lambda: predict(large, network), 50)
    print(f"GPT-3 175B step on 1,024 GPUs, warm: {small_s * 1e3:.2f} ms (reach: 5 ms)")
    print(f"16,384 against 1,024 GPUs: {large_s / small_s:.2f} times the time (reach: 2)")
    base = replace(one, global_batch=3072)
    layouts = grid(1024, 3072)

    def work() -> None:
        c = with_layouts(base, layouts)
        step_times(c, network, FITTED)
        memory(c)

    rate = len(layouts) / best_s(work, 5)
    print(f"{len(layouts)} layouts, time and memory: {rate:,.0f} a second (reach: 5,000)")


if __name__ == "__main__":
    main()
