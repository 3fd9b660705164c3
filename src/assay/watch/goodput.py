"""Where the time of a job goes: productive steps, slow ones, saving, computing again, restarting, waiting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.ledger import JobTime, Session, Spent
from assay.watch.detectors.pace import Pace, job_of
from assay.watch.registry import TICK
from assay.watch.settings import Settings
from assay.watch.signal import Item

MINUTE_S = 60.0


@dataclass(slots=True)
class _Job:
    name: str
    session: Session
    settled_s: float
    pace: Pace = field(default_factory=Pace)
    best: int = -1
    saving: bool = False
    starting: bool = True
    spent: Spent = field(default_factory=Spent)
    steps: int = 0


class Goodput:
    """Fed with items in order of time; gives sessions, and a `JobTime` per minute and job."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._slow = 1 + (settings or Settings()).job_slow_frac
        self._jobs: dict[str, _Job] = {}
        self._best: dict[str, int] = {}
        self._minute_s: float | None = None
        #: When watching began: nothing is told of the time before.
        self._began_s = -math.inf
        #: Jobs that have ended since the last full minute.
        self._over: list[_Job] = []

    def feed(self, item: Item) -> Iterator[Session | JobTime]:
        """Entries that one more item settles."""
        if not isinstance(item, Event):
            return
        if self._minute_s is None:
            self._minute_s, self._began_s = item.time_s // MINUTE_S * MINUTE_S, item.time_s
        if item.kind == TICK:
            if item.time_s >= self._minute_s + MINUTE_S:
                yield from self._settle(item.time_s)
        elif item.kind in ("step", "job_started", "job_ended", "checkpoint_started", "checkpoint_saved"):
            yield from self._job(item)

    def close(self, now_s: float) -> Iterator[Session | JobTime]:
        """What is left at the end of watching."""
        yield from self._settle(now_s)

    def _job(self, event: Event) -> Iterator[Session | JobTime]:
        name = job_of(event).name or "job"
        job = self._jobs.get(name)
        if job is None or event.kind == "job_started":
            if job is not None:
                yield from self._ended(job, event.time_s, broken=True)
            job = self._jobs[name] = _Job(
                name=name, session=Session(job=name, started_s=event.time_s), settled_s=event.time_s
            )
            job.best = self._best.get(name, -1)
            yield job.session
        if event.kind == "step":
            self._step(job, event)
        elif event.kind.startswith("checkpoint_"):
            self._gap(job, event.time_s)
            job.saving = event.kind == "checkpoint_started"
        elif event.kind == "job_ended":
            yield from self._ended(job, event.time_s, broken=event.details.get("ok") in (0, False, "no"))

    def _step(self, job: _Job, event: Event) -> None:
        before = job.pace.step
        step_s = job.pace.advance(event)
        if job.pace.step == before:
            return
        if 0 <= job.pace.step < before:
            job.starting = True  # it went back: the launcher restarted it within the same session
        usual = job.pace.median_s
        step_s = 0.0 if step_s is None else min(step_s, max(event.time_s - job.settled_s, 0.0))
        self._gap(job, event.time_s - step_s)
        again = job.pace.step <= job.best
        slow_s = step_s - usual if usual is not None and step_s > self._slow * usual else 0.0
        used = Spent(recompute_s=step_s) if again else Spent(productive_s=step_s - slow_s, slow_s=slow_s)
        job.spent, job.steps = job.spent.plus(used), job.steps + 1
        job.best = self._best[job.name] = max(job.best, job.pace.step)
        job.settled_s, job.starting, job.saving = event.time_s, False, False
        if step_s and not slow_s:
            job.pace.learn(step_s)

    def _gap(self, job: _Job, until_s: float) -> None:
        """Count the time in which no step ran as what the job was in."""
        gap_s = max(until_s - job.settled_s, 0.0)
        job.settled_s = max(until_s, job.settled_s)
        if job.saving:
            used = Spent(checkpoint_s=gap_s)
        elif job.starting:
            used = Spent(restart_s=gap_s)
        else:
            used = Spent(waiting_s=gap_s)
        job.spent = job.spent.plus(used)

    def _ended(self, job: _Job, time_s: float, *, broken: bool) -> Iterator[Session]:
        self._gap(job, time_s)
        yield Session(job=job.name, started_s=job.session.started_s, ended_s=time_s, broken=broken)
        self._over.append(self._jobs.pop(job.name))

    def _settle(self, now_s: float) -> Iterator[JobTime]:
        begin_s = self._minute_s if self._minute_s is not None else now_s
        end_s = max(now_s // MINUTE_S * MINUTE_S, begin_s)
        self._minute_s = end_s
        totals: dict[str, tuple[Spent, int]] = {}
        for job in self._jobs.values():
            usual = job.pace.median_s or MINUTE_S
            if now_s - job.settled_s > max(MINUTE_S, 2 * usual):
                self._gap(job, now_s)
        for job in [*self._over, *self._jobs.values()]:
            spent, steps = totals.get(job.name, (Spent(), 0))
            totals[job.name] = spent.plus(job.spent), steps + job.steps
            job.spent, job.steps = Spent(), 0
        self._over = []
        for name, (spent, steps) in totals.items():
            if spent.total_s > 0:
                from_s, to_s = max(begin_s, self._began_s), max(end_s, now_s)
                yield JobTime(job=name, from_s=from_s, to_s=to_s, spent=spent, steps=steps)
