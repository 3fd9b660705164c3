"""What failures cost a job: interval, goodput and where the time goes, with a range; and what real fleets
add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from assay.catalog.faults import FailureRate
from assay.errors import InputError
from assay.plan.reliability import (
    Job,
    Restart,
    all_up_frac,
    availability_frac,
    available_s,
    best_interval_s,
    goodput_frac,
    spares,
    straggler_frac,
    young_s,
)
from assay.plan.simulate import PARTS, Beyond, Life, simulate

#: A node is back a day after it failed, where the site says nothing else.
REPAIR_S = 86400.0
#: Spread of a healthy node's step time (MegaScale: stragglers cost 0.7 % MFU over some 1,300 nodes).
SPREAD_FRAC = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value for the middle failure rate, and for the highest and lowest: `low` is the worse goodput's
    side."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing beyond exponential failures: the simulated goodput with it, and what it changes."""

    code: str
    goodput_frac: float
    change_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """The answer of `plan risk`. Times are in seconds, `parts` fractions of all time that add up to 1."""

    job: Job
    rate: FailureRate
    mtbf_s: Span
    young_s: float
    available_s: float
    interval_s: float
    simulated_interval_s: float
    goodput_frac: Span
    simulated_goodput_frac: float
    simulated_error_frac: float
    parts: Mapping[str, float]
    failures: Span
    spares: int
    node_availability_frac: float
    all_up_frac: float
    straggler_frac: float
    scenarios: tuple[Scenario, ...]
    duration_s: float

    @property
    def lost_s(self) -> float:
        """Time of the run that was not useful."""
        return self.duration_s * (1 - self.goodput_frac.value)


def assess(
    *,
    nodes: int,
    rate: FailureRate,
    save_s: float,
    restart: Restart,
    duration_s: float,
    leaves: int,
    leaf_nodes: int,
    leaf_faults_per_s: float,
    interval_s: float | None = None,
    repair_s: float = REPAIR_S,
    spread_frac: float = SPREAD_FRAC,
    runs: int = 40,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Risk:
    """Closed forms for the plan, `runs` simulated lives to check them, and each effect beyond them apart."""
    if duration_s <= 0 or runs < 1:
        raise InputError(f"{runs} runs of {duration_s:g} s")
    job = Job(nodes=nodes, failures_per_s=rate.value_per_s, save_s=save_s, restart=restart)
    chosen = best_interval_s(job) if interval_s is None else interval_s
    worse = replace(job, failures_per_s=rate.high_per_s)
    better = replace(job, failures_per_s=rate.low_per_s)
    ready = spares(nodes, rate.value_per_s, repair_s)
    cases = _cases(leaves, leaf_nodes, leaf_faults_per_s, ready, repair_s)
    done = 0

    def lives(beyond: Beyond, every_s: float) -> list[Life]:
        nonlocal done
        # The same seeds for every case, so that what differs is the case.
        found = [
            simulate(job, every_s, duration_s, np.random.default_rng(seed + n), beyond) for n in range(runs)
        ]
        done += 1
        if progress:
            progress(done, len(cases) + len(_GRID) + 1)
        return found

    plain = lives(Beyond(), chosen)
    simulated = _mean_goodput(plain)
    total = sum(sum(life.seconds.values()) for life in plain)
    scenarios = []
    for code, beyond in cases:
        mean = _mean_goodput(lives(beyond, chosen))
        scenarios.append(Scenario(code=code, goodput_frac=mean, change_frac=mean - simulated))
    by_interval = {factor: _mean_goodput(lives(Beyond(), chosen * factor)) for factor in _GRID}
    goodput = goodput_frac(job, chosen)
    return Risk(
        job=job,
        rate=rate,
        mtbf_s=Span(value=job.mtbf_s, low=worse.mtbf_s, high=better.mtbf_s),
        young_s=young_s(save_s, job.mtbf_s),
        available_s=available_s(save_s, job.mtbf_s, restart.total_s),
        interval_s=chosen,
        simulated_interval_s=chosen * max(by_interval, key=lambda factor: by_interval[factor]),
        goodput_frac=Span(value=goodput, low=goodput_frac(worse, chosen), high=goodput_frac(better, chosen)),
        simulated_goodput_frac=simulated,
        simulated_error_frac=simulated / goodput - 1 if goodput else 0.0,
        parts={name: sum(life.seconds[name] for life in plain) / total for name in PARTS},
        failures=Span(
            value=duration_s / job.mtbf_s, low=duration_s / better.mtbf_s, high=duration_s / worse.mtbf_s
        ),
        spares=ready,
        node_availability_frac=availability_frac(rate.value_per_s, repair_s),
        all_up_frac=all_up_frac(availability_frac(rate.value_per_s, repair_s), nodes),
        straggler_frac=straggler_frac(nodes, spread_frac),
        scenarios=tuple(scenarios),
        duration_s=duration_s,
    )


#: Factors on the interval that the simulation compares.
_GRID = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)


def _cases(
    leaves: int, leaf_nodes: int, leaf_faults_per_s: float, ready: int, repair_s: float
) -> tuple[tuple[str, Beyond], ...]:
    return (
        ("infant_mortality", Beyond(infant_ratio=3.0)),
        ("lemons", Beyond(lemon_frac=0.01, lemon_ratio=30.0)),
        (
            "leaf_faults",
            Beyond(
                group_per_s=leaves * leaf_faults_per_s,
                group_nodes=leaf_nodes,
                spares=ready,
                repair_s=4 * 3600.0,
            ),
        ),
        ("no_spares", Beyond(spares=0, repair_s=repair_s)),
        ("no_spares_elastic", Beyond(spares=0, repair_s=repair_s, elastic=True)),
        ("hot_spares", Beyond(spares=ready, repair_s=repair_s)),
    )


def _mean_goodput(lives: list[Life]) -> float:
    return float(np.mean([life.goodput_frac for life in lives]))
