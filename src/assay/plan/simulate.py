"""A job's life event by event, to check the closed forms and to go beyond them.

With plain exponential failures it assumes what Daly's form assumes. Beyond: failures that are frequent at
first (infant mortality), a few nodes that fail far more often until they are taken out (lemons), faults that
take many nodes at once (a power feed, a switch), spares that run out and repairs that take time, and jobs
that shrink and grow instead of waiting.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from assay.errors import InputError
from assay.plan.reliability import Job

#: Where time goes; the parts add up to the whole.
PARTS = ("useful", "save", "recompute", "detect", "drain", "reschedule", "load", "wait_for_nodes", "shrunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """What real fleets have and the exponential has not; the defaults leave it out.

    The failure rate starts `infant_ratio` times as high and falls with `infant_s`. `lemon_frac` of the nodes
    fail `lemon_ratio` times as often until they have failed `lemon_strikes` times. Every 1/`group_per_s`
    seconds a fault takes `group_nodes` nodes. `spares` stand ready (None: as many as needed); a failed node
    is back after `repair_s`. `elastic` jobs go on with the nodes that are left, at the cost of one restart
    each way.
    """

    infant_ratio: float = 1.0
    infant_s: float = 7 * 86400.0
    lemon_frac: float = 0.0
    lemon_ratio: float = 30.0
    lemon_strikes: int = 3
    group_per_s: float = 0.0
    group_nodes: int = 16
    spares: int | None = None
    repair_s: float = 86400.0
    elastic: bool = False

    def __post_init__(self) -> None:
        if (
            self.infant_ratio < 1
            or not 0 <= self.lemon_frac < 1
            or self.lemon_ratio < 1
            or self.lemon_strikes < 1
        ):
            raise InputError(
                f"infant_ratio {self.infant_ratio:g}, lemon_frac {self.lemon_frac:g}, lemon_ratio "
                f"{self.lemon_ratio:g}: ratios are at least 1 and fractions below 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One simulated run: seconds by part, failures, and nodes that were found to be lemons."""

    seconds: Mapping[str, float]
    failures: int
    lemons_removed: int

    @property
    def goodput_frac(self) -> float:
        """Useful over all time."""
        return self.seconds["useful"] / sum(self.seconds.values())


def simulate(
    job: Job, interval_s: float, duration_s: float, rng: np.random.Generator, beyond: Beyond | None = None
) -> Life:
    """Run the job for `duration_s`, saving after every `interval_s` of work.

    A failure in a save loses the work since the last one; a failure in a restart begins the restart again.
    """
    fleet = _Fleet(job=job, beyond=beyond or Beyond(), rng=rng)
    seconds = dict.fromkeys(PARTS, 0.0)
    now = 0.0
    while now < duration_s:
        failure, grown = fleet.next_failure(now), fleet.grows_at(now)
        until = min(failure, grown, duration_s)
        planned = until < failure
        now = _work(seconds, now, until, interval_s, job.save_s, fleet.size_frac, planned=planned)
        if now >= duration_s:
            break
        if not planned:
            fleet.strike(now)
        now = _restart(seconds, now, duration_s, fleet, job)
    return Life(seconds=seconds, failures=fleet.failures, lemons_removed=fleet.removed)


def _work(
    seconds: dict[str, float],
    now: float,
    until: float,
    interval_s: float,
    save_s: float,
    size_frac: float,
    *,
    planned: bool,
) -> float:
    """Whole cycles of work and save; what is not saved is recomputed after a failure, kept at a planned
    stop."""
    cycle = interval_s + save_s
    whole = int((until - now) // cycle)
    rest = until - now - whole * cycle
    useful = whole * interval_s + (min(rest, interval_s) if planned else 0.0)
    seconds["useful"] += useful * size_frac
    seconds["shrunk"] += useful * (1 - size_frac)
    seconds["save"] += whole * save_s + (max(rest - interval_s, 0.0) if planned else 0.0)
    seconds["recompute"] += 0.0 if planned else rest
    return until


def _restart(seconds: dict[str, float], now: float, duration_s: float, fleet: _Fleet, job: Job) -> float:
    """Wait for nodes where too few are left, then all parts of the restart, again from the start if
    struck."""
    while now < duration_s:
        ready = fleet.ready_at(now)
        wait = min(ready, duration_s) - now
        seconds["wait_for_nodes"] += wait
        now += wait
        fleet.take(now)
        struck = min(fleet.next_failure(now), duration_s)
        left = struck - now
        for name, part_s in job.restart.parts.items():
            spent = min(part_s, left)
            seconds[name] += spent
            left -= spent
        if left > 0:
            return now + job.restart.total_s
        now = struck
        if now < duration_s:
            fleet.strike(now)
    return now


@dataclass(slots=True, kw_only=True)
class _Fleet:
    """The nodes of one run: who is a lemon, who is in repair, and when the next failure comes."""

    job: Job
    beyond: Beyond
    rng: np.random.Generator
    failures: int = 0
    removed: int = 0
    strikes: list[int] = field(default_factory=list)
    repairs: list[float] = field(default_factory=list)
    missing: int = 0
    _from_s: float = -1.0
    _next_s: float = -1.0

    def __post_init__(self) -> None:
        lemons = (
            int(self.rng.binomial(self.job.nodes, self.beyond.lemon_frac)) if self.beyond.lemon_frac else 0
        )
        self.strikes = [0] * lemons

    @property
    def size_frac(self) -> float:
        """Part of the job's nodes that it runs on."""
        return 1 - self.missing / self.job.nodes

    def next_failure(self, now: float) -> float:
        """When the next failure strikes, drawn once and kept until it does; thinned where rates fall with
        age."""
        if self._next_s <= now or self._from_s < 0:
            most = self._rate(0.0)
            at = now
            while True:
                at += self.rng.exponential(1 / most)
                if self.beyond.infant_ratio == 1 or self.rng.random() < self._rate(at) / most:
                    break
            self._next_s, self._from_s = at, now
        return self._next_s

    def strike(self, now: float) -> None:
        """The failure has come: one node goes to repair, or a group, or a lemon for good."""
        self.failures += 1
        self._next_s = -1.0
        single, lemon, group = self._single(now), self._lemon(now), self.beyond.group_per_s
        draw = self.rng.random() * (single + lemon + group)
        if draw < lemon:
            at = int(self.rng.integers(len(self.strikes)))
            self.strikes[at] += 1
            if self.strikes[at] >= self.beyond.lemon_strikes:
                self.strikes.pop(at)
                self.removed += 1
        count = self.beyond.group_nodes if draw >= lemon + single else 1
        for _ in range(min(count, self.job.nodes)):
            heapq.heappush(self.repairs, now + self.beyond.repair_s)

    def grows_at(self, now: float) -> float:
        """When a shrunk job can take a mended node back, for which it stops of itself; never where it is
        whole."""
        return max(self.repairs[0], now) if self.missing and self.repairs else float("inf")

    def ready_at(self, now: float) -> float:
        """When there are nodes enough to start: at once with spares, elastic or not counted; else after
        repairs."""
        self._mend(now)
        if self.beyond.spares is None or self.beyond.elastic:
            return now
        short = len(self.repairs) - self.beyond.spares
        return now if short <= 0 else sorted(self.repairs)[short - 1]

    def take(self, now: float) -> None:
        """Begin with the nodes there are."""
        self._mend(now)
        if self.beyond.spares is not None and self.beyond.elastic:
            self.missing = min(max(len(self.repairs) - self.beyond.spares, 0), self.job.nodes - 1)

    def _mend(self, now: float) -> None:
        while self.repairs and self.repairs[0] <= now:
            heapq.heappop(self.repairs)

    def _age(self, now: float) -> float:
        ratio = self.beyond.infant_ratio
        return 1.0 if ratio == 1 else 1 + (ratio - 1) * float(np.exp(-now / self.beyond.infant_s))

    def _single(self, now: float) -> float:
        return (self.job.nodes - len(self.strikes)) * self.job.failures_per_s * self._age(now)

    def _lemon(self, now: float) -> float:
        return len(self.strikes) * self.job.failures_per_s * self.beyond.lemon_ratio * self._age(now)

    def _rate(self, now: float) -> float:
        return self._single(now) + self._lemon(now) + self.beyond.group_per_s
