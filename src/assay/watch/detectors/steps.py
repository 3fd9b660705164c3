"""Step times of a whole job: slow all together, slowly slower, and too many long steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from assay.domain.event import Event
from assay.domain.subject import Subject
from assay.stats import mad_sigma
from assay.watch.detectors.pace import Pace, job_of
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised, seen

#: A step this many robust deviations over the median is odd, however small the deviation.
_ODD_SIGMAS = 6.0
#: The CUSUM of drifts, in deviations: reference value and threshold. By Siegmund's approximation the mean
#: run between false alarms is (e^{2kb} − 1 − 2kb)/2k² with b = h + 1.166, here 1.4e11 steps.
DRIFT_K, DRIFT_H = 1.0, 12.0
#: Steps that make the reference of a drift, and the window in which long steps are counted.
_REFERENCE, _COUNTED = 128, 200
_FEWEST_LONG, _CHANCE = 6, 1e-7


class _Paced(Protocol):
    """What is kept of a job: its pace, and whether a signal stands."""

    pace: Pace
    raised: bool


State = TypeVar("State", bound=_Paced)


class _EachJob(Generic[State]):
    """Feeds the steps of each job to `_step`; where the job starts or ends, what stands is over."""

    code: ClassVar[str]

    def __init__(self, make: Callable[[], State]) -> None:
        self._make = make
        self._jobs: dict[Subject, State] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step, or the start or end of a job."""
        if not isinstance(item, Event):
            return
        job = job_of(item)
        if item.kind != "step":
            gone = self._jobs.pop(job, None)
            if gone and gone.raised:
                yield over(self.code, job, item.time_s)
            return
        state = self._jobs.setdefault(job, self._make())
        step_s = state.pace.advance(item)
        if step_s is not None:
            yield from self._step(job, state, step_s, item)

    def _step(self, job: Subject, state: State, step_s: float, event: Event) -> Iterator[Signal]:
        raise NotImplementedError


@dataclass(slots=True)
class _Slow:
    pace: Pace = field(default_factory=Pace)
    streak: int = 0
    quiet: int = 0
    raised: bool = False


@detector(
    "job-slow",
    reads=("step", "job_started", "job_ended"),
    codes=("JOB_SLOW",),
    false_alarms_per_subject_day=1e-5,
)
class JobSlow(_EachJob[_Slow]):
    """All ranks slow together: `job_slow_steps` steps in a row above the usual by `job_slow_frac`.

    If a healthy step is that odd with a chance of 1 % or less, independently of its neighbours, five in a
    row have 1e-10; at a step in 1 s that is 1e-5 a day and job.
    """

    code = "JOB_SLOW"

    def __init__(self, settings: Settings) -> None:
        super().__init__(_Slow)
        self._frac, self._steps = settings.job_slow_frac, settings.job_slow_steps

    def _step(self, job: Subject, state: _Slow, step_s: float, event: Event) -> Iterator[Signal]:
        usual = state.pace.median_s
        slow = usual is not None and step_s > max(
            usual * (1 + self._frac), usual + _ODD_SIGMAS * state.pace.sigma_s
        )
        state.streak, state.quiet = (state.streak + 1, 0) if slow else (0, state.quiet + 1)
        if not slow or usual is None:
            state.pace.learn(step_s)
        if state.raised and state.quiet >= self._steps:
            state.raised = False
            yield over("JOB_SLOW", job, event.time_s)
        if state.streak == self._steps and usual is not None and not state.raised:
            state.raised = True
            yield raised(
                "JOB_SLOW", job, event.time_s, "job_slow", proof=seen(event),
                step_time_s=step_s, usual_s=usual, steps=state.streak,
            )  # fmt: skip


@dataclass(slots=True)
class _Drift:
    pace: Pace = field(default_factory=Pace)
    reference: list[float] = field(default_factory=list)
    mean: float = 0.0
    sigma: float = 0.0
    sum: float = 0.0
    raised: bool = False


@detector(
    "fail-slow",
    reads=("step", "job_started", "job_ended"),
    codes=("FAIL_SLOW",),
    false_alarms_per_subject_day=1e-6,
)
class FailSlow(_EachJob[_Drift]):
    """A job that gets slower bit by bit, by a CUSUM of log step time against its first 128 steps.

    The reference value is one deviation and at least 3/4 of `drift_frac`, the threshold 12 deviations;
    steps count as at most 4 deviations, so that no single one decides. For independent normal log times
    the mean run to a false alarm is 1.4e11 steps.
    """

    code = "FAIL_SLOW"

    def __init__(self, settings: Settings) -> None:
        super().__init__(_Drift)
        self._frac = settings.drift_frac

    def _step(self, job: Subject, state: _Drift, step_s: float, event: Event) -> Iterator[Signal]:
        if step_s <= 0:
            return
        x = math.log(step_s)
        if len(state.reference) < _REFERENCE:
            state.reference.append(x)
            if len(state.reference) == _REFERENCE:
                state.mean, state.sigma = _robust(state.reference, least=self._frac / 4)
            return
        z = min((x - state.mean) / state.sigma, 4.0)
        state.sum = max(0.0, state.sum + z - max(DRIFT_K, 0.75 * self._frac / state.sigma))
        if state.sum > DRIFT_H and not state.raised:
            state.raised = True
            yield raised(
                "FAIL_SLOW", job, event.time_s, "fail_slow", proof=seen(event),
                usual_s=math.exp(state.mean), step_time_s=step_s,
            )  # fmt: skip
        elif state.sum == 0 and state.raised:
            state.raised = False
            yield over("FAIL_SLOW", job, event.time_s)


def _robust(values: list[float], *, least: float) -> tuple[float, float]:
    """Median and robust deviation, the latter at least `least`."""
    return sorted(values)[len(values) // 2], max(mad_sigma(values), least)


@dataclass(slots=True)
class _Long:
    pace: Pace = field(default_factory=Pace)
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=_COUNTED))
    steps: int = 0
    long: int = 0
    saving: bool = False
    raised: bool = False


@detector(
    "step-spikes",
    reads=("step", "job_started", "job_ended", "checkpoint_started"),
    codes=("STEP_SPIKES",),
    false_alarms_per_subject_day=1e-2,
)
class StepSpikes:
    """More long steps than this job is used to: its p99 has moved.

    Of the last 200 steps, those above `spike_ratio` times the median are counted against the share that
    the job had before; the alarm has a chance of 1e-7 per step under a Poisson count. A step beside a
    checkpoint does not count.
    """

    def __init__(self, settings: Settings) -> None:
        self._ratio = settings.spike_ratio
        self._jobs: dict[Subject, _Long] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step, a checkpoint, or the start or end of a job."""
        if not isinstance(item, Event):
            return
        job = job_of(item)
        state = self._jobs.setdefault(job, _Long())
        if item.kind == "checkpoint_started":
            state.saving = True
        elif item.kind != "step":
            del self._jobs[job]
            if state.raised:
                yield over("STEP_SPIKES", job, item.time_s)
        elif (step_s := state.pace.advance(item)) is not None:
            yield from self._step(job, state, step_s, item)

    def _step(self, job: Subject, state: _Long, step_s: float, event: Event) -> Iterator[Signal]:
        usual, state.saving, beside = state.pace.median_s, False, state.saving
        state.pace.learn(step_s)
        if usual is None or beside:
            return
        if len(state.recent) == _COUNTED:
            state.steps, state.long = state.steps + 1, state.long + state.recent[0]
        state.recent.append(step_s > self._ratio * usual)
        count = sum(state.recent)
        expected = len(state.recent) * (1 + state.long) / (100 + state.steps)
        odd = count >= _FEWEST_LONG and poisson_tail(count, expected) < _CHANCE
        if odd and not state.raised:
            state.raised = True
            yield raised(
                "STEP_SPIKES", job, event.time_s, "step_spikes", proof=seen(event),
                count=count, steps=len(state.recent), usual_s=usual,
            )  # fmt: skip
        elif state.raised and count < _FEWEST_LONG / 2:
            state.raised = False
            yield over("STEP_SPIKES", job, event.time_s)


def poisson_tail(count: int, mean: float) -> float:
    """P(X ≥ count) of a Poisson variable."""
    term = total = math.exp(-mean)
    for k in range(1, count):
        term *= mean / k
        total += term
    return max(0.0, 1.0 - total)
