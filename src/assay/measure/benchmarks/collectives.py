"""Collective operations by two recipes that are never compared: pipelined and aligned.

`pipelined` is nccl-tests' loop: calls back to back between two synchronisations, time over calls, mean over
ranks. It tells what the links carry, and hides what single calls do.

`aligned` starts every call at a barrier and times each on every rank. A rank that enters late makes the
others wait, so the transfer time of a call is the shortest duration over the ranks, which is the last
rank's. All ranks end together, so a rank entered as much later than the first as its own duration is
shorter than the longest; that is its arrival lag, and it needs no common clock. This holds only where no
rank can end before all have entered: broadcast and send_recv have no aligned times.
"""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from assay.errors import MeasurementError
from assay.measure import nccl_tests
from assay.measure.context import Context, RecipeParam
from assay.measure.node import memory_available_bytes
from assay.measure.operations import ITEM_BYTES, OPERATIONS, Operation
from assay.measure.registry import benchmark
from assay.measure.timing import P99_LEAST, Marks, percentile

#: Calls of one size outside the timed loops (first call, pace, check) and at least in them.
_CALLS_LEAST = 20
#: Buffers of the message's size that an operation holds at its fullest, while its result is checked.
_BUFFERS = 3.3
#: Below this size a call takes as long as a smaller one; above it, at most in proportion.
_LATENCY_BOUND_BYTES = 65536
_ABSENT_OF_RATES = ("time", "algbw", "busbw")

Recipe = dict[str, RecipeParam]


@benchmark(
    "collectives",
    summary="collective operations over message sizes, back to back and call by call",
    yields=(
        "collective.<op>.time",
        "collective.<op>.algbw",
        "collective.<op>.busbw",
        "collective.<op>.arrival_lag",
        "collective.<op>.cpu_share",
    ),
)
def collectives(context: Context) -> None:
    """Every operation at every size; then nccl-tests' own programs where they are installed."""
    if context.world == 1:
        for op in context.settings["ops"]:
            _missing(context, op, {}, "one rank has nobody to talk to")
        return
    for op in context.settings["ops"]:
        largest_bytes = max(_sizes_done(context, op), default=0)
        if largest_bytes:
            nccl_tests.record_busbw(context, op, largest_bytes)


def _sizes_done(context: Context, op: str) -> Iterator[int]:
    """Measure one operation at each size, and yield the sizes that could be measured."""
    reason = _unsupported(context, op)
    if reason:
        _missing(context, op, {}, reason)
        return
    sizes = set(context.settings["sizes"])
    if op == context.settings["latency_op"]:
        sizes.add(context.settings["latency_bytes"])
    if not OPERATIONS[op].waits_for_all:
        _missing(
            context,
            op,
            {"method": "aligned"},
            f"a rank can end its {op} before others have entered: its shortest duration is no transfer time",
        )
    call_s, floor = 0.0, _LATENCY_BOUND_BYTES
    for size in sorted(sizes):
        reason = obstacle(context, op, size, call_s=call_s * max(1.0, size / floor))
        if reason:
            _missing(context, op, {"bytes": size}, reason)
            continue
        call_s, floor = _measure(context, op, size), max(size, _LATENCY_BOUND_BYTES)
        yield size


def _measure(context: Context, op: str, size: int) -> float:
    """Both recipes at one size, proved and recorded; the seconds of one call."""
    operation = OPERATIONS[op](context, size)
    operation.fill()
    settings, latency = context.settings, _is_latency(context, op, size)
    piped = pipelined(context, operation)
    aligned = None
    if operation.waits_for_all:
        paced_s = _Aligned.of(context, operation, count=3).call_s
        count = _count(settings["budget_s"], paced_s)
        if latency:
            spare_s = context.agree(context.time_left_s(), "min") / 2
            count = min(settings["latency_iterations"], _count(spare_s, paced_s))
        aligned = _Aligned.of(context, operation, count=count)
    operation.fill()
    operation.run()
    context.require_everywhere(operation.is_right(), f"{op} of {size} B gave a wrong result")
    recipe: Recipe = {"bytes": size, "ranks": context.world, "dtype": "fp32", "transport": context.transport}
    piped.record(context, operation, recipe)
    if aligned:
        aligned.record(context, operation, recipe, latency=latency)
    return piped.mean_s


def pipelined(context: Context, operation: Operation) -> Pipelined:
    """Calls back to back for as long as the budget of the settings."""
    count = _count(context.settings["budget_s"], _pace_s(context, operation))
    return Pipelined.of(context, operation, count=count)


def _pace_s(context: Context, operation: Operation) -> float:
    """Seconds of a call, from a fifth of the budget where that holds more than the two of a first look."""
    share_s = context.settings["budget_s"] / 5
    first_s = Pipelined.of(context, operation, count=2).mean_s
    if 4 * first_s > share_s:
        return first_s
    return Pipelined.of(context, operation, count=_count(share_s, first_s)).mean_s


@dataclass(frozen=True)
class Pipelined:
    """Calls back to back: mean time of one over calls and ranks; this rank's CPU time over wall time."""

    mean_s: float
    cpu_share_frac: float
    count: int

    @classmethod
    def of(cls, context: Context, operation: Operation, *, count: int) -> Pipelined:
        """Run `count` calls between two synchronisations, after one that warms up."""
        sync = context.sync_function()
        operation.run()
        sync()
        context.barrier()
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(count):
            operation.run()
        sync()
        wall = time.perf_counter() - begin
        context.called(operation.name, operation.message_bytes, count=count + 1)
        cpu_share_frac = (time.process_time() - cpu) / wall
        return cls(context.agree(wall / count, "sum") / context.world, cpu_share_frac, count)

    def record(self, context: Context, operation: Operation, recipe: Recipe) -> None:
        """Time and bandwidths of the cluster, by rank 0; the CPU share of each rank."""
        recipe = recipe | {"method": "pipelined"}
        context.record(
            f"collective.{operation.name}.cpu_share",
            self.cpu_share_frac,
            "1",
            recipe=recipe,
            n=self.count,
            absolute=False,
        )
        if context.rank == 0:
            _record_rates(context, operation, self.mean_s, recipe | {"statistic": "mean"}, n=self.count)


@dataclass(frozen=True)
class _Aligned:
    """Calls one by one from a barrier each.

    Per call: `transfer_s`, the shortest duration over the ranks, and `lag_s`, how much later than the first
    this rank entered. `call_s` is wall time per call, its barrier included.
    """

    transfer_s: array[float]
    lag_s: array[float]
    call_s: float

    @classmethod
    def of(cls, context: Context, operation: Operation, *, count: int) -> _Aligned:
        """Run `count` calls and bring their durations together."""
        sync = context.sync_function()
        marks = Marks(context.device)
        begin = time.perf_counter()
        for _ in range(count):
            context.barrier()
            marks.mark()
            operation.run()
            marks.mark()
            sync()
        call_s = context.agree(time.perf_counter() - begin) / count
        context.called(operation.name, operation.message_bytes, count=count)
        durations = marks.gaps()[::2]  # the gaps between are the barriers
        shortest, longest = _extremes(durations)
        lags = array("d", (most - mine for most, mine in zip(longest, durations, strict=True)))
        return cls(shortest, lags, call_s)

    def record(self, context: Context, operation: Operation, recipe: Recipe, *, latency: bool) -> None:
        """The cluster's transfer time, by rank 0; the median lag of each rank; at `latency`, the tail too."""
        recipe = recipe | {"method": "aligned"}
        n = len(self.transfer_s)
        context.record(
            f"collective.{operation.name}.arrival_lag",
            statistics.median(self.lag_s),
            "s",
            recipe=recipe | {"statistic": "median"},
            n=n,
            samples=self.lag_s if latency else None,
            absolute=False,
        )
        if context.rank != 0:
            return
        p50_s = statistics.median(self.transfer_s)
        samples = self.transfer_s if latency else None
        _record_rates(context, operation, p50_s, recipe | {"statistic": "p50"}, n=n, samples=samples)
        if latency:
            self._record_tail(context, f"collective.{operation.name}.time", recipe)

    def _record_tail(self, context: Context, quantity: str, recipe: Recipe) -> None:
        n = len(self.transfer_s)
        for statistic, q_frac in (("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
            stated = recipe | {"statistic": statistic}
            if statistic == "p99" and n < P99_LEAST:
                reason = f"p99 needs {P99_LEAST} calls; there were {n}"
                context.missing(quantity, "s", reason, subject="cluster", recipe=stated)
                continue
            value = percentile(self.transfer_s, q_frac)
            context.record(quantity, value, "s", subject="cluster", recipe=stated, n=n)


def _record_rates(
    context: Context,
    operation: Operation,
    seconds: float,
    recipe: Recipe,
    *,
    n: int,
    samples: array[float] | None = None,
) -> None:
    """Time, algbw and busbw of the cluster; small messages are counted by what was really sent."""
    algbw_Bps = operation.message_bytes / seconds
    for name, value, unit in (
        ("time", seconds, "s"),
        ("algbw", algbw_Bps, "B/s"),
        ("busbw", algbw_Bps * operation.factor, "B/s"),
    ):
        context.record(
            f"collective.{operation.name}.{name}",
            value,
            unit,
            subject="cluster",
            recipe=recipe,
            n=n,
            samples=samples if name == "time" else None,
        )


def _extremes(durations: array[float]) -> tuple[array[float], array[float]]:
    """Call by call, the shortest and the longest duration over the ranks."""
    import torch
    import torch.distributed as dist

    shortest = torch.tensor(durations.tolist(), dtype=torch.float64)
    longest = shortest.clone()
    dist.all_reduce(shortest, op=dist.ReduceOp.MIN)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return array("d", shortest.tolist()), array("d", longest.tolist())


def _is_latency(context: Context, op: str, size: int) -> bool:
    """Whether this is the operation and size whose calls are kept one by one, with their tail."""
    return (op, size) == (context.settings["latency_op"], context.settings["latency_bytes"])


def _count(budget_s: float, call_s: float) -> int:
    """Calls that fit into the budget, the same on every rank because both are; 5 to 20,000."""
    return min(20000, max(5, int(budget_s / max(call_s, 1e-7))))


def _unsupported(context: Context, op: str) -> str | None:
    """Why this backend cannot do the operation, found by trying it; or None. The same on every rank."""
    if op not in OPERATIONS:
        raise MeasurementError(f"unknown operation {op!r}; known: {', '.join(OPERATIONS)}")
    operation = OPERATIONS[op](context, 64 * context.world)
    operation.fill()
    reason = None
    try:
        operation.run()
        context.sync_function()()
    except (RuntimeError, NotImplementedError) as error:
        reason = (
            f"{context.backend} cannot do {op}: {(str(error).splitlines() or ['no reason given'])[0][:200]}"
        )
    failed = context.agree(1.0 if reason else 0.0, "sum")
    if failed and failed < context.world:
        raise MeasurementError(reason or f"{op} failed on {failed:.0f} of {context.world} ranks")
    return reason


def obstacle(context: Context, op: str, size: int, *, call_s: float) -> str | None:
    """Why this size cannot be measured, or None. The same on every rank.

    `call_s` is what a call would take at the pace of the size before.
    """
    kind, n = OPERATIONS[op], context.world
    if size < ITEM_BYTES or (kind.splits and (size // ITEM_BYTES) % n * ITEM_BYTES > 0.01 * size):
        return (
            f"{size} B cannot be cut into {n} equal blocks of fp32" if kind.splits else f"{size} B is no fp32"
        )
    available_bytes = context.agree(memory_available_bytes(context), "min")
    if _BUFFERS * size > available_bytes:
        return f"needs {_BUFFERS * size / 1e9:.3g} GB a rank, and {available_bytes / 1e9:.3g} GB are free"
    needed_s = _CALLS_LEAST * call_s + 4 * context.settings["budget_s"]
    left_s = context.agree(context.time_left_s(), "min")
    if needed_s > left_s:
        return f"needs {needed_s:.3g} s, and the deadline leaves {max(left_s, 0.0):.3g} s"
    return None


def _missing(context: Context, op: str, recipe: Recipe, reason: str) -> None:
    if context.rank == 0:
        stated = recipe | {"ranks": context.world, "dtype": "fp32", "transport": context.transport}
        for name in _ABSENT_OF_RATES:
            unit = "s" if name == "time" else "B/s"
            context.missing(f"collective.{op}.{name}", unit, reason, subject="cluster", recipe=stated)
