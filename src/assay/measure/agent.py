"""Runs benchmarks in disposable worker processes on this machine, and survives what happens to them.

Every benchmark gets fresh processes at every restart, a fresh rendezvous, and a deadline. A worker that is
killed, hangs or fails is recorded and named; what the others measured stays, and the next task goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.catalog.quantities import quantity
from assay.measure.registry import Benchmark
from assay.measure.suites import Suite
from assay.store.append import LineFile, set_aside_torn_tail, torn_tail

#: After one worker has died, the others get this long to notice by themselves; a collective over Gloo
#: fails at once, one over NCCL waits for ever.
GRACE_S = 5.0
#: The command that starts a worker; it gets the path of its spec and its rank.
WORKER = (sys.executable, "-m", "assay.measure.worker")
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The ranks on this machine and what they run on."""

    host: str
    ranks: int
    cores: float
    devices: tuple[str, ...]
    backend: str

    @property
    def threads(self) -> int:
        """CPU threads for each rank."""
        return max(1, int(self.cores) // self.ranks)

    @property
    def crowded(self) -> str | None:
        """Why absolute rates and scaling mean nothing here, or None."""
        if self.backend == "gloo":
            return f"{self.ranks} ranks share {self.cores:g} cores" if self.ranks > self.cores else None
        shared = len(self.devices) - len(set(self.devices))
        return f"{len(self.devices)} ranks share {len(set(self.devices))} GPUs" if shared else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One restart of one benchmark."""

    benchmark: Benchmark
    replicate: int
    deadline_s: float
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a task ended: seconds taken, ranks lost (killed or crashed), ranks past the deadline, failures."""

    task: Task
    seconds: float
    lost: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every rank ran to its end."""
        return not (self.lost or self.late or self.failed)


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
    """Runs tasks one after another into a run folder.

    `worker` is the command that starts a worker. `command_time_s` is when the user's command began, for the
    readiness benchmark.
    """

    run: str
    folder: Path
    machine: Machine
    seed: int
    command_time_s: float
    worker: tuple[str, ...] = WORKER
    clock: Callable[[], float] = time.time
    _lines: LineFile = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "samples").mkdir(exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        path = self.folder / "agent.jsonl"
        self._lines = LineFile(path)
        if not path.stat().st_size:
            self._lines.append({"type": "header", "schema_version": 1, "run": self.run, "rank": None})

    def run_task(self, task: Task) -> Outcome:
        """Start the workers of one task, watch them, and record what became of them."""
        began = self.clock()
        self._event("task_started", task)
        with tempfile.TemporaryDirectory(prefix="assay-") as scratch:
            workers = _Workers(self._spec(task, scratch, began), self, task)
            try:
                outcome = workers.watch(began)
            finally:
                workers.stop()
                shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        self._mend(task)
        for kind, ranks in (("rank_lost", outcome.lost), ("rank_late", outcome.late)):
            for rank in ranks:
                self._event(kind, task, rank=rank, text=workers.epitaph(rank))
        self._event("task_done" if outcome.whole else "task_failed", task, seconds=round(outcome.seconds, 3))
        self._lines.sync()
        return outcome

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
        self._event("interrupted", None)
        self._lines.sync()

    def _spec(self, task: Task, scratch: str, began: float) -> Path:
        machine = self.machine
        spec = {
            "run": self.run,
            "folder": str(self.folder),
            "scratch": scratch,
            "rendezvous": f"{scratch}/rendezvous",
            "agent_pid": os.getpid(),
            "benchmark": task.benchmark.name,
            "replicate": task.replicate,
            "world": machine.ranks,
            "local_ranks": list(range(machine.ranks)),
            "devices": list(machine.devices),
            "host": machine.host,
            "backend": machine.backend,
            "threads": machine.threads,
            "crowded": machine.crowded,
            "seed": self.seed,
            "settings": task.settings,
            "units": {name: quantity(name).unit for name in task.benchmark.yields},
            "command_time_s": self.command_time_s,
            "launched_s": began,
            "deadline_s": began + task.deadline_s,
            # Ranks that wait in vain give up before the deadline, so that only the guilty one reaches it.
            "timeout_s": max(1.0, task.deadline_s / 2),
        }
        path = Path(scratch) / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        return path

    def _mend(self, task: Task) -> None:
        """Set aside the half line of a worker that was killed while it wrote, and say so."""
        for rank in range(self.machine.ranks):
            path = self.folder / f"rank-{rank:04d}.jsonl"
            if path.exists() and torn_tail(path):
                cut = set_aside_torn_tail(path, self.folder / "torn" / path.name)
                self._event(
                    "line_torn", task, rank=rank, text=f"{cut} bytes of a half line set aside in torn/"
                )

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


class _Workers:
    """The processes of one task."""

    def __init__(self, spec: Path, agent: Agent, task: Task) -> None:
        self._task = task
        self._agent = agent
        self._logs = [
            agent.folder / "logs" / f"{task.benchmark.name}-{task.replicate}-rank-{rank:04d}.log"
            for rank in range(agent.machine.ranks)
        ]
        self._stopped: set[int] = set()
        self._processes: list[subprocess.Popen[bytes]] = []
        for rank, log in enumerate(self._logs):
            with log.open("wb") as out:
                self._processes.append(
                    subprocess.Popen(
                        [*agent.worker, str(spec), str(rank)],
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        env=_environment(agent.machine),
                        start_new_session=True,
                    )
                )

    def watch(self, began: float) -> Outcome:
        """Wait until all have ended, one has died and the grace is over, or the deadline has passed."""
        clock, deadline = self._agent.clock, began + self._task.deadline_s
        died_at: float | None = None
        lost: tuple[int, ...] = ()
        while any(p.poll() is None for p in self._processes):
            if died_at is None and (lost := self._killed()):
                died_at = clock()
            if clock() > deadline or (died_at is not None and clock() > died_at + GRACE_S):
                break
            time.sleep(_POLL_S)
        lost = lost or self._killed()
        codes = [p.poll() for p in self._processes]
        running = tuple(r for r, code in enumerate(codes) if code is None)
        return Outcome(
            task=self._task,
            seconds=clock() - began,
            lost=lost,
            late=() if lost else self._stopped_by_signal(running) or running,
            failed=tuple(r for r, code in enumerate(codes) if code not in (0, None) and r not in lost),
        )

    def _killed(self) -> tuple[int, ...]:
        """Ranks that a signal ended. Gloo aborts innocent ranks, so an abort counts only when it is alone."""
        signals = {r: -p.returncode for r, p in enumerate(self._processes) if (p.poll() or 0) < 0}
        others = tuple(r for r, number in signals.items() if number != signal.SIGABRT)
        return others or tuple(signals)

    def _stopped_by_signal(self, ranks: Iterable[int]) -> tuple[int, ...]:
        """Ranks that the kernel shows as stopped: where there is one, the others only wait for it."""
        stopped = []
        for rank in ranks:
            stat = Path(f"/proc/{self._processes[rank].pid}/stat")
            # The name in parentheses may hold spaces; the state follows it.
            if stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T":
                stopped.append(rank)
        return tuple(stopped)

    def stop(self) -> None:
        """Kill what still runs, and its children, by the process group that each worker leads."""
        for rank, process in enumerate(self._processes):
            if process.poll() is None:
                self._stopped.add(rank)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for log in self._logs:
            if log.exists() and log.stat().st_size == 0:
                log.unlink()

    def epitaph(self, rank: int) -> str:
        """How a worker ended, in words."""
        if rank in self._stopped:
            return f"did not end within {self._task.deadline_s:g} s and was stopped"
        code = self._processes[rank].returncode
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _environment(machine: Machine) -> dict[str, str]:
    """The worker's environment: threads per rank, and loopback for Gloo on a single machine."""
    env = dict(os.environ)
    env["OMP_NUM_THREADS"] = str(machine.threads)
    env["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2]), *filter(None, [env.get("PYTHONPATH")])]
    )
    env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    env.setdefault("NCCL_DEBUG", "WARN")
    return env


def programs_missing(benchmark: Benchmark) -> tuple[str, ...]:
    """Programs that the benchmark needs and the PATH lacks."""
    return tuple(program for program in benchmark.needs if shutil.which(program) is None)
