"""What a run will do, wave by wave, how long that takes, and which part of it fits into a budget.

The first times are worked out from the settings; once a benchmark has run, what it took counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.measure.agent import Task
from assay.measure.crew import World

#: From one card outwards: what each wave is about.
WAVES = ("inventory", "card", "node", "pair", "group", "whole")
#: Fresh processes, a rendezvous, buffers, proofs; more where many share few cores.
_START_S = 4.0
_MARGIN_FRAC = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many take part: all ranks, nodes, and the ranks of the fullest node."""

    ranks: int
    nodes: int
    per_node: int

    @classmethod
    def of(cls, world: World) -> Extent:
        """The extent of a world."""
        hosts = [seat.host for seat in world.seats]
        return cls(ranks=len(hosts), nodes=len(set(hosts)), per_node=max(map(hosts.count, set(hosts))))


def _windows(s: Mapping[str, Any]) -> float:
    return float(s["warmup_s"] + s["windows"] * s["window_s"])


def _alone_and_together(s: Mapping[str, Any], extent: Extent) -> float:
    """Each rank of a node in its turn at half the length, then all at once."""
    return _windows(s) * (1 + extent.per_node / 2)


def _rounds(among: int) -> int:
    """Rounds of disjoint pairs."""
    return among - 1 + among % 2 if among > 1 else 0


def _groups(s: Mapping[str, Any]) -> int:
    return len(set(s.get("leaves", {}).values()))


#: Benchmark -> seconds of measuring by its settings. A plug-in that is not here is taken for a minute.
_SECONDS: dict[str, Callable[[Mapping[str, Any], Extent], float]] = {
    "environment": lambda s, e: 2.0,
    "gemm": lambda s, e: len(s["dtypes"]) * (_alone_and_together(s, e) + len(s["search"]) * _windows(s) / 4),
    "bitwise": lambda s, e: len(s["dtypes"]) * (0.5 + s["repeats"] * 0.05),
    "memory": lambda s, e: 2 * _alone_and_together(s, e),
    "kernels": lambda s, e: 3 * _windows(s),
    "parts": lambda s, e: 6 * _windows(s),
    "host_device": lambda s, e: 2 * _alone_and_together(s, e) if s else 0.0,
    "peer": lambda s, e: _rounds(e.per_node) * 4 * s["budget_s"],
    "pairs": lambda s, e: _rounds(e.nodes) * 4 * s["budget_s"],
    "pairs_alone": lambda s, e: len(s["pairs"]) * 4 * s["budget_s"],
    "groups": lambda s, e: (1 + _groups(s)) * len(s["sizes"]) * 2 * s["budget_s"],
    "choices": lambda s, e: len(s["ops"]) * len(s["sizes"]) * 0.2,
    "collectives": lambda s, e: len(s["ops"]) * len(s["sizes"]) * 3 * s["budget_s"],
    "clock": lambda s, e: s["drift_s"] + e.ranks * s["exchanges"] * 2e-4,
    "storage": lambda s, e: 8 * s["runtime_s"],
    "checkpoint": lambda s, e: 4 * s["bytes_per_rank"] / 2e8,
    "training": lambda s, e: 3 * (s["steps"] + s["warmup_steps"]) * 0.1,
    "soak": lambda s, e: s["slice_s"],
}


def expected_s(task: Task, extent: Extent) -> float:
    """Seconds that one restart is expected to take."""
    work = _SECONDS.get(task.benchmark.name)
    measuring_s = work(task.settings, extent) if work else 60.0
    return _START_S + _MARGIN_FRAC * measuring_s


def with_room(task: Task, extent: Extent) -> Task:
    """The task with a deadline of at least twice what it is expected to take: all pairs of many nodes do."""
    return replace(task, deadline_s=max(task.deadline_s, 2 * expected_s(task, extent)))


def with_patience(task: Task, *, load: float, cores: float) -> Task:
    """The task with a longer deadline where `load` processes want to run on `cores`: up to four times.

    Without it a busy machine would be told as one whose ranks hang.
    """
    return replace(task, deadline_s=task.deadline_s * min(4.0, max(1.0, load / cores)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A benchmark in a schedule: what about, rounds in each restart, restarts, and how many of them fit."""

    wave: str
    benchmark: str
    subjects: str
    rounds: int
    restarts: int
    each_s: float
    fitting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The rows in the order of the waves, and the budget in seconds that they were fitted into, if any."""

    rows: tuple[Row, ...]
    budget_s: float | None = None

    @property
    def expected_s(self) -> float:
        """Everything together."""
        return sum(row.restarts * row.each_s for row in self.rows)

    @property
    def fitting_s(self) -> float:
        """What fits into the budget."""
        return sum(row.fitting * row.each_s for row in self.rows)

    def lines(self) -> list[str]:
        """The schedule as a table of text, with what does not fit below it."""
        from assay.units import show

        limit = f"; budget {show(self.budget_s, 's')}" if self.budget_s is not None else ""
        told = [f"schedule: {show(self.expected_s, 's')} expected{limit}"]
        head = ("wave", "benchmark", "subjects", "rounds", "restarts", "each", "all")
        cells = [head] + [
            (
                row.wave,
                row.benchmark,
                row.subjects,
                str(row.rounds),
                str(row.restarts),
                show(row.each_s, "s", digits=2),
                show(row.restarts * row.each_s, "s", digits=2),
            )
            for row in self.rows
        ]
        widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
        told += [
            "  " + "  ".join(w.ljust(n) for w, n in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
        for row in self.rows:
            if left := row.restarts - row.fitting:
                what = "restart" if left == 1 else "restarts"
                takes = show(left * row.each_s, "s", digits=2)
                told.append(f"  does not fit: {left} {what} of {row.benchmark} ({takes})")
        return told


def schedule(
    tasks: Iterable[Task], world: World, *, budget_s: float | None = None, took_s: Mapping[str, float] = {}
) -> Schedule:
    """Fit tasks, in their order, into a budget; one that does not fit is passed over for what follows."""
    extent, left_s = Extent.of(world), math.inf if budget_s is None else budget_s
    asked: dict[str, list[Task]] = {}
    fitting: dict[str, int] = {}
    each: dict[str, float] = {}
    for task in tasks:
        name = task.benchmark.name
        each[name] = took_s.get(name, expected_s(task, extent))
        asked.setdefault(name, []).append(task)
        if each[name] <= left_s:
            left_s -= each[name]
            fitting[name] = fitting.get(name, 0) + 1
    rows = [_row(of, extent, each[name], fitting.get(name, 0)) for name, of in asked.items()]
    return Schedule(rows=tuple(sorted(rows, key=lambda row: WAVES.index(row.wave))), budget_s=budget_s)


def _row(tasks: Sequence[Task], extent: Extent, each_s: float, fitting: int) -> Row:
    benchmark = tasks[0].benchmark
    among = {"card": extent.ranks, "pair": extent.nodes, "node": extent.nodes, "inventory": extent.nodes}
    count = among.get(benchmark.wave, extent.ranks)
    pairs = benchmark.wave == "pair" or benchmark.name == "peer"
    ends = extent.per_node if benchmark.name == "peer" else extent.nodes
    if benchmark.wave == "group":
        subjects = f"{_groups(tasks[0].settings)} leaves"
    elif pairs:
        subjects = f"{ends * (ends - 1) // 2 * (extent.nodes if benchmark.name == 'peer' else 1)} pairs"
    else:
        unit = {"card": "card", "node": "node", "inventory": "node"}.get(benchmark.wave, "rank")
        subjects = f"{count} {unit}{'' if count == 1 else 's'}"
    return Row(
        wave=benchmark.wave,
        benchmark=benchmark.name,
        subjects=subjects,
        rounds=_rounds(ends) if pairs else 1,
        restarts=len(tasks),
        each_s=each_s,
        fitting=fitting,
    )


@dataclass(slots=True)
class Budget:
    """The seconds that a run may take, counted from `began_s` by `clock`; what benchmarks took so far."""

    limit_s: float
    clock: Callable[[], float]
    took_s: dict[str, float] = field(default_factory=dict)
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = self.clock()

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self.limit_s - (self.clock() - self._began_s)

    def allows(self, task: Task, extent: Extent) -> bool:
        """Whether the task is expected to end in time."""
        return self.took_s.get(task.benchmark.name, expected_s(task, extent)) <= self.left_s

    def note(self, task: Task, seconds: float) -> None:
        """What a task took; the longest so far counts."""
        name = task.benchmark.name
        self.took_s[name] = max(self.took_s.get(name, 0.0), seconds)
