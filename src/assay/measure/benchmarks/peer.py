"""Every pair of ranks in a node: bandwidth in each direction and in both at once, and latency.

Pairs are taken in rounds of disjoint pairs (the circle method), so that n ranks need n−1 rounds (n, when n
is odd) and no rank serves two pairs at once.
"""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.measure.context import Context, RecipeParam
from assay.measure.node import name_of, ranks_on_this_node
from assay.measure.operations import exchange
from assay.measure.registry import benchmark
from assay.measure.timing import P99_LEAST, Marks, percentile

_PING_BYTES = 8
#: The period of the payload: a prime, so that chunks that change places do not look right.
_PERIOD = 65521

Recipe = dict[str, RecipeParam]
#: Inside one node; between two it is `nodes`.
INSIDE: Recipe = {"span": "node"}


@benchmark(
    "peer",
    summary="every pair of ranks in a node: each direction, both at once, latency",
    yields=("peer.bandwidth", "peer.bidirectional_bandwidth", "peer.latency"),
    wave="node",
)
def peer(context: Context) -> None:
    """Round by round: measure this rank's pair, prove every payload of the round, record."""
    here = ranks_on_this_node(context)
    local_ranks = [int(number) for (number,) in context.gather([float(context.local_rank)])]
    if len(here) == 1:
        for quantity, unit in context.units.items():
            context.missing(quantity, unit, "one rank in the node has no peer", recipe=INSIDE)
    rounds = disjoint_rounds(here)
    # Nodes may have unlike numbers of ranks; a rank without a pair still takes part in the proof.
    for number in range(int(context.agree(len(rounds)))):
        pairs = rounds[number] if number < len(rounds) else []
        mine = next((pair for pair in pairs if context.rank in pair), None)
        measured = Pair(context, *mine, _names(context, mine, local_ranks), recipe=INSIDE) if mine else None
        right = measured.measure() if measured else True
        context.require_everywhere(right, "a message between two ranks did not arrive as it was sent")
        if measured:
            measured.record()


def _names(context: Context, ranks: Iterable[int], local_ranks: list[int]) -> dict[int, str]:
    return {rank: name_of(context, rank, local_ranks[rank]) for rank in ranks}


def disjoint_rounds(ranks: list[int]) -> list[list[tuple[int, int]]]:
    """All pairs (lower first) of `ranks`, in rounds in which no rank occurs twice: the circle method.

    One rank stays, the others turn by one place a round; with an odd number, one sits out each round.
    """
    circle: list[int | None] = [*ranks, *([None] if len(ranks) % 2 else [])]
    half = len(circle) // 2
    rounds = []
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in facing if a is not None and b is not None])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


class Pair:
    """This rank's side of one pair; `low` and `high` are its ranks, `names` what they are called.

    `recipe` is added to that of each reading.
    """

    def __init__(
        self, context: Context, low: int, high: int, names: Mapping[int, str], *, recipe: Recipe
    ) -> None:
        self._context = context
        self._other = high if context.rank == low else low
        self._leads = context.rank == low
        self._names = names
        self._recipe = recipe
        self._ends = (self._names[low], self._names[high])
        self._leaves_node = context.hosts[low] != context.hosts[high]
        size = context.settings["bytes"]
        self._sent = _payload(context, context.rank, self._other, size)
        self._expected = _payload(context, self._other, context.rank, size)
        self._received = self._sent.new_zeros(size)
        self._arriving_s = self._both_s = self._round_trip_s = array("d")

    def measure(self) -> bool:
        """Time what this rank sees of the pair; whether what arrived is what the other sent."""
        import torch

        right = True
        for sending in (self._leads, not self._leads):
            gaps_s = self._timed(self._send if sending else self._receive)
            if not sending:
                self._arriving_s = gaps_s
                right = right and bool(torch.equal(self._received, self._expected))
                self._received.zero_()
        self._both_s = self._timed(self._exchange)
        right = right and bool(torch.equal(self._received, self._expected))
        self._round_trip_s = self._pings()
        return right

    def record(self) -> None:
        """The receiver records its direction; the lower rank what belongs to the pair."""
        context = self._context
        size = self._received.numel()
        recipe: Recipe = {"bytes": size, "transport": context.transport} | self._recipe
        context.record(
            "peer.bandwidth",
            size / statistics.median(self._arriving_s),
            "B/s",
            subject=f"link:{self._names[self._other]}>{self._names[context.rank]}",
            recipe=recipe | {"statistic": "median"},
            samples=self._arriving_s,
        )
        if self._leaves_node:
            # What the way itself gives: load on either end only ever takes from it.
            context.record(
                "peer.bandwidth",
                size / min(self._arriving_s),
                "B/s",
                subject=f"link:{self._names[self._other]}>{self._names[context.rank]}",
                recipe=recipe | {"statistic": "max"},
                n=len(self._arriving_s),
            )
        if not self._leads:
            return
        pair = "pair:" + "|".join(self._ends)
        context.record(
            "peer.bidirectional_bandwidth",
            2 * size / statistics.median(self._both_s),
            "B/s",
            subject=pair,
            recipe=recipe | {"statistic": "median"},
            samples=self._both_s,
        )
        self._record_latency(pair, recipe | {"bytes": _PING_BYTES})

    def _record_latency(self, pair: str, recipe: Recipe) -> None:
        context = self._context
        latency_s = array("d", (trip / 2 for trip in self._round_trip_s))
        p50, p99 = recipe | {"statistic": "p50"}, recipe | {"statistic": "p99"}
        median_s, least, n = statistics.median(latency_s), recipe | {"statistic": "min"}, len(latency_s)
        context.record("peer.latency", median_s, "s", subject=pair, recipe=p50, samples=latency_s)
        if self._leaves_node:
            # What the way itself takes: load on either end only ever adds to it.
            context.record("peer.latency", min(latency_s), "s", subject=pair, recipe=least, n=n)
        if len(latency_s) < P99_LEAST:
            reason = f"p99 needs {P99_LEAST} round trips; there were {len(latency_s)}"
            context.missing("peer.latency", "s", reason, subject=pair, recipe=p99)
        else:
            value = percentile(latency_s, 0.99)
            context.record("peer.latency", value, "s", subject=pair, recipe=p99, n=len(latency_s))

    def _timed(self, work: Callable[[], None]) -> array[float]:
        """Seconds of each call of `work`, after two to warm up and two that show how many fit."""
        settings = self._context.settings
        for _ in range(2):
            work()
        each_s = self._agreed(statistics.mean(self._laps(work, 2)))
        fit = int(settings["budget_s"] / max(each_s, 1e-7))
        return self._laps(work, min(settings["iterations"], max(3, fit)))

    def _laps(self, work: Callable[[], None], count: int) -> array[float]:
        marks = Marks(self._context.device)
        marks.mark()
        for _ in range(count):
            work()
            marks.mark()
        return marks.gaps()

    def _agreed(self, value: float) -> float:
        """The lower rank's value, on both."""
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([value], dtype=torch.float64)
        if self._leads:
            dist.send(tensor, self._other)
        else:
            dist.recv(tensor, self._other)
        return float(tensor.item())

    def _pings(self) -> array[float]:
        """Round trips of a small message, the lower rank first; the other's times are of no use."""
        import torch.distributed as dist

        small_out, small_in = self._sent[:_PING_BYTES].clone(), self._received[:_PING_BYTES].clone()

        def ping() -> None:
            dist.send(small_out, self._other)
            dist.recv(small_in, self._other)

        def pong() -> None:
            dist.recv(small_in, self._other)
            dist.send(small_out, self._other)

        work = ping if self._leads else pong
        self._laps(work, 10)
        return self._laps(work, self._context.settings["pings"])

    def _count(self) -> None:
        context = self._context
        there = context.hosts[self._other]
        context.called("send", self._sent.numel(), hosts=(context.host, there))

    def _send(self) -> None:
        import torch.distributed as dist

        self._count()
        dist.send(self._sent, self._other)

    def _receive(self) -> None:
        import torch.distributed as dist

        dist.recv(self._received, self._other)

    def _exchange(self) -> None:
        self._count()
        exchange(self._sent, self._other, self._received, self._other)


def _payload(context: Context, sender: int, receiver: int, size: int) -> Any:
    """Seeded random bytes of one direction of one pair, the same on both ranks: a period over and over.

    The period is drawn on the CPU, because GPUs of unlike kinds draw unlike numbers.
    """
    import torch

    seed = (context.seed * 1_000_003 + sender * 65_536 + receiver) % 2**63
    generator = torch.Generator().manual_seed(seed)
    period = torch.randint(0, 256, (_PERIOD,), dtype=torch.uint8, generator=generator).to(context.device)
    return period.repeat(-(-size // _PERIOD))[:size]
