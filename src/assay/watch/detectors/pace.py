"""The pace of one job, from its step events: which step it is at, and how long a step usually takes."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import CLUSTER, Subject
from assay.stats import mad_sigma

#: Steps that make a usual value, and the fewest from which one is known.
WINDOW, LEAST = 64, 10


def number(event: Event, name: str) -> float | None:
    """A detail as a number, or None; a NaN stays one."""
    value = event.details.get(name)
    if isinstance(value, str):  # JSON has no NaN, so recorded events spell it
        return float(value) if value in ("nan", "inf", "-inf") else None
    return None if value is None else float(value)


def job_of(event: Event) -> Subject:
    """The job of an event: `group:<job>`, or the cluster where it has no name."""
    name = event.details.get("job")
    return Subject("group", str(name)) if name else CLUSTER


@dataclass(slots=True)
class Pace:
    """Counts each step once, though many ranks log it. `usual` holds step times that were not odd."""

    step: int = -1
    time_s: float = 0.0
    usual: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _median_s: float | None = None
    _sigma_s: float = 0.0
    _stale: int = 0

    def advance(self, event: Event) -> float | None:
        """Seconds of a step when the event is the first to log a new one, else None.

        A step number that goes back is a restart: what follows counts as new, its first step has no time.
        """
        step = number(event, "step")
        if step is None or int(step) == self.step:
            return None
        if int(step) < self.step and event.subject.kind == "rank" and self.step - int(step) <= 2:
            return None  # a rank that logs a little later than the first
        before, since_s = self.step, event.time_s - self.time_s
        self.step, self.time_s = int(step), event.time_s
        told = number(event, "step_s")
        if before < 0 or self.step < before:
            return None if told is None or self.step < before else told
        return told if told is not None else max(since_s, 0.0) / (self.step - before)

    def learn(self, step_s: float) -> None:
        """Take a step time as usual."""
        self.usual.append(step_s)
        self._stale -= 1
        if self._stale <= 0:
            self._median_s = statistics.median(self.usual)
            self._sigma_s = mad_sigma(self.usual)
            self._stale = 1 if len(self.usual) < WINDOW else 8

    @property
    def median_s(self) -> float | None:
        """The usual step time; None before `LEAST` steps."""
        return self._median_s if len(self.usual) >= LEAST else None

    @property
    def sigma_s(self) -> float:
        """The robust deviation of usual step times."""
        return self._sigma_s
