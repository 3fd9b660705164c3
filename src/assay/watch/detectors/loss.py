"""The training loss: spikes, values that are no numbers, and divergence."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.finding import Severity
from assay.domain.subject import Subject
from assay.stats import mad_sigma
from assay.watch.detectors.pace import Pace, job_of, number
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised, seen

#: Steps whose loss is usual, and the fewest from which that is known.
_WINDOW, _LEAST = 50, 10


@dataclass(slots=True)
class _Losses:
    pace: Pace = field(default_factory=Pace)
    usual: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    high_since: int | None = None
    quiet_until: int = -1
    raised: str | None = None
    best: float = math.inf


@detector(
    "loss",
    reads=("step", "job_started", "job_ended"),
    codes=("LOSS_SPIKE", "LOSS_DIVERGED"),
    false_alarms_per_subject_day=1e-2,
)
class Loss:
    """A loss above the median of its last 50 steps by 8 robust deviations and 15 %; then 50 steps of calm.

    Two steps in a row, or twice as far in one. A normal loss is above 8 robust deviations of 50 values with
    a chance below 1e-9; the 15 % and the second step keep a loss of heavier tails (Student's t with 4 degrees
    of freedom) below one false alarm in 100 days. A loss that stays high for the 50 steps, whose median rises
    above the best by `loss_diverged_frac` with it, or that is no number, has diverged.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._jobs: dict[Subject, _Losses] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step, or the start or end of a job."""
        if not isinstance(item, Event):
            return
        job = job_of(item)
        if item.kind != "step":
            gone = self._jobs.pop(job, None)
            if gone and gone.raised:
                yield over(gone.raised, job, item.time_s)
            return
        loss = number(item, "loss")
        if loss is None:
            return
        state = self._jobs.setdefault(job, _Losses())
        step = state.pace.step
        state.pace.advance(item)
        if state.pace.step < step:  # a restart goes on from an earlier loss
            state.usual.clear()
            state.best = math.inf
        if state.pace.step != step:
            yield from self._step(job, state, loss, item)

    def _step(self, job: Subject, state: _Losses, loss: float, event: Event) -> Iterator[Signal]:
        step = state.pace.step
        if not math.isfinite(loss):
            yield from self._diverged(job, state, event, "loss_no_number", step=step)
            return
        median = statistics.median(state.usual) if len(state.usual) >= _LEAST else None
        if median is None:
            yield from self._calm(job, state, loss, event)
            return
        margin = max(
            self._settings.loss_spike_sigmas * mad_sigma(state.usual),
            self._settings.loss_spike_frac * abs(median),
        )
        if loss <= median + margin:
            yield from self._calm(job, state, loss, event)
            return
        sure = state.high_since is not None or loss > median + 2 * margin
        state.high_since = step if state.high_since is None else state.high_since
        if step - state.high_since >= self._settings.loss_cool_down_steps:
            yield from self._diverged(
                job, state, event, "loss_stays", loss=loss, usual=median, steps=step - state.high_since
            )
        elif sure and step > state.quiet_until and state.raised is None:
            state.raised, state.quiet_until = "LOSS_SPIKE", step + self._settings.loss_cool_down_steps
            yield raised(
                "LOSS_SPIKE", job, event.time_s, "loss_spike", proof=seen(event),
                loss=loss, usual=median, step=step,
            )  # fmt: skip

    def _calm(self, job: Subject, state: _Losses, loss: float, event: Event) -> Iterator[Signal]:
        state.high_since = None
        state.usual.append(loss)
        if state.raised:
            yield over(state.raised, job, event.time_s)
            state.raised = None
        if len(state.usual) < _WINDOW:
            return
        median = statistics.median(state.usual)
        state.best = min(state.best, median)
        if median > state.best + max(
            self._settings.loss_diverged_frac * abs(state.best), 3 * mad_sigma(state.usual)
        ):
            yield from self._diverged(job, state, event, "loss_rises", loss=median, usual=state.best)

    def _diverged(
        self, job: Subject, state: _Losses, event: Event, why: str, **values: float
    ) -> Iterator[Signal]:
        if state.raised == "LOSS_DIVERGED":
            return
        if state.raised:
            yield over(state.raised, job, event.time_s)
        state.raised = "LOSS_DIVERGED"
        yield raised(
            "LOSS_DIVERGED", job, event.time_s, why, proof=seen(event), severity=Severity.HIGH, **values
        )
