"""Runs benchmarks in disposable worker processes, and survives what happens to them.

Every benchmark gets fresh processes at every restart, a fresh rendezvous, and a deadline. A worker that is
killed, hangs or fails is recorded and named; what the others measured stays, and the next task goes on.
"""

from __future__ import annotations

import math
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.catalog.quantities import quantity
from assay.measure.crew import Crew, Fate, Seat
from assay.measure.registry import Benchmark
from assay.measure.suites import Suite
from assay.store.append import LineFile

#: After one worker has died, the others get this long to notice by themselves; a collective over Gloo
#: fails at once, one over NCCL waits for ever.
GRACE_S = 5.0
#: A worker that the kernel shows as stopped by a signal for this long is not waited for until the deadline.
STOPPED_S = 10.0
#: A rank that was lost or late this often is left out of what follows.
STRIKES = 2
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One restart of one benchmark; `ranks` None is all that are sound.

    `cut_by` says what ends it sooner than its own deadline would; being late is then no rank's fault.
    """

    benchmark: Benchmark
    replicate: int
    deadline_s: float
    settings: dict[str, Any]
    ranks: tuple[int, ...] | None = None
    cut_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a task ended: seconds taken, ranks lost (killed or crashed), ranks past the deadline, failures.

    `cut` where time was up for the run and every rank was still at work.
    """

    task: Task
    seconds: float
    lost: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    cut: bool = False

    @property
    def whole(self) -> bool:
        """Whether every rank ran to its end."""
        return not (self.lost or self.late or self.failed or self.cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What an earlier part of a run did for one benchmark: restarts that ended well, first free number."""

    whole: int = 0
    next_replicate: int = 0


def plan(
    suite: Suite, benchmarks: Iterable[Benchmark], progress: Mapping[str, Progress] | None = None
) -> list[Task]:
    """The tasks of a suite: restart by restart, so that a run that stops early has whole rounds.

    With `progress`, restarts that ended well are not repeated; one that did not keeps its number, because
    what it measured stays.
    """
    tasks = []
    for restart in range(suite.restarts):
        for benchmark in benchmarks:
            had = (progress or {}).get(benchmark.name, Progress())
            if restart < (1 if benchmark.once else suite.restarts) - had.whole:
                tasks.append(task_of(suite, benchmark, had.next_replicate + restart))
    return tasks


def task_of(suite: Suite, benchmark: Benchmark, replicate: int) -> Task:
    """One restart of a benchmark with the suite's settings."""
    return Task(
        benchmark=benchmark,
        replicate=replicate,
        deadline_s=suite.deadline_of(benchmark.name),
        settings=suite.settings.get(benchmark.name, {}),
    )


@dataclass(slots=True)
class Agent:
    """Runs tasks one after another with a crew, and writes into a run folder what became of them.

    `command_time_s` is when the user's command began, for the readiness benchmark.
    """

    run: str
    folder: Path
    crew: Crew
    seed: int
    command_time_s: float
    clock: Callable[[], float] = time.time
    _lines: LineFile = field(init=False)
    _told: set[int] = field(init=False, default_factory=set)
    _strikes: Counter[int] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self._lines = open_agent_lines(self.folder, self.run)

    def run_task(self, task: Task) -> Outcome:
        """Start the workers of one task, watch them, and record what became of them."""
        self.note_absences()
        began = self.clock()
        self._event("task_started", task)
        try:
            self.crew.start(self._spec(task))
            outcome, fates = self._watch(task, began)
        except KeyboardInterrupt:
            self.crew.hurry()
            raise
        finally:
            torn = self.crew.stop()
        for rank, cut in torn.items():
            self._event("line_torn", task, rank=rank, text=f"{cut} bytes of a half line set aside in torn/")
        self.note_absences(task)
        for kind, ranks in (("rank_lost", outcome.lost), ("rank_late", outcome.late)):
            for rank in ranks:
                if rank not in self._told:
                    self._event(kind, task, rank=rank, text=_epitaph(fates[rank], task))
                    self._strike(task, rank)
        if outcome.cut:
            self.skip(task.benchmark, task.cut_by)
        kind = "task_done" if outcome.whole else "task_cut" if outcome.cut else "task_failed"
        text = task.cut_by if outcome.cut else ""
        self._event(kind, task, text=text, seconds=round(outcome.seconds, 3))
        self._lines.sync()
        return outcome

    def _strike(self, task: Task, rank: int) -> None:
        """Count against a rank, and put it in quarantine when it is too often."""
        self._strikes[rank] += 1
        if self._strikes[rank] == STRIKES:
            self._event("rank_quarantined", task, rank=rank, text=f"lost or late {STRIKES} times")

    def retest(self, task: Task) -> None:
        """Each rank in quarantine again, alone and with one that never failed; the outcome is recorded."""
        present = [seat.rank for seat in self.crew.present()]
        sound = [rank for rank in present if not self._strikes[rank]]
        for rank in (rank for rank in present if self._strikes[rank] >= STRIKES):
            for ranks in ((rank,), *((tuple(sorted((rank, good)))) for good in sound[:1])):
                outcome = self.run_task(replace(task, ranks=ranks))
                how = "alone" if len(ranks) == 1 else f"with rank {sound[0]}"
                text = f"tried again {how}: {'ran to its end' if outcome.whole else 'failed again'}"
                self._event("rank_retested", task, rank=rank, text=text)
        self._lines.sync()

    def _seats(self, task: Task) -> tuple[Seat, ...]:
        """The ranks that take part in a task; all, rather than none."""
        present = self.crew.present()
        if task.ranks is not None:
            return tuple(seat for seat in present if seat.rank in task.ranks)
        sound = tuple(seat for seat in present if self._strikes[seat.rank] < STRIKES)
        return sound or present

    def note_absences(self, task: Task | None = None) -> None:
        """Record, once each, the ranks that are out of reach for the rest of the run."""
        for rank, absence in self.crew.absences().items():
            if rank not in self._told:
                self._told.add(rank)
                self._event(absence.kind, task, rank=rank, text=absence.text)

    def skip(self, benchmark: Benchmark, reason: str) -> None:
        """Record that a benchmark cannot run here, and why."""
        for name in benchmark.yields:
            self._lines.append(
                {
                    "type": "reading",
                    "quantity": name,
                    "subject": "cluster",
                    "value": None,
                    "reason": reason,
                    "unit": quantity(name).unit,
                    "time_s": round(self.clock(), 3),
                }
            )

    def interrupted(self) -> None:
        """Record that the user stopped the run."""
        self.note_absences()
        self._event("interrupted", None)
        self._lines.sync()

    def _spec(self, task: Task) -> dict[str, Any]:
        """What the workers are told; each machine adds its own folders and clock."""
        world, seats = self.crew.world, self._seats(task)
        return {
            "run": self.run,
            "benchmark": task.benchmark.name,
            "replicate": task.replicate,
            "from_nothing": task.benchmark.from_nothing,
            "members": [seat.rank for seat in seats],
            "local_ranks": [seat.local_rank for seat in seats],
            "devices": [seat.device for seat in seats],
            "hosts": [seat.host for seat in seats],
            "addresses": [seat.address for seat in seats],
            "threads": [seat.threads for seat in seats],
            "backend": world.backend,
            "crowded": world.crowded,
            "seed": self.seed,
            "settings": task.settings,
            "units": {name: quantity(name).unit for name in task.benchmark.yields},
            "command_time_s": self.command_time_s,
            "seconds": task.deadline_s,
            # Ranks that wait in vain give up before the deadline, so that only the guilty one reaches it.
            "timeout_s": max(1.0, task.deadline_s / 2),
        }

    def _watch(self, task: Task, began: float) -> tuple[Outcome, Mapping[int, Fate]]:
        """Wait until all have ended, one has died or been stopped and the grace is over, or the deadline."""
        deadline = began + task.deadline_s
        died_at = stopped_at = math.inf
        lost: tuple[int, ...] = ()
        while _any_runs(fates := self.crew.fates()):
            now = self.clock()
            if died_at == math.inf and (lost := _lost(fates)):
                died_at = now
            stopped_at = min(stopped_at, now) if any(fate.stopped for fate in fates.values()) else math.inf
            if now > min(deadline, died_at + GRACE_S, stopped_at + STOPPED_S):
                break
            time.sleep(_POLL_S)
        lost = lost or _lost(fates)
        running = tuple(rank for rank, fate in fates.items() if not fate.ended)
        # Where the kernel shows a rank as stopped, the others only wait for it.
        stopped = tuple(rank for rank in running if fates[rank].stopped)
        failed = (rank for rank, fate in fates.items() if fate.code not in (0, None) and rank not in lost)
        # A rank that hangs outlasts the others, which give up waiting for it; here all were at work.
        cut = bool(task.cut_by) and len(running) == len(fates) and not stopped and not lost
        outcome = Outcome(
            task=task,
            seconds=self.clock() - began,
            lost=lost,
            late=() if lost or cut else stopped or running,
            failed=tuple(failed),
            cut=cut,
        )
        return outcome, fates

    def _event(
        self,
        kind: str,
        task: Task | None,
        *,
        rank: int | None = None,
        text: str = "",
        **details: str | float | None,
    ) -> None:
        about = {"benchmark": task.benchmark.name, "replicate": task.replicate} if task else {}
        self._lines.append(
            {
                "type": "event",
                "kind": kind,
                "time_s": round(self.clock(), 3),
                "subject": "cluster" if rank is None else f"rank:{rank}",
                "text": text,
                "details": about | details,
            }
        )


def open_agent_lines(folder: Path, run: str) -> LineFile:
    """The file of an agent's own lines in a run folder, with its header."""
    path = folder / "agent.jsonl"
    lines = LineFile(path)
    if not path.stat().st_size:
        lines.append({"type": "header", "schema_version": 1, "run": run, "rank": None})
    return lines


def _any_runs(fates: Mapping[int, Fate]) -> bool:
    return not all(fate.ended for fate in fates.values())


def _lost(fates: Mapping[int, Fate]) -> tuple[int, ...]:
    """Ranks out of reach, or that a signal ended. Gloo aborts innocent ranks: an abort counts when alone."""
    gone = tuple(rank for rank, fate in fates.items() if fate.gone)
    signals = {rank: -fate.code for rank, fate in fates.items() if fate.code is not None and fate.code < 0}
    others = tuple(rank for rank, number in signals.items() if number != signal.SIGABRT)
    return gone + others or tuple(signals)


def _epitaph(fate: Fate, task: Task) -> str:
    """How a worker ended, in words."""
    if fate.code is None and fate.stopped:
        return f"was stopped by a signal for {STOPPED_S:g} s or until the deadline"
    if fate.code is None:
        return fate.gone or f"did not end within {task.deadline_s:g} s and was stopped"
    return (
        f"killed by {signal.Signals(-fate.code).name}"
        if fate.code < 0
        else f"ended with exit code {fate.code}"
    )


def programs_missing(benchmark: Benchmark) -> tuple[str, ...]:
    """Programs that the benchmark needs and the PATH lacks."""
    return tuple(program for program in benchmark.needs if shutil.which(program) is None)
