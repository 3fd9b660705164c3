"""Reading time: warm-up, sustained windows, per-iteration times, a stop rule and a budget.

Standard library only, but for `Marks` on a GPU; elsewhere a device is synchronised through the function that
the caller passes in.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Work = Callable[[], object]

#: Fewer samples than this say nothing about the 99th percentile: it would rest on three of them.
P99_LEAST = 300


def no_sync() -> None:
    """The synchronisation of a device that runs in step with its caller: the CPU."""


@dataclass(frozen=True)
class Windows:
    """Sustained windows of back-to-back iterations.

    `per_iteration_s` has one value per window: window time over its iterations. `cpu_share_frac` is
    process time over wall time across all windows.
    """

    per_iteration_s: array[float]
    iterations_per_window: int
    cpu_share_frac: float

    @property
    def median_s(self) -> float:
        """Median time of one iteration over the windows."""
        return statistics.median(self.per_iteration_s)

    @property
    def fluctuation_frac(self) -> float:
        """(max−min)/median over the windows: how steady the device is over time."""
        return (max(self.per_iteration_s) - min(self.per_iteration_s)) / self.median_s


def windows(
    work: Work, *, window_s: float, count: int, warmup_s: float, sync: Callable[[], None] = no_sync
) -> Windows:
    """Run `work` without a pause in `count` windows of at least `window_s` each, after a warm-up.

    The warm-up also finds how many iterations fill a window, so that the clock is read twice a window and
    the device never waits for it.
    """
    each = _warm(work, warmup_s, sync)
    per_window = max(1, math.ceil(window_s / each))
    times = array("d")
    cpu, begin = time.process_time(), time.perf_counter()
    last = begin
    for _ in range(count):
        for _ in range(per_window):
            work()
        sync()
        now = time.perf_counter()
        times.append((now - last) / per_window)
        last = now
    wall = last - begin
    return Windows(times, per_window, (time.process_time() - cpu) / wall if wall else 0.0)


def cold_windows(
    work: Work,
    evict: Work,
    *,
    window_s: float,
    count: int,
    warmup_s: float,
    sync: Callable[[], None] = no_sync,
) -> Windows:
    """`windows` in which `evict` empties the caches before every iteration; its own time does not count."""

    def both() -> None:
        evict()
        work()

    per_window = max(1, math.ceil(window_s / _warm(both, warmup_s, sync)))
    times = array("d")
    cpu = wall = 0.0
    for _ in range(count):
        spent = 0.0
        for _ in range(per_window):
            evict()
            sync()
            before, begin = time.process_time(), time.perf_counter()
            work()
            sync()
            spent += time.perf_counter() - begin
            cpu += time.process_time() - before
        times.append(spent / per_window)
        wall += spent
    return Windows(times, per_window, cpu / wall if wall else 0.0)


def event_windows(
    work: Work, *, window_s: float, count: int, warmup_s: float, sync: Callable[[], None], device: str
) -> Windows:
    """`windows` by the device's own clock, so that the host's delays do not count."""
    per_window = max(1, math.ceil(window_s / _warm(work, warmup_s, sync)))
    marks = Marks(device)
    cpu, begin = time.process_time(), time.perf_counter()
    marks.mark()
    for _ in range(count):
        for _ in range(per_window):
            work()
        marks.mark()
    times = marks.gaps()
    wall = time.perf_counter() - begin
    return Windows(
        array("d", (gap / per_window for gap in times)), per_window, (time.process_time() - cpu) / wall
    )


def _warm(work: Work, warmup_s: float, sync: Callable[[], None]) -> float:
    """Run for `warmup_s`, at least twice; the time of one iteration, from the second half."""
    work()
    sync()
    begin = time.perf_counter()
    done = 0
    while done < 2 or time.perf_counter() - begin < warmup_s:
        if done == 1:
            begin_last = time.perf_counter()
        work()
        done += 1
        if done % 8 == 0 or done <= 2:
            sync()
    sync()
    return max((time.perf_counter() - begin_last) / (done - 1), 1e-9)


@dataclass(frozen=True)
class Spread:
    """When to stop taking iterations.

    At least `least`, at most `most`, no longer than `budget_s`; and once `least` are there, stop when the
    relative standard error of their mean falls below `target_frac`.
    """

    least: int
    most: int
    budget_s: float
    target_frac: float = 0.0

    def enough(self, times: array[float], elapsed_s: float) -> bool:
        """Whether to stop, given the times so far."""
        n = len(times)
        if n >= self.most:
            return True
        if n < self.least:
            return elapsed_s > 4 * self.budget_s
        if elapsed_s > self.budget_s:
            return True
        if self.target_frac <= 0 or n % 8:
            return False
        mean = statistics.fmean(times)
        return mean > 0 and statistics.stdev(times) / math.sqrt(n) / mean < self.target_frac


def iterations(
    work: Work, *, stop: Spread, warmup: int = 3, sync: Callable[[], None] = no_sync
) -> array[float]:
    """Seconds of each iteration of `work`, the device synchronised after each."""
    for _ in range(warmup):
        work()
    sync()
    times = array("d")
    begin = last = time.perf_counter()
    while not stop.enough(times, last - begin):
        work()
        sync()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def percentile(times: array[float] | list[float], q_frac: float) -> float:
    """The `q_frac` quantile by linear interpolation between order statistics."""
    ordered = sorted(times)
    position = q_frac * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


class Marks:
    """Moments on a device and the seconds between them: events on a GPU's stream, the clock on a CPU."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._on_gpu = device.startswith("cuda")
        self._moments: list[Any] = []

    def mark(self) -> None:
        """Note this moment; on a GPU, the moment when the work before it is done."""
        if not self._on_gpu:
            self._moments.append(time.perf_counter())
            return
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._moments.append(event)

    def gaps(self) -> array[float]:
        """Seconds from each mark to the next, after the device has done its work."""
        pairs = itertools.pairwise(self._moments)
        if not self._on_gpu:
            return array("d", (after - before for before, after in pairs))
        import torch

        torch.cuda.synchronize(self._device)
        return array("d", (before.elapsed_time(after) * 1e-3 for before, after in pairs))
