"""How long a collective takes when every step waits for the slowest of its messages.

In a ring, rank r may start step s + 1 when it has done step s and its neighbour's message of step s is
there: t[r, s+1] = max(t[r, s], t[r−1, s] + delay[r−1, s]). In a tree each level waits for the slower child.
Delays are drawn, for a number of runs; the distribution is what comes out. A lost packet is repeated a round
trip after a later packet of the connection shows the gap: one of the same message, or the next step's. Where
nothing follows, the sender waits for its timeout, twice as long each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.fabric.loss.goodput import Connection, checked_loss

Floats = NDArray[np.float64]

#: Ranks of a ring that are drawn one by one.
_MOST_DRAWN = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """One message: `base_s`, plus uniform jitter up to `jitter_s` on each of its `hops`, plus repeats where
    packets are lost.
    """

    base_s: float
    jitter_s: float = 0.0
    hops: int = 1
    loss_frac: float = 0.0
    packets: int = 1
    repeat_s: float = 0.0
    timeout_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Without loss."""
        return self.base_s + self.hops * self.jitter_s / 2

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator, *, last: bool) -> Floats:
        """Delays of independent messages; after the `last` one of a connection nothing follows."""
        delay = self.base_s + self.jitter_s * rng.random((self.hops, *shape)).sum(axis=0)
        if checked_loss(self.loss_frac) == 0:
            return np.asarray(delay)
        inner = rng.binomial(max(self.packets - 1, 0), self.loss_frac, size=shape) > 0
        tries = rng.geometric(1 - self.loss_frac, size=shape) - 1
        if last:
            tail = self.timeout_s * (2.0 ** np.minimum(tries, 16) - 1)
        else:
            tail = np.where(tries > 0, self.mean_s + self.repeat_s, 0.0)
        return np.asarray(delay + inner * self.repeat_s + tail)


def message_delays(connection: Connection, message_bytes: float, loss_frac: float, jitter_s: float) -> Delays:
    """Delays of one message of a connection: its bytes at the rate, half a round trip, repeats."""
    packets = max(1, round(message_bytes / connection.packet_bytes))
    lossless = connection.repeat == "lossless"
    again = connection.round_trip_s
    if connection.repeat == "go-back-n":
        again += min(packets, connection.in_flight) * connection.packet_bytes / connection.rate_Bps
    return Delays(
        base_s=message_bytes / connection.rate_Bps + connection.round_trip_s / 2,
        jitter_s=jitter_s,
        loss_frac=0.0 if lossless else loss_frac,
        packets=packets,
        repeat_s=again,
        timeout_s=connection.timeout_s,
    )


def ring_times(ranks: int, steps: int, delays: Delays, *, runs: int, seed: int = 0) -> Floats:
    """Seconds until the last rank has done the last step [run]; an all-reduce has 2(ranks − 1) steps."""
    if ranks < 2 or steps < 1 or runs < 1:
        raise InputError(f"a ring of {ranks} ranks and {steps} steps, {runs} runs")
    rng = np.random.default_rng(seed)
    done = np.zeros((runs, ranks))
    for step in range(steps):
        arrived = done + delays.draw((runs, ranks), rng, last=step == steps - 1)
        done = np.maximum(done, np.roll(arrived, 1, axis=1))
    return np.asarray(done.max(axis=1))


def tree_times(ranks: int, delays: Delays, *, runs: int, seed: int = 0) -> Floats:
    """Seconds of a binary tree up and down again [run]."""
    if ranks < 2 or runs < 1:
        raise InputError(f"a tree of {ranks} ranks, {runs} runs")
    rng = np.random.default_rng(seed)
    up = np.zeros((runs, ranks))
    for child in range(ranks - 1, 0, -1):
        parent = (child - 1) // 2
        up[:, parent] = np.maximum(up[:, parent], up[:, child] + delays.draw((runs,), rng, last=True))
    down = np.zeros((runs, ranks))
    down[:, 0] = up[:, 0]
    for child in range(1, ranks):
        down[:, child] = down[:, (child - 1) // 2] + delays.draw((runs,), rng, last=True)
    return np.asarray(down.max(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A ring's time over all nodes: what is usual, and what one run in a hundred exceeds."""

    median_s: float
    p99_s: float


def ring_tail(
    connection: Connection, nodes: int, op_bytes: float, loss_frac: float, jitter_s: float, *, runs: int = 300
) -> Tail:
    """An all-reduce's ring between `nodes` nodes: 2(nodes − 1) steps of op_bytes/nodes each.

    Rings of more than 128 nodes are drawn with 128 and their steps counted in full.
    """
    members, steps = min(nodes, _MOST_DRAWN), 2 * (min(nodes, _MOST_DRAWN) - 1)
    delays = message_delays(connection, op_bytes / nodes, loss_frac, jitter_s)
    times = ring_times(members, steps, delays, runs=runs) * (2 * (nodes - 1) / steps)
    return Tail(median_s=float(np.median(times)), p99_s=float(np.quantile(times, 0.99)))
