"""Runs one benchmark for real, on two ranks over Gloo, with settings that keep it short."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assay.measure import crew
from assay.measure.agent import Agent, Outcome, Task
from assay.measure.crew import WORKER, LocalCrew, Machine, world_of
from assay.measure.nursery import Nursery
from assay.measure.registry import find
from assay.measure.suites import suite

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Measured:
    """What one task left in its run folder."""

    folder: Path
    outcome: Outcome
    lines: list[dict[str, Any]]

    def readings(self, quantity: str, **recipe: Any) -> list[dict[str, Any]]:
        """Readings of a quantity whose recipe has these parameters."""
        return [
            line
            for line in self.lines
            if line["type"] == "reading"
            and line["quantity"] == quantity
            and all(line["recipe"].get(k) == v for k, v in recipe.items())
        ]

    def valued(self) -> list[dict[str, Any]]:
        """Readings that have a value."""
        return [line for line in self.lines if line["type"] == "reading" and line["value"] is not None]

    def reasons(self) -> set[str]:
        """Why quantities were not measured."""
        return {line["reason"] for line in self.lines if line["type"] == "reading" and line["value"] is None}

    def facts(self, key: str) -> list[dict[str, Any]]:
        """Facts with this key."""
        return [line for line in self.lines if line["type"] == "fact" and line["key"] == key]


Run = Callable[..., Measured]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One process that has loaded torch, for the workers of all tests."""
    shared = Nursery((sys.executable, str(HERE / "spoiling_nursery.py")))
    yield shared
    shared.close()


@pytest.fixture
def run_benchmark(tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(crew, "Nursery", lambda: nursery)

    def run(
        name: str,
        *,
        ranks: int = 2,
        cores: float = 2.0,
        corrupt: bool | str = False,
        from_nothing: bool = False,
        deadline_s: float = 60.0,
        worker: tuple[str, ...] | None = None,
        **settings: Any,
    ) -> Measured:
        folder = tmp_path / f"{name}-run"
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("SPOIL", name if corrupt is True else corrupt or "")
        machine = Machine(host="h0", ranks=ranks, cores=cores, devices=("cpu",) * ranks, backend="gloo")
        agent = Agent(
            run="test",
            folder=folder,
            crew=LocalCrew(folder, world_of([(range(ranks), machine)]), worker=worker or WORKER),
            seed=7,
            command_time_s=time.time(),
        )
        chosen = suite("soak" if name == "soak" else "quick", on_gpu=False)
        quick = chosen.settings[name]
        benchmark = dataclasses.replace(find(name), from_nothing=from_nothing)
        task = Task(benchmark=benchmark, replicate=0, deadline_s=deadline_s, settings=quick | settings)
        outcome = agent.run_task(task)
        lines = [
            json.loads(line)
            for path in sorted(folder.glob("*.jsonl"))
            for line in path.read_text().splitlines()
        ]
        return Measured(folder, outcome, lines)

    return run
