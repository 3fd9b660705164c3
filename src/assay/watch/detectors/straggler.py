"""One rank slower than its siblings: at once, or by and by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.watch.detectors.pace import job_of, number
from assay.watch.detectors.steps import DRIFT_H, DRIFT_K
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised

#: Steps in which each rank's own usual place among its siblings is learnt.
_REFERENCE = 64
_ODD_SIGMAS = 6.0
_FEWEST_RANKS = 3
#: A rank that logs a step so late is left out of it; going back further is a restart.
_LATE_STEPS = 2


@dataclass(slots=True)
class _Ranks:
    """Vectors over the ranks of a job, and the step that is being gathered from their logs."""

    subjects: tuple[Subject, ...] = ()
    steps: int = 0
    sum: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    square: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    streak: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    cusum: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    raised: dict[tuple[str, int], int] = field(default_factory=dict)
    step: int = -1
    gathered: dict[Subject, float] = field(default_factory=dict)


@detector(
    "straggler",
    reads=("step", "rank_busy_s", "job_started", "job_ended"),
    codes=("APP_STRAGGLER", "FAIL_SLOW"),
    false_alarms_per_subject_day=1e-6,
)
class Straggler:
    """Compares the busy time of the ranks of a job in the same step, so that what slows all cancels.

    A rank is a straggler when it is above the median of its siblings by `straggler_frac`, and by 6 robust
    deviations of theirs, in `straggler_steps` steps in a row. If a healthy rank is that odd with a chance
    of 1 % or less, independently from step to step, that is 1e-10 a step, and 1e-6 a day at a step in 9 s.
    A rank that gets slower by and by is found by a CUSUM of its log ratio to the median, as for jobs.

    Ranks of a synchronous job wait for each other, so their step times are alike; `busy_s` (the time
    without waiting) tells them apart. Where logs have no `busy_s`, the step time is taken.
    """

    def __init__(self, settings: Settings) -> None:
        self._frac, self._in_a_row = settings.straggler_frac, settings.straggler_steps
        self._drift = settings.drift_frac
        self._jobs: dict[Subject, _Ranks] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step of one rank, or the busy times of all."""
        if isinstance(item, Samples):
            state = self._jobs.setdefault(Subject("group", item.source or "all"), _Ranks())
            yield from self._compare(state, item.subjects, item.values, item.time_s)
            return
        job = job_of(item)
        if item.kind != "step":
            state = self._jobs.pop(job, _Ranks())
            for code, at in state.raised:
                yield over(code, state.subjects[at], item.time_s)
        elif item.subject.kind == "rank":
            yield from self._gather(self._jobs.setdefault(job, _Ranks()), item)

    def _gather(self, state: _Ranks, event: Event) -> Iterator[Signal]:
        """Collect one step over the ranks; compare when all have logged it, or the next one begins."""
        step, busy = number(event, "step"), number(event, "busy_s")
        busy = busy if busy is not None else number(event, "step_s")
        if step is None or busy is None or -_LATE_STEPS <= int(step) - state.step < 0:
            return
        if int(step) != state.step:
            yield from self._gathered(state, event.time_s)
            state.step = int(step)
        state.gathered[event.subject] = busy
        if len(state.gathered) == len(state.subjects):
            yield from self._gathered(state, event.time_s)

    def _gathered(self, state: _Ranks, time_s: float) -> Iterator[Signal]:
        """Compare what was collected; a rank that has not logged the step has no value in it."""
        if state.gathered.keys() <= set(state.subjects):
            subjects = state.subjects
        else:
            subjects = tuple(sorted({*state.subjects, *state.gathered}))
        values = np.array([state.gathered.get(s, np.nan) for s in subjects])
        if state.gathered:
            state.gathered = {}
            yield from self._compare(state, subjects, values, time_s)

    def _compare(
        self, state: _Ranks, subjects: tuple[Subject, ...], values: NDArray[np.float64], time_s: float
    ) -> Iterator[Signal]:
        if subjects is not state.subjects:
            _start_over(state, subjects)
        known = np.isfinite(values) & (values > 0)
        if known.sum() < _FEWEST_RANKS:
            return
        place = np.log(np.where(known, values, np.nan))
        median = float(np.nanmedian(place))
        place = np.nan_to_num(place - median)
        sigma = max(1.4826 * float(np.median(np.abs(place[known]))), 1e-9)
        odd = place > max(np.log1p(self._frac), _ODD_SIGMAS * sigma)
        state.streak = np.where(odd, state.streak + 1, 0)
        yield from self._sudden(state, np.exp(place) - 1, time_s)
        yield from self._slow(state, np.where(odd, np.nan, place), time_s)
        state.steps += 1

    def _sudden(self, state: _Ranks, above: NDArray[np.float64], time_s: float) -> Iterator[Signal]:
        for at in np.flatnonzero(state.streak == self._in_a_row).tolist():
            if ("APP_STRAGGLER", at) not in state.raised:
                state.raised["APP_STRAGGLER", at] = state.steps
                yield raised(
                    "APP_STRAGGLER", state.subjects[at], time_s, "straggler",
                    above_frac=float(above[at]), steps=self._in_a_row, ranks=len(state.subjects),
                )  # fmt: skip
        for code, at in list(state.raised):
            if code == "APP_STRAGGLER":
                if state.streak[at]:
                    state.raised[code, at] = state.steps
                elif state.steps - state.raised[code, at] >= self._in_a_row:
                    del state.raised[code, at]
                    yield over(code, state.subjects[at], time_s)

    def _slow(self, state: _Ranks, place: NDArray[np.float64], time_s: float) -> Iterator[Signal]:
        """The CUSUM; odd steps belong to the other test and count as nothing here."""
        x = np.nan_to_num(place)
        if state.steps < _REFERENCE:
            state.sum += x
            state.square += x * x
            return
        mean = state.sum / _REFERENCE
        own = np.sqrt(np.maximum(state.square / _REFERENCE - mean**2, 0))
        # A deviation from 64 steps may be too small by a fifth; siblings know it better.
        sigma = np.maximum(np.maximum(own, np.median(own)), self._drift / 4)
        z = np.where(np.isnan(place), 0, np.clip((x - mean) / sigma, -4, 4))
        state.cusum = np.maximum(0, state.cusum + z - np.maximum(DRIFT_K, 0.75 * self._drift / sigma))
        for at in np.flatnonzero(state.cusum > DRIFT_H).tolist():
            if ("FAIL_SLOW", at) not in state.raised:
                state.raised["FAIL_SLOW", at] = state.steps
                above = float(np.exp(x[at]) - 1)
                yield raised(
                    "FAIL_SLOW", state.subjects[at], time_s, "rank_drifts", above_frac=above
                )  # fmt: skip
        for code, at in list(state.raised):
            if code == "FAIL_SLOW" and state.cusum[at] == 0:
                del state.raised[code, at]
                yield over(code, state.subjects[at], time_s)


def _start_over(state: _Ranks, subjects: tuple[Subject, ...]) -> None:
    n = len(subjects)
    state.subjects, state.steps, state.raised = subjects, 0, {}
    state.sum, state.square, state.cusum = np.zeros(n), np.zeros(n), np.zeros(n)
    state.streak = np.zeros(n, dtype=np.int64)
