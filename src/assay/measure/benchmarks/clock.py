"""Each rank's wall clock against rank 0's, and how the difference drifts.

One exchange: a rank notes its time t0, rank 0 answers with its own time s, the rank notes t1. While rank 0
read s, the rank's clock stood between t0 and t1, so its offset (its clock minus rank 0's) lies in
[t0 − s, t1 − s], whatever the paths took each way: (t0 + t1)/2 − s, plus or minus half the round trip.
Exchanges with the lowest round trips say most, because delay in queues only widens them.
"""

from __future__ import annotations

import statistics
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from assay.measure.context import Context
from assay.measure.registry import benchmark

#: How many of the lowest round trips give the offset; their median keeps one odd exchange from deciding.
_LOWEST = 9
#: time.time() is a double of about 1.8e9 s, whose last bit is 0.24 µs.
_RESOLUTION_S = 1e-6


@dataclass(frozen=True)
class Exchange:
    """One question and answer: the asking rank's wall clock before and after, rank 0's in between."""

    asked_s: float
    stamp_s: float
    answered_s: float

    @property
    def round_trip_s(self) -> float:
        """From the question to the answer, on the asking rank's clock."""
        return self.answered_s - self.asked_s

    @property
    def offset_s(self) -> float:
        """The asking rank's clock minus rank 0's, if the answer took as long as the question."""
        return (self.asked_s - self.stamp_s) / 2 + (self.answered_s - self.stamp_s) / 2


@dataclass(frozen=True)
class Offset:
    """A clock offset with its bounds, and when it was read on rank 0's clock."""

    value_s: float
    low_s: float
    high_s: float
    at_s: float


@benchmark(
    "clock",
    summary="each rank's wall clock against rank 0's, and its drift",
    yields=("clock.offset", "clock.drift"),
)
def clock(context: Context) -> None:
    """Offsets now and after a while, rank by rank, provided that no wall clock was set meanwhile."""
    if context.world == 1:
        for quantity, unit in context.units.items():
            context.missing(quantity, unit, "one rank has no other clock to compare with")
        return
    watched = WallClock()
    begin = time.perf_counter()
    first = _exchanges(context, watched)
    time.sleep(max(0.0, context.settings["drift_s"] - (time.perf_counter() - begin)))
    last = _exchanges(context, watched)
    steady = not watched.was_set and all(exchange.round_trip_s > 0 for exchange in first + last)
    context.require_everywhere(steady, "the wall clock was set while it was compared")
    if context.rank != 0:
        _record(context, first, last)


def _record(context: Context, first: Sequence[Exchange], last: Sequence[Exchange]) -> None:
    before, after = combine(first), combine(last)
    recipe = {"reference": f"rank:{context.numbers[0]}", "statistic": "lowest round trips"}
    context.record(
        "clock.offset",
        before.value_s,
        "s",
        recipe=recipe,
        low=before.low_s,
        high=before.high_s,
        samples=array("d", (exchange.offset_s for exchange in first)),
        absolute=False,
    )
    value, low, high = drift(before, after)
    n = len(first) + len(last)
    context.record("clock.drift", value, "1", recipe=recipe, low=low, high=high, n=n, absolute=False)


class WallClock:
    """Reads the wall clock and finds out whether somebody sets it meanwhile.

    Slewing changes the speed of the wall clock and of the monotonic one alike, so their difference stays
    until the wall clock is set. Each reading, between two of the monotonic clock, bounds that difference;
    bounds that exclude each other mean a step, and a long pause between the readings only widens them.
    """

    def __init__(self) -> None:
        self._low_s, self._high_s = float("-inf"), float("inf")

    def read_s(self) -> float:
        """Seconds since the epoch."""
        before = time.perf_counter()
        now_s = time.time()
        after = time.perf_counter()
        self._low_s = max(self._low_s, now_s - after)
        self._high_s = min(self._high_s, now_s - before)
        return now_s

    @property
    def was_set(self) -> bool:
        """Whether the wall clock made a step between the readings."""
        return self._low_s > self._high_s + _RESOLUTION_S


def _exchanges(context: Context, watched: WallClock) -> list[Exchange]:
    """Rank 0 answers each other rank in turn, so that nobody waits in line; none on rank 0."""
    mine: list[Exchange] = []
    count = context.settings["exchanges"]
    for turn in range(1, context.world):
        context.barrier()
        if context.rank == 0:
            _answer(turn, count, watched)
        elif context.rank == turn:
            mine = _ask(count, watched)
    return mine


def _ask(count: int, watched: WallClock) -> list[Exchange]:
    import torch
    import torch.distributed as dist

    question, answer = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    exchanges = []
    for _ in range(count):
        asked_s = watched.read_s()
        dist.send(question, 0)
        dist.recv(answer, 0)
        answered_s = watched.read_s()
        exchanges.append(Exchange(asked_s, float(answer.item()), answered_s))
    return exchanges


def _answer(rank: int, count: int, watched: WallClock) -> None:
    import torch
    import torch.distributed as dist

    question, answer = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    for _ in range(count):
        dist.recv(question, rank)
        answer[0] = watched.read_s()
        dist.send(answer, rank)


def combine(exchanges: Sequence[Exchange]) -> Offset:
    """The offset from exchanges made within moments, all with positive round trips.

    The value is the median offset of the lowest round trips. The bounds are half the lowest round trip on
    each side, plus the distance of that median from the offset of the lowest round trip itself: so they
    hold for any split of the delay between the two ways. Intersecting the bounds of many exchanges would
    be tighter, but drift between them and the resolution of the clock can make that intersection wrong.
    """
    lowest = sorted(exchanges, key=lambda exchange: exchange.round_trip_s)[:_LOWEST]
    best = lowest[0]
    value_s = statistics.median(exchange.offset_s for exchange in lowest)
    half_s = best.round_trip_s / 2 + abs(value_s - best.offset_s) + _RESOLUTION_S
    at_s = statistics.median(exchange.stamp_s for exchange in lowest)
    return Offset(value_s, value_s - half_s, value_s + half_s, at_s)


def drift(first: Offset, last: Offset) -> tuple[float, float, float]:
    """Change of the offset in seconds a second, with the bounds that the bounds of both offsets allow."""
    span_s = last.at_s - first.at_s
    return (
        (last.value_s - first.value_s) / span_s,
        (last.low_s - first.high_s) / span_s,
        (last.high_s - first.low_s) / span_s,
    )
