"""What is killed, stopped or never started, on four hosts with disks of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_job import clocks, findings

QUICK = ("--suite", "quick", "--only", "clock", "--json")
ONCE = (*QUICK, "--restarts", 1)


@pytest.mark.cluster
def test_four_hosts_are_measured_and_rank_0_has_everything(job):
    job.start(*QUICK)
    assert set(job.wait().values()) == {0}, job.errors()
    answer = job.answer
    assert answer["missing_ranks"] == []
    assert clocks(answer) == dict.fromkeys(("rank:1", "rank:2", "rank:3"), "sound")
    for rank in (1, 2, 3):
        name = f"rank-{rank:04d}.jsonl"
        assert (job.run_of(0) / name).read_bytes() == (job.run_of(rank) / name).read_bytes()


def test_a_killed_rank_is_named_and_the_others_get_verdicts(job, victim):
    killed = victim([1, 2, 3])
    job.start(*QUICK, "--restarts", 2)
    job.wait_for("worker_started", killed)
    job.processes[killed].kill()
    assert set(job.wait(but=(killed,)).values()) == {0}, job.errors()
    assert job.answer["missing_ranks"] == [killed]
    assert findings(job.answer, "RANK_LOST", "RANK_STOPPED") == [("RANK_LOST", f"rank:{killed}")]
    others = {f"rank:{rank}": "sound" for rank in (1, 2, 3) if rank != killed}
    assert clocks(job.answer).items() >= others.items()


def test_the_folders_of_all_hosts_are_judged_together_and_copies_are_refused(job, tmp_path):
    job.start(*QUICK, "--restarts", 2)
    for rank in (1, 2, 3):
        job.wait_for('"clock.offset"', rank)
    job.processes[0].kill()  # nobody is left to gather: each host has only what it measured itself
    assert set(job.wait(but=(0,)).values()) == {0}, job.errors()
    assert (job.run_of(1) / "verdict.json").exists()
    assert "rank 0 was lost" in job.errors()
    folders = [job.run_of(rank) for rank in range(4)]
    judged = judge(*folders, "--partial", "--json")
    answer = json.loads(judged.stdout)
    assert 0 in answer["missing_ranks"]
    assert ("RANK_LOST", "rank:0") in findings(answer, "RANK_LOST")
    assert clocks(answer) == dict.fromkeys(("rank:1", "rank:2", "rank:3"), "sound")
    copy = shutil.copytree(folders[2], tmp_path / "copy")
    twice = judge(folders[0], folders[2], copy, "--partial")
    assert twice.returncode == 2
    assert "both of the machine of rank 2" in twice.stderr
    (copy / "run.json").write_text((copy / "run.json").read_text().replace('"run": "', '"run": "x'))
    other = judge(folders[0], copy, "--partial")
    assert other.returncode == 2
    assert "holds run x" in other.stderr


def judge(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay", "judge", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_rank_that_never_starts_is_named_and_the_others_get_verdicts(job, victim):
    absent = victim([1, 2, 3])
    job.start(*ONCE, "--wait", 15, ranks=[rank for rank in range(4) if rank != absent])
    assert set(job.wait().values()) == {0}, job.errors()
    answer = job.answer
    assert answer["missing_ranks"] == [absent]
    assert findings(answer, "RANK_LOST", "RANK_STOPPED") == [("RANK_LOST", f"rank:{absent}")]
    others = {f"rank:{rank}": "sound" for rank in (1, 2, 3) if rank != absent}
    assert clocks(answer).items() >= others.items()


def test_a_stopped_process_is_named_and_the_others_get_verdicts(job, victim):
    stopped = victim([1, 2, 3])
    job.start(*QUICK, "--restarts", 2)
    job.wait_for("worker_started", stopped)
    job.processes[stopped].send_signal(signal.SIGSTOP)
    assert set(job.wait(but=(stopped,)).values()) == {0}, job.errors()
    assert findings(job.answer, "RANK_LOST", "RANK_STOPPED") == [("RANK_STOPPED", f"rank:{stopped}")]


def test_where_rank_0_never_starts_the_others_say_so_and_end(job):
    job.start(*ONCE, "--wait", 6, ranks=[1, 2, 3])
    assert set(job.wait().values()) == {2}, job.errors()
    for rank in (1, 2, 3):
        said = (job.folder / f"err{rank}").read_text()
        assert f"rank {rank} found no rank 0 at {job.cluster.address('h0')}" in said
        assert "see whether rank 0 started" in said
        assert not job.run_of(rank).exists()


@pytest.mark.cluster
def test_after_sigterm_rank_0_writes_its_verdict_and_everyone_ends_well(job):
    job.start(*QUICK)
    job.wait_for('"clock.offset"', 1)
    began = time.monotonic()
    for process in job.processes.values():
        process.terminate()
    assert set(job.wait().values()) == {0}, job.errors()
    print(f"verdict after {time.monotonic() - began:.1f} s")
    assert job.answer["missing_ranks"] == []
    assert set(clocks(job.answer).values()) == {"sound"}


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_worker_that_is_killed_or_stopped_is_named_and_nobody_else(job, rank, number):
    """The worker, not its agent: the rank itself goes on, and later restarts give it a verdict."""
    job.start(*QUICK)
    job.wait_for("worker_started", rank)
    os.kill(pid_of_worker(job.run_of(rank), rank), number)
    assert set(job.wait().values()) == {0}, job.errors()
    code = "RANK_LOST" if number == signal.SIGKILL else "RANK_STOPPED"
    assert findings(job.answer, "RANK_LOST", "RANK_STOPPED") == [(code, f"rank:{rank}")]
    assert job.answer["missing_ranks"] == [rank]
    assert clocks(job.answer) == dict.fromkeys(("rank:1", "rank:2", "rank:3"), "sound")


def test_where_rank_0_is_stopped_the_others_judge_what_they_have(job):
    job.start(*QUICK)
    job.wait_for('"clock.offset"', 1)
    job.processes[0].send_signal(signal.SIGSTOP)
    assert set(job.wait(but=(0,)).values()) == {0}, job.errors()
    answer = json.loads((job.run_of(1) / "verdict.json").read_text())
    assert ("RANK_STOPPED", "rank:0") in findings(answer, "RANK_STOPPED")
    assert clocks(answer)["rank:1"] == "sound"


def pid_of_worker(run: Path, rank: int) -> int:
    lines = (run / f"rank-{rank:04d}.jsonl").read_text().splitlines()
    (started,) = [json.loads(line) for line in lines if "worker_started" in line]
    return int(started["details"]["pid"])
