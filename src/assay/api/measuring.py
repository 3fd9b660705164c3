"""`assay measure`: plan, run the benchmarks into a run folder, survive what happens, seal."""

from __future__ import annotations

import dataclasses
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from assay import __version__
from assay.api.gathering import Gathering
from assay.api.leaves import find_leaves
from assay.api.machine import this_machine
from assay.catalog.quantities import quantity
from assay.domain.event import Event
from assay.domain.recipe import Recipe
from assay.errors import RunError, unknown_name
from assay.measure.agent import Agent, Outcome, Progress, Task, plan, programs_missing, task_of
from assay.measure.crew import WORKER, Crew, LocalCrew, Machine, World, world_of
from assay.measure.launchers.job import Job
from assay.measure.registry import Benchmark, benchmarks, find
from assay.measure.schedule import Budget, Extent, Schedule, schedule, with_patience, with_room
from assay.measure.suites import Suite, suite
from assay.store.append import set_aside_torn_tail, torn_tail
from assay.store.run import Manifest, Run, create_run, open_run, read_manifest, seal
from assay.units import show

#: The benchmark that measures suspects again.
RETEST = "pairs_alone"
#: The benchmark that is told which nodes are below one leaf.
GROUPS = "groups"
#: What ranks in quarantine are tried with again.
TRIAL = "bitwise"
#: What must be installed for a program that a benchmark needs.
_PACKAGES = {"fio": "fio"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """What to measure: `ranks` None is one per GPU (two without), `only` None is every benchmark, `restarts`
    None is as many as the suite has.

    `worker` replaces the command that starts a worker, for tests and containers. `command_time_s` is when
    the user's command began. `job` is the place in a launcher's job, of which this is rank 0; `hosts` is a
    file of hosts to measure over `ssh`, a command with `{host}` in it. `wait_s` is how long to wait for them.
    `topology` is a topology.conf of Slurm, which says what nodes are below one leaf. `cores` takes the place
    of the cores found: where it says as many as ranks, ranks that share cores are measured all the same.
    """

    out: Path
    ranks: int | None = None
    suite: str = "standard"
    budget_s: float | None = None
    soak_s: float | None = None
    annex: str | None = None
    restarts: int | None = None
    only: tuple[str, ...] | None = None
    seed: int = 1
    resume: bool = False
    command: tuple[str, ...] = ("assay", "measure")
    command_time_s: float | None = None
    worker: tuple[str, ...] | None = None
    job: Job | None = None
    hosts: Path | None = None
    topology: Path | None = None
    ssh: str | None = None
    wait_s: float = 60.0
    cores: float | None = None


class Watcher(Protocol):
    """Told what happens while a run goes on; the progress bar is one."""

    def scheduled(self, schedule: Schedule) -> None:
        """What the run will do, before it does; told where there is a budget to fit it into."""

    def planned(self, tasks: Sequence[Task]) -> None:
        """The tasks that are about to run; called again when more are added."""

    def started(self, task: Task) -> None:
        """A task begins."""

    def ended(self, outcome: Outcome) -> None:
        """A task has ended, well or not."""

    def skipped(self, benchmark: Benchmark, reason: str) -> None:
        """A benchmark cannot run here."""


class Session:
    """A run that is being measured: created or resumed, then fed with tasks."""

    def __init__(self, options: MeasureOptions, watcher: Watcher | None = None) -> None:
        self._watcher = watcher
        limit_s = math.inf if options.budget_s is None else options.budget_s
        self._budget = Budget(limit_s=limit_s, clock=time.monotonic)
        self._began_s = options.command_time_s or time.time()
        self._hosts, self._topology = options.hosts, options.topology
        self.folder = Path(options.out)
        self._gathering = _gathering(options)
        if self._gathering:
            with self._gathering.refusing():
                self.world = self._gathering.crew.world
                missing = len(self._gathering.crew.absences())
                self.manifest, self._progress = _begun(options, self.world, missing)
            crew: Crew = self._gathering.welcomed(self.folder, self.manifest)
            self._close: Callable[[], None] = self._gathering.close
        else:
            self.world = world_of([_alone(options)])
            self.manifest, self._progress = _begun(options, self.world)
            crew = local = LocalCrew(self.folder, self.world, worker=options.worker or WORKER)
            self._close = local.close
        named = _suite_of(self.manifest, on_gpu=self.world.backend != "gloo")
        self.suite: Suite = dataclasses.replace(named, restarts=self.manifest.restarts)
        self.benchmarks = _chosen(self.manifest.only or self.suite.chosen)
        self._agent = Agent(
            run=self.manifest.run,
            folder=self.folder,
            crew=crew,
            seed=self.manifest.seed,
            command_time_s=self._began_s,
        )

    def judging(self) -> None:
        """Let the other processes of the run know that what follows is no measuring, until the next task."""
        if self._gathering:
            self._gathering.crew.judging()

    def close(self) -> None:
        """Let the other processes of the run go."""
        self._close()

    def run(self) -> None:
        """Every task of the suite that has not been done; Ctrl-C is recorded and passed on."""
        runnable = []
        for benchmark in self.benchmarks:
            if benchmark.needs_nodes and len(self.world.hosts) == 1:
                continue
            reason = _obstacle(benchmark, self.world)
            if reason is None:
                runnable.append(benchmark)
                continue
            self._skip(benchmark, reason)
        extent = Extent.of(self.world)
        planned = plan(self.suite, runnable, self._progress)
        tasks = [with_room(self._with_leaves(task), extent) for task in planned]
        if math.isfinite(self._budget.limit_s) and self._watcher:
            self._watcher.scheduled(schedule(tasks, self.world, budget_s=self._budget.left_s))
        self._run_tasks(tasks)
        settings = suite("quick", on_gpu=self.world.backend != "gloo").settings[TRIAL]
        trial = Task(benchmark=find(TRIAL), replicate=0, deadline_s=60.0, settings=settings)
        if self._budget.allows(trial, Extent.of(self.world)):
            self._agent.retest(trial)

    def add_restart(self, names: Iterable[str]) -> bool:
        """One more restart of the named benchmarks; whether the budget allowed any."""
        progress = _progress_of(open_run(self.folder, partial=True).events)
        chosen = [b for b in self.benchmarks if b.name in set(names) and not b.once]
        return self._run_tasks(
            [
                with_room(
                    self._with_leaves(
                        task_of(self.suite, b, progress.get(b.name, Progress()).next_replicate)
                    ),
                    Extent.of(self.world),
                )
                for b in chosen
            ]
        )

    @property
    def can_retest(self) -> bool:
        """Whether pairs of nodes were measured in crowded rounds, so that suspects may be among them."""
        return len(self.world.hosts) > 2 and any(b.name == "pairs" for b in self.benchmarks)

    def retest(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Measure these pairs of nodes again, each alone, as far as the budget allows."""
        if pairs:
            settings = self.suite.settings["pairs"] | {"pairs": pairs}
            self._run_tasks([dataclasses.replace(task_of(self.suite, find(RETEST), 0), settings=settings)])

    def _run_tasks(self, tasks: Sequence[Task]) -> bool:
        if self._watcher:
            self._watcher.planned(tasks)
        done = {name for name, had in self._progress.items() if had.whole}
        passed: dict[str, Benchmark] = {}
        try:
            for task in tasks:
                if self._budget.allows(task, Extent.of(self.world)):
                    self._run_task(task)
                    done.add(task.benchmark.name)
                else:
                    passed.setdefault(task.benchmark.name, task.benchmark)
        except KeyboardInterrupt:
            self._agent.interrupted()
            raise
        for name, benchmark in passed.items():
            if name not in done:
                self._skip(benchmark, f"it did not fit into the budget of {show(self._budget.limit_s, 's')}")
        return len(passed) < len({task.benchmark.name for task in tasks})

    def _run_task(self, task: Task) -> None:
        if self._watcher:
            self._watcher.started(task)
        load, cores = os.getloadavg()[0], float(len(os.sched_getaffinity(0)))
        task = with_patience(self._with_leaves(task), load=load, cores=cores)
        if self._budget.left_s < task.deadline_s:
            task = dataclasses.replace(task, deadline_s=max(1.0, self._budget.left_s))
        outcome = self._agent.run_task(task)
        self._budget.note(task, outcome.seconds)
        if self._watcher:
            self._watcher.ended(outcome)

    def _with_leaves(self, task: Task) -> Task:
        """The task, told what nodes are below one leaf where it asks; what the inventory found counts."""
        if task.benchmark.name != GROUPS:
            return task
        facts = open_run(self.folder, partial=True).facts
        leaves = find_leaves(self.world.seats, hosts=self._hosts, topology=self._topology, facts=facts)
        return dataclasses.replace(task, settings=task.settings | leaves.settings)

    def _skip(self, benchmark: Benchmark, reason: str) -> None:
        self._agent.skip(benchmark, reason)
        if self._watcher:
            self._watcher.skipped(benchmark, reason)


def _obstacle(benchmark: Benchmark, world: World) -> str | None:
    """Why a benchmark cannot run on this machine, or None."""
    if benchmark.needs_gpu and world.backend == "gloo":
        return "this machine has no GPU"
    lacking = programs_missing(benchmark)
    if not lacking:
        return None
    packages = " ".join(_PACKAGES.get(program, program) for program in lacking)
    return f"{', '.join(lacking)} is not installed (package {packages})"


def measure(options: MeasureOptions, watcher: Watcher | None = None) -> Path:
    """Measure this machine into `options.out` and return that folder, sealed.

    Raises `RunError` when the folder holds something else; nothing there is overwritten.
    """
    session = Session(options, watcher)
    try:
        session.run()
    finally:
        seal(session.folder)
        session.close()
    return session.folder


def _gathering(options: MeasureOptions) -> Gathering | None:
    """The other processes or hosts that take part; None on a machine of its own."""
    if options.job:
        return Gathering.of_job(options.job, out=options.out, wait_s=options.wait_s, worker=options.worker)
    if options.hosts:
        return Gathering.of_hosts(options.hosts, ssh=options.ssh, ranks=options.ranks, wait_s=options.wait_s)
    return None


def _alone(options: MeasureOptions) -> tuple[Sequence[int], Machine]:
    """This machine and its ranks; a run that goes on keeps their number."""
    asked = read_manifest(options.out).ranks if options.resume else options.ranks
    machine = this_machine(asked)
    if options.cores:
        machine = dataclasses.replace(machine, cores=options.cores)
    return range(machine.ranks), machine


def _begun(options: MeasureOptions, world: World, missing: int = 0) -> tuple[Manifest, dict[str, Progress]]:
    """The run and what it has done so far: made anew, or taken up."""
    return _resume(options, world) if options.resume else (_create(options, world, missing), {})


def _create(options: MeasureOptions, world: World, missing: int) -> Manifest:
    chosen = suite(options.suite, on_gpu=False, soak_s=options.soak_s)
    _chosen(options.only)
    created_s = time.time()
    manifest = Manifest(
        run=f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(created_s))}-{secrets.token_hex(3)}",
        created_s=round(created_s, 3),
        assay_version=__version__,
        command=options.command,
        suite=options.suite,
        only=options.only,
        ranks=len(world.seats) + missing,
        hosts=world.hosts,
        restarts=options.restarts or chosen.restarts,
        seed=options.seed,
        backend=world.backend,
        soak_s=options.soak_s,
        annex=options.annex,
    )
    create_run(options.out, manifest)
    return manifest


def _suite_of(manifest: Manifest, *, on_gpu: bool) -> Suite:
    return suite(manifest.suite, on_gpu=on_gpu, soak_s=manifest.soak_s)


def _resume(options: MeasureOptions, world: World) -> tuple[Manifest, dict[str, Progress]]:
    """Take up a run where it stopped: cut-off lines are set aside, whole restarts are not repeated."""
    manifest = read_manifest(options.out)
    if not set(world.hosts) <= set(manifest.hosts):
        raise RunError(
            f"run {manifest.run} was begun on {', '.join(manifest.hosts)}, "
            f"but this is {', '.join(world.hosts)}",
            where=str(options.out),
            fix="resume it where it was begun",
        )
    if world.backend != manifest.backend:
        raise RunError(
            f"run {manifest.run} was begun over {manifest.backend}, but now it would use {world.backend}",
            fix="resume it with the same GPUs visible",
        )
    for file in sorted(Path(options.out).glob("*.jsonl")):
        if torn_tail(file):
            set_aside_torn_tail(file, Path(options.out) / "torn" / file.name)
    events = open_run(options.out).events
    _require_same_places(events, world, manifest)
    return manifest, _progress_of(events)


def _require_same_places(events: Iterable[Event], world: World, manifest: Manifest) -> None:
    """Refuse a rank on another host than before: its file would tell of two machines under one name."""
    was = {e.subject.name: e.details.get("host") for e in events if e.kind == "worker_started"}
    for seat in world.seats:
        if (before := was.get(str(seat.rank), seat.host)) != seat.host:
            raise RunError(
                f"rank {seat.rank} of run {manifest.run} was on {before}, but now it is on {seat.host}",
                fix="give the same hosts in the same order, or begin a run of its own",
            )


def _progress_of(events: Iterable[Event]) -> dict[str, Progress]:
    """Restarts that ended well, and the next free number, per benchmark."""
    whole: dict[str, int] = {}
    following: dict[str, int] = {}
    for event in events:
        name, replicate = event.details.get("benchmark"), event.details.get("replicate")
        if isinstance(name, str) and isinstance(replicate, int):
            following[name] = max(following.get(name, 0), replicate + 1)
            whole[name] = whole.get(name, 0) + (event.kind == "task_done")
    return {name: Progress(whole=whole.get(name, 0), next_replicate=n) for name, n in following.items()}


def _chosen(only: tuple[str, ...] | None) -> tuple[Benchmark, ...]:
    known = benchmarks()
    for name in only or ():
        if name not in known:
            raise unknown_name("benchmark", name, known)
    return tuple(b for name, b in known.items() if (not b.apart if only is None else name in only))


def benchmark_of(quantity_id: str, recipe: Recipe) -> str | None:
    """The benchmark that yields a quantity; of links inside nodes and between them, the one of that span."""
    yielding = [
        benchmark
        for benchmark in benchmarks().values()
        if not benchmark.apart and any(quantity(name).describes(quantity_id) for name in benchmark.yields)
    ]
    across = recipe.get("span") == "nodes"
    fitting = [benchmark for benchmark in yielding if benchmark.needs_nodes == across]
    return next((benchmark.name for benchmark in fitting or yielding), None)


def missing_ranks(run: Run) -> tuple[int, ...]:
    """Ranks that were lost or late, or never started; empty for a run that nobody watched."""
    lost = {e.subject.name for e in run.events if e.kind in ("rank_lost", "rank_late")}
    started = {e.subject.name for e in run.events if e.kind == "worker_started"}
    never = {str(rank) for rank in range(run.manifest.ranks)} - started if started else set()
    return tuple(sorted(int(name) for name in lost | never if name.isdigit()))
