"""A job that stands still, and who did not arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import Subject
from assay.watch.detectors.pace import Pace, job_of, number
from assay.watch.registry import TICK, detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised


@dataclass(slots=True)
class _Standing:
    pace: Pace = field(default_factory=Pace)
    last_of: dict[Subject, int] = field(default_factory=dict)
    progress_s: float = 0.0
    saving: bool = False
    raised: Subject | None = None


@detector(
    "hang",
    reads=("step", "job_started", "job_ended", "checkpoint_started", "checkpoint_saved", TICK),
    codes=("JOB_HUNG",),
    false_alarms_per_subject_day=1e-4,
)
class Hang:
    """No step for `hang_steps` usual steps and at least `hang_least_s`; `pause_s` while it saves.

    If the gaps between steps of a healthy job are at most exponential with the usual step as their mean,
    a gap of 8 has a chance of 3e-4 and is then also longer than 6 s only in jobs of slow steps; gaps of
    checkpoints and restarts are told by their events. The bound holds for jobs whose longest healthy gap
    is 8 usual steps.
    """

    def __init__(self, settings: Settings) -> None:
        self._steps, self._least_s, self._pause_s = (
            settings.hang_steps,
            settings.hang_least_s,
            settings.pause_s,
        )
        self._jobs: dict[Subject, _Standing] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A step, a checkpoint, the start or end of a job, or a second that has passed."""
        if not isinstance(item, Event):
            return
        if item.kind == TICK:
            for job, state in self._jobs.items():
                yield from self._look(job, state, item.time_s)
            return
        job = job_of(item)
        state = self._jobs.setdefault(job, _Standing())
        if item.kind == "step":
            yield from self._step(state, item)
        elif item.kind.startswith("checkpoint_"):
            state.saving, state.progress_s = item.kind == "checkpoint_started", item.time_s
        else:
            del self._jobs[job]
            if state.raised:
                yield over("JOB_HUNG", state.raised, item.time_s)

    def _step(self, state: _Standing, event: Event) -> Iterator[Signal]:
        step = number(event, "step")
        if step is None:
            return
        state.last_of[event.subject] = int(step)
        step_s = state.pace.advance(event)
        if int(step) >= state.pace.step:
            state.progress_s = event.time_s
            if step_s is not None:
                state.saving = False
                state.pace.learn(step_s)
            if state.raised:
                yield over("JOB_HUNG", state.raised, event.time_s)
                state.raised = None

    def _look(self, job: Subject, state: _Standing, now_s: float) -> Iterator[Signal]:
        usual = state.pace.median_s
        if usual is None or state.raised:
            return
        limit_s = max(self._least_s, self._steps * usual)
        waited_s = now_s - state.progress_s
        if waited_s <= (max(limit_s, self._pause_s) if state.saving else limit_s):
            return
        behind = [who for who, last in state.last_of.items() if last < state.pace.step]
        named = behind[0] if len(behind) == 1 and len(state.last_of) > 2 else job
        state.raised = named
        yield raised(
            "JOB_HUNG", named, now_s, "hung" if named is job else "hung_rank",
            waited_s=waited_s, usual_s=usual, step=state.pace.step,
        )  # fmt: skip
