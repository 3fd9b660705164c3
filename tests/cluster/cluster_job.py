"""`assay qualify` as a job over the namespace cluster, one rank a host, and what its answer says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster import Cluster

SOURCE = Path(__file__).resolve().parents[2] / "src"


def wait_for(file: Path, text: str, why: Callable[[], str] = str, *, within_s: float = 120.0) -> None:
    """Until `file` holds `text`; `why` tells what was printed where it never does."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if file.exists() and text in file.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} did not come into {file}; {why()}")


@dataclass
class HostsJob:
    """One command that measures the hosts of a file, as over ssh; `ssh` replaces what enters a host."""

    cluster: Cluster
    folder: Path
    process: subprocess.Popen[str] | None = None

    @property
    def run(self) -> Path:
        """The run folder, which all hosts see."""
        return self.folder / "run"

    def start(
        self,
        *words: object,
        hosts: Sequence[str] | None = None,
        leaves: Mapping[str, str] | None = None,
        ssh: str | None = None,
        resume: bool = False,
    ) -> None:
        """Begin a run, or resume it, on these hosts (None: all), each with its leaf where that is told."""
        file = self.folder / "hosts"
        listed = self.cluster.names if hosts is None else hosts
        lines = [f"{host} {self.cluster.address(host)} {(leaves or {}).get(host, '')}\n" for host in listed]
        file.write_text("".join(lines))
        how = ["--resume", self.run] if resume else ["--out", self.run, "--suite", "quick"]
        command = [sys.executable, "-m", "assay", "qualify", "--json", "--hosts", file, *how, *words]
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                list(map(str, [*command, "--ranks", 1, "--ssh", ssh or self.cluster.ssh])),
                text=True,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=out,
                stderr=err,
            )

    def measure(self, *words: object, **how: Any) -> dict[str, Any]:
        """Start it, wait for its end, and give what it printed."""
        self.start(*words, **how)
        self.wait()
        text = (self.folder / "out").read_text()
        assert text, self.errors()
        return json.loads(text)

    def wait(self, *, within_s: float = 240.0) -> int:
        """The exit code."""
        assert self.process is not None
        return self.process.wait(timeout=within_s)

    def wait_for(self, text: str, rank: int) -> None:
        """Until what a rank has written holds `text`."""
        wait_for(self.run / f"rank-{rank:04d}.jsonl", text, self.errors)

    def kill(self) -> None:
        """As if the machine that gave the command were gone; the hosts' agents notice and end."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def errors(self) -> str:
        """What it printed on stderr, its lines joined."""
        return " ".join((self.folder / "err").read_text().split())


@dataclass
class Job:
    """One process per host, started as srun would, but by hand."""

    cluster: Cluster
    folder: Path
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)

    def run_of(self, rank: int) -> Path:
        """The run folder on that rank's own disk."""
        return self.folder / f"disk{rank}" / "run"

    def start(
        self,
        *words: object,
        ranks: list[int] | None = None,
        before: Mapping[int, list[str]] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start `assay qualify` with these words on every host, or only as the given ranks."""
        world = self.cluster.hosts
        for rank in range(world) if ranks is None else ranks:
            self.run_of(rank).parent.mkdir(parents=True, exist_ok=True)
            place = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": 0}
            master = {"MASTER_ADDR": self.cluster.address("h0"), "MASTER_PORT": 29500}
            source = {"PYTHONPATH": SOURCE, "COLUMNS": 80}
            command = [sys.executable, "-m", "assay", "qualify", *words, "--out", self.run_of(rank)]
            out, err = self.folder / f"out{rank}", self.folder / f"err{rank}"
            with out.open("w") as stdout, err.open("w") as stderr:
                self.processes[rank] = self.cluster.start(
                    f"h{rank}",
                    [*(before or {}).get(rank, []), *command],
                    env={k: str(v) for k, v in {**place, **master, **source, **(env or {})}.items()},
                    stdout=stdout,
                    stderr=stderr,
                )

    def wait(self, *, within_s: float = 240.0, but: tuple[int, ...] = ()) -> dict[int, int]:
        """The exit codes of all processes."""
        end = time.monotonic() + within_s
        return {
            rank: process.wait(timeout=max(0.1, end - time.monotonic()))
            for rank, process in self.processes.items()
            if rank not in but
        }

    def wait_for(self, text: str, rank: int, *, within_s: float = 120.0) -> None:
        """Until what that rank itself has written holds `text`."""
        wait_for(self.run_of(rank) / f"rank-{rank:04d}.jsonl", text, self.errors, within_s=within_s)

    @property
    def answer(self) -> dict[str, Any]:
        """What rank 0 printed."""
        text = (self.folder / "out0").read_text()
        assert text, self.errors()
        return json.loads(text)

    def errors(self) -> str:
        """What all printed on stderr."""
        return "".join(f"[{file.name}] {file.read_text()}" for file in sorted(self.folder.glob("err*")))

    def stop(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def findings(answer: dict[str, Any], *codes: str) -> list[tuple[str, str]]:
    """(code, subject) of the findings with these codes."""
    return [(f["code"], f["subject"]) for f in answer["findings"] if f["code"] in codes]


def clocks(answer: dict[str, Any]) -> dict[str, str]:
    """The verdict on each rank's clock; a sound one may be undecided on a busy machine."""
    judged = {c["subject"]: c["verdict"] for c in answer["criteria"] if c["id"] == "clocks-agree"}
    return {subject: "sound" if v in ("pass", "undecided") else v for subject, v in judged.items()}
