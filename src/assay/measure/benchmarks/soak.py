"""A slice of a long run: products, sums over all ranks and their proofs, over and over, until its time is up.

Each restart is one slice. What is counted is what a training run would die of or be spoiled by: wrong
results, lost links; the agent counts lost ranks. What is timed shows drift.
"""

from __future__ import annotations

import time
from array import array
from pathlib import Path

from assay.measure.benchmarks.bitwise import Repeated, recipe_of
from assay.measure.benchmarks.gemm import Product, unsupported
from assay.measure.context import Context
from assay.measure.gpu_sampler import while_watched
from assay.measure.operations import AllReduce
from assay.measure.registry import benchmark
from assay.measure.timing import windows

_SYS = Path("/sys/class")


@benchmark(
    "soak",
    summary="products and sums over all ranks without a pause: wrong results, lost links, drift",
    yields=(
        "soak.duration",
        "soak.wrong_sums",
        "soak.link_losses",
        "gemm.<dtype>.digest",
        "gemm.<dtype>.unlike_repeats",
    ),
    apart=True,
)
def soak(context: Context) -> None:
    """Turn by turn a burst of products and a checked sum, until the slowest rank's time is up."""
    settings = context.settings
    dtype = next(d for d in settings["dtypes"] if unsupported(d, context) is None)
    run = _Slice(context, dtype)
    began, losses = time.perf_counter(), _link_losses()
    recipe = recipe_of(context, settings["shape"])
    while_watched(context, {"load": "soak", "dtype": dtype, "shape": str(recipe["shape"])}, run.go_on)
    run.record(dtype)
    context.record("soak.duration", time.perf_counter() - began, "s", recipe={}, absolute=False)
    if context.local_rank == 0:
        lost = _link_losses() - losses
        context.record("soak.link_losses", lost, "count", subject=f"node:{context.host}", absolute=False)


class _Slice:
    """What one rank does in a slice, and what it counts."""

    def __init__(self, context: Context, dtype: str) -> None:
        self._context = context
        self._product = Product(context, dtype, *context.settings["shape"])
        self._repeated = Repeated(self._product)
        self._sum = AllReduce(context, context.settings["bytes"])
        self._each_s = array("d")
        self._turns = self._unlike = self._wrong = 0

    def go_on(self) -> None:
        """Until the slice is over."""
        end = time.perf_counter() + self._context.settings["slice_s"]
        while self._context.agree(end - time.perf_counter()) > 0:
            self._turn()

    def _turn(self) -> None:
        sync = self._context.sync_function()
        burst_s = self._context.settings["burst_s"]
        burst = windows(self._product.multiply, window_s=burst_s, count=1, warmup_s=0.0, sync=sync)
        self._each_s.extend(burst.per_iteration_s)
        self._unlike += not self._repeated.is_alike()
        self._sum.fill()
        self._sum.run()
        sync()
        self._context.called(self._sum.name, self._sum.message_bytes)
        self._wrong += not self._sum.is_right()
        self._turns += 1

    def record(self, dtype: str) -> None:
        """The rate of this slice, its digest, and how much of it was wrong."""
        context, shape = self._context, self._context.settings["shape"]
        recipe, n = recipe_of(context, shape), self._turns
        context.record(
            f"gemm.{dtype}.rate",
            self._product.flop / sorted(self._each_s)[len(self._each_s) // 2],
            "FLOP/s",
            recipe={"shape": recipe["shape"], "load": "soak", "statistic": "median"} | context.host_threads(),
            samples=self._each_s,
            absolute=False,
        )
        digest = self._repeated.digest
        context.record(f"gemm.{dtype}.digest", digest, "text", recipe=recipe, n=n, absolute=False)
        unlike, wrong = self._unlike, self._wrong
        context.record(f"gemm.{dtype}.unlike_repeats", unlike, "count", recipe=recipe, n=n, absolute=False)
        context.record(
            "soak.wrong_sums",
            wrong,
            "count",
            recipe={"bytes": self._sum.message_bytes, "transport": context.transport},
            n=n,
            absolute=False,
        )


def _link_losses() -> int:
    """How often links of this machine went away so far, as the kernel and InfiniBand ports count it."""
    counters = [p for p in _SYS.glob("net/*/carrier_down_count") if p.parent.name != "lo"]
    counters += _SYS.glob("infiniband/*/ports/*/counters/link_downed")
    return sum(map(_count, counters))


def _count(counter: Path) -> int:
    try:
        return int(counter.read_text(encoding="ascii"))
    except (OSError, ValueError):  # a device that was taken away, or a port without the counter
        return 0
