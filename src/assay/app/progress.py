"""A progress bar on stderr for a run; plain lines where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from assay.measure.agent import Outcome, Task
from assay.measure.registry import Benchmark
from assay.measure.schedule import Schedule


class RunProgress:
    """Shows which restart of which benchmark runs; use it as a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._id = self._bar.add_task("measuring", total=None)
        self._total = 0

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def scheduled(self, schedule: Schedule) -> None:
        """What the run will do."""
        for line in schedule.lines():
            self._console.print(line, highlight=False, soft_wrap=True)

    def planned(self, tasks: Sequence[Task]) -> None:
        """More tasks are to come."""
        self._total += len(tasks)
        self._bar.update(self._id, total=self._total)

    def started(self, task: Task) -> None:
        """A task begins."""
        self._bar.update(self._id, description=f"{task.benchmark.name}, restart {task.replicate + 1}")

    def ended(self, outcome: Outcome) -> None:
        """A task has ended; what went wrong stays on the screen."""
        self._bar.advance(self._id)
        name = f"{outcome.task.benchmark.name}, restart {outcome.task.replicate + 1}"
        if outcome.whole:
            if not self._console.is_terminal:
                self._console.print(f"{name}: {outcome.seconds:.1f} s")
            return
        if outcome.cut:
            self._console.print(f"{name}: cut off, {outcome.task.cut_by}", style="yellow")
        for ranks, what in (
            (outcome.lost, "was lost"),
            (outcome.late, "did not end in time and was stopped"),
            (outcome.failed, "failed"),
        ):
            if ranks:
                self._console.print(f"{name}: rank {', '.join(map(str, ranks))} {what}", style="red")

    def skipped(self, benchmark: Benchmark, reason: str) -> None:
        """A benchmark cannot run here."""
        self._console.print(f"{benchmark.name}: not measured, {reason}", style="yellow")
