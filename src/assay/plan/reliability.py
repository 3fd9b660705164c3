"""Failures, checkpoints and what they leave of the time: closed forms for planning.

A job of n nodes fails with rate λ = n·r (r: failures a node and second, all causes). Work is saved every τ
seconds at a blocking cost C; a failure costs a restart R and the work since the last save.

- Young 1974: τ = √(2·C·M), M = 1/λ.
- Availability-optimal (arXiv 2410.18124): T = C + √(2(M + R)·C + C²), the time from save to save.
- Daly 2006, exact for exponential failures, which may also strike in saves and restarts:
  E[time for τ] = M·e^{R/M}·(e^{(τ+C)/M} − 1), so goodput = τ / E.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Where a restart's time goes; `recompute` is not here: it follows from the interval."""

    detect_s: float = 120.0
    drain_s: float = 30.0
    reschedule_s: float = 120.0
    load_s: float = 120.0

    def __post_init__(self) -> None:
        for name, value in self.parts.items():
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"restart: {name} takes {value:g} s")

    @property
    def parts(self) -> Mapping[str, float]:
        """Seconds of each part."""
        return {
            "detect": self.detect_s,
            "drain": self.drain_s,
            "reschedule": self.reschedule_s,
            "load": self.load_s,
        }

    @property
    def total_s(self) -> float:
        """All of it."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that fails and saves: nodes, failures of one node a second, blocking save, restart."""

    nodes: int
    failures_per_s: float
    save_s: float
    restart: Restart

    def __post_init__(self) -> None:
        if self.nodes < 1 or not self.failures_per_s > 0 or not self.save_s > 0:
            raise InputError(
                f"{self.nodes} nodes, {self.failures_per_s:g} failures a node and second, saves of "
                f"{self.save_s:g} s: each must be above zero"
            )

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures of the whole job."""
        return 1 / (self.nodes * self.failures_per_s)


def young_s(save_s: float, mtbf_s: float) -> float:
    """Young's interval of work between saves."""
    return math.sqrt(2 * save_s * mtbf_s)


def available_s(save_s: float, mtbf_s: float, restart_s: float) -> float:
    """The availability-optimal time from one save to the next, the save included (arXiv 2410.18124)."""
    return save_s + math.sqrt(2 * (mtbf_s + restart_s) * save_s + save_s**2)


def goodput_frac(job: Job, interval_s: float) -> float:
    """Useful over all time with `interval_s` of work between saves, by Daly's exact form.

    0 where the interval is so long against the failures that nothing is ever saved.
    """
    if interval_s <= 0:
        raise InputError(f"a checkpoint interval of {interval_s:g} s")
    mtbf = job.mtbf_s
    exponent = (interval_s + job.save_s) / mtbf
    if exponent + job.restart.total_s / mtbf > 700:
        return 0.0
    return interval_s / (mtbf * math.exp(job.restart.total_s / mtbf) * math.expm1(exponent))


def best_interval_s(job: Job) -> float:
    """The interval of the largest goodput, by bisection of the derivative's sign.

    With x = (τ + C)/M the optimum solves (x − C/M)·eˣ = eˣ − 1, which has one root.
    """
    cost = job.save_s / job.mtbf_s
    low, high = cost, cost + math.sqrt(2 * cost) + 2.0
    for _ in range(200):
        middle = (low + high) / 2
        if (middle - cost - 1) * math.exp(middle) + 1 < 0:
            low = middle
        else:
            high = middle
    return max((low + high) / 2 - cost, 1e-9) * job.mtbf_s


def availability_frac(failures_per_s: float, repair_s: float) -> float:
    """Part of the time that one node is up, when each failure takes `repair_s` to mend."""
    return 1 / (1 + failures_per_s * repair_s)


def all_up_frac(node_frac: float, nodes: int) -> float:
    """Part of the time that all nodes are up at once: the job's availability without spares."""
    return node_frac**nodes


def spares(nodes: int, failures_per_s: float, repair_s: float, *, level: float = 0.99) -> int:
    """Hot spares so that with probability `level` no failure waits for a repair (Poisson in the repair
    time)."""
    mean = nodes * failures_per_s * repair_s
    term = total = math.exp(-mean)
    count = 0
    while total < level and count < 100_000:
        count += 1
        term *= mean / count
        total += term
    return count


def expected_largest(ranks: int) -> float:
    """Expected largest of `ranks` standard normal deviates, by Blom's approximation."""
    if ranks < 2:
        return 0.0
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))


def straggler_frac(ranks: int, sigma_frac: float) -> float:
    """What a step loses by waiting for the slowest of `ranks`, each of spread `sigma_frac`: σ·E[max]."""
    return sigma_frac * expected_largest(ranks)


def spot_overhead_frac(save_s: float, restart_s: float, mtbf_s: float) -> float:
    """Time lost to preemptions over time used: √(2C/M) + R/M, to first order."""
    return math.sqrt(2 * save_s / mtbf_s) + restart_s / mtbf_s
