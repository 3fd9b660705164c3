"""Inside torchrun: on one machine, where a killed process makes it stop the others, and over the hosts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_job import SOURCE, clocks, findings, wait_for

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
QUICK = ("-m", "assay", "qualify", "--suite", "quick", "--restarts", "2", "--only", "clock", "--json")


def free_port() -> int:
    with socket.create_server(("", 0)) as listener:
        return listener.getsockname()[1]


def start(folder: Path, *words: object) -> subprocess.Popen[str]:
    place = ["--nproc-per-node", "3", "--master-port", str(free_port())]
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        return subprocess.Popen(
            [*TORCHRUN, *place, *map(str, words)],
            stdout=out,
            stderr=err,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )


def process_of(parent: int, rank: int) -> int:
    """The process that torchrun started as a rank."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"torchrun has no rank {rank}")


@pytest.mark.cluster
def test_torchrun_ends_with_0_and_one_answer(tmp_path):
    assert start(tmp_path, *QUICK, "--out", tmp_path / "run").wait(timeout=240) == 0
    answer = json.loads((tmp_path / "out").read_text())
    assert answer["missing_ranks"] == []
    assert clocks(answer) == {"rank:1": "sound", "rank:2": "sound"}


@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.cluster)])
def test_a_killed_process_is_named_though_torchrun_stops_all_others(tmp_path, victim):
    run = tmp_path / "run"
    torchrun = start(tmp_path, *QUICK, "--out", run)
    wait_for(run / "rank-0001.jsonl", '"clock.offset"')
    os.kill(process_of(torchrun.pid, victim), signal.SIGKILL)
    torchrun.wait(timeout=120)
    answer = json.loads((run / "verdict.json").read_text())
    assert answer["missing_ranks"] == [victim]
    assert findings(answer, "RANK_LOST", "RANK_STOPPED") == [("RANK_LOST", f"rank:{victim}")]
    assert clocks(answer)["rank:1"] == "sound"
    if victim == 0:
        goes_on(tmp_path, run)


def goes_on(folder: Path, run: Path) -> None:
    """Another torchrun takes the run up: what was measured stays, and all restarts come to a good end."""
    before = (run / "rank-0001.jsonl").read_bytes()
    again = start(folder, "-m", "assay", "qualify", "--resume", run, "--json")
    assert again.wait(timeout=240) == 0, (folder / "err").read_text()
    assert (run / "rank-0001.jsonl").read_bytes().startswith(before)
    events = [json.loads(line) for line in (run / "agent.jsonl").read_text().splitlines()]
    assert sum(event.get("kind") == "task_done" for event in events) == 2
    answer = json.loads((folder / "out").read_text())
    assert answer["run"] == json.loads((run / "run.json").read_text())["run"]
    assert clocks(answer) == {"rank:1": "sound", "rank:2": "sound"}


def test_torchrun_on_every_host_of_a_cluster(namespace_cluster, tmp_path):
    env = {"PYTHONPATH": str(SOURCE)}
    started = []
    for number, host in enumerate(namespace_cluster.names):
        place = ["--nnodes", 4, "--node-rank", number, "--nproc-per-node", 1]
        master = ["--master-addr", namespace_cluster.address("h0"), "--master-port", 29500]
        with (tmp_path / f"out{number}").open("w") as out, (tmp_path / f"err{number}").open("w") as err:
            words = [*TORCHRUN, *place, *master, *QUICK, "--out", tmp_path / f"run{number}"]
            started.append(namespace_cluster.start(host, words, env=env, stdout=out, stderr=err))
    try:
        assert [process.wait(timeout=240) for process in started] == [0, 0, 0, 0]
    finally:
        for process in started:
            process.kill()
    answer = json.loads((tmp_path / "out0").read_text())
    assert answer["missing_ranks"] == []
    assert clocks(answer) == {"rank:1": "sound", "rank:2": "sound", "rank:3": "sound"}
