"""Checkpoints: one that is overdue, and one that does not end."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import Subject
from assay.watch.detectors.pace import job_of
from assay.watch.registry import TICK, detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised

#: A save counts as stalled after this many usual saves, and at least so long.
_STALL_RATIO, _STALL_LEAST_S = 10.0, 8.0
_FEWEST = 3


@dataclass(slots=True)
class _Saves:
    started_s: float | None = None
    saved_s: float | None = None
    stepped_s: float = 0.0
    took: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    apart: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    raised: set[str] = field(default_factory=set)


@detector(
    "checkpoint",
    reads=("step", "checkpoint_started", "checkpoint_saved", "job_started", "job_ended", TICK),
    codes=("CHECKPOINT_OVERDUE", "APP_CHECKPOINT_STALL"),
    false_alarms_per_subject_day=1e-3,
)
class Checkpoint:
    """Against the job's own habit, once it has three checkpoints.

    Overdue: training goes on, and none was saved for `checkpoint_overdue_ratio` usual intervals. Stalled:
    a save runs for 10 usual saves and at least 8 s. A healthy job would have to skip two saves in a row, or
    to save ten times slower; the bound assumes that neither happens more than once in three years.
    """

    def __init__(self, settings: Settings) -> None:
        self._ratio = settings.checkpoint_overdue_ratio
        self._jobs: dict[Subject, _Saves] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step, a checkpoint, the start or end of a job, or a second that has passed."""
        if not isinstance(item, Event):
            return
        if item.kind == TICK:
            for job, state in self._jobs.items():
                yield from self._look(job, state, item.time_s)
            return
        job = job_of(item)
        state = self._jobs.setdefault(job, _Saves())
        if item.kind == "step":
            state.stepped_s = item.time_s
        elif item.kind == "checkpoint_started":
            state.started_s = item.time_s
        elif item.kind == "checkpoint_saved":
            yield from self._saved(job, state, item)
        else:
            del self._jobs[job]
            for code in sorted(state.raised):
                yield over(code, job, item.time_s)

    def _saved(self, job: Subject, state: _Saves, event: Event) -> Iterator[Signal]:
        if state.started_s is not None and "APP_CHECKPOINT_STALL" not in state.raised:
            state.took.append(event.time_s - state.started_s)
        if state.saved_s is not None and not state.raised:
            state.apart.append(event.time_s - state.saved_s)
        state.saved_s, state.started_s = event.time_s, None
        for code in sorted(state.raised):
            yield over(code, job, event.time_s)
        state.raised.clear()

    def _look(self, job: Subject, state: _Saves, now_s: float) -> Iterator[Signal]:
        if state.started_s is not None and len(state.took) >= _FEWEST:
            usual = statistics.median(state.took)
            running_s = now_s - state.started_s
            if running_s > max(_STALL_RATIO * usual, _STALL_LEAST_S):
                yield from self._raise(
                    "APP_CHECKPOINT_STALL", job, state, now_s, "save_stalls", running_s, usual
                )
        elif state.saved_s is not None and len(state.apart) >= _FEWEST:
            usual = statistics.median(state.apart)
            waited_s = now_s - state.saved_s
            if waited_s > self._ratio * usual and state.stepped_s > state.saved_s + 2 * usual:
                yield from self._raise(
                    "CHECKPOINT_OVERDUE", job, state, now_s, "save_overdue", waited_s, usual
                )

    def _raise(
        self, code: str, job: Subject, state: _Saves, now_s: float, why: str, waited_s: float, usual_s: float
    ) -> Iterator[Signal]:
        if code not in state.raised:
            state.raised.add(code)
            yield raised(code, job, now_s, why, waited_s=waited_s, usual_s=usual_s)
