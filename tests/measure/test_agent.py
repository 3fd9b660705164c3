"""What the agent survives: killed, stopped and failing ranks, half lines, and its own end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from assay.measure.agent import Agent, Progress, Task, plan
from assay.measure.crew import LocalCrew, Machine, world_of
from assay.measure.registry import benchmarks, find
from assay.measure.suites import suite

LONG = {"dtypes": ["fp32", "bf16"], "shape": [256] * 3, "window_s": 0.3, "windows": 40, "warmup_s": 0.1}
SHORT = {"dtypes": ["fp32"], "shape": [128] * 3, "window_s": 0.01, "windows": 2, "warmup_s": 0.01}


def pid_of(folder: Path, rank: int, *, within_s: float = 30.0) -> int:
    """The worker's pid, once it has said that it started and its group is up."""
    end = time.monotonic() + within_s
    file = folder / f"rank-{rank:04d}.jsonl"
    while time.monotonic() < end:
        lines = file.read_text().splitlines() if file.exists() else []
        started = [json.loads(line) for line in lines if '"worker_started"' in line]
        if started:
            return int(started[0]["details"]["pid"])
        time.sleep(0.05)
    raise AssertionError(f"rank {rank} did not start")


def send_later(folder: Path, rank: int, number: signal.Signals, *, after_s: float) -> threading.Thread:
    def act() -> None:
        pid = pid_of(folder, rank)
        time.sleep(after_s)  # into the benchmark: the moment does not matter, only that it has begun
        os.kill(pid, number)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named_and_nobody_else(run_benchmark, tmp_path, victim):
    killer = send_later(tmp_path / "gemm-run", victim, signal.SIGKILL, after_s=3.0)
    measured = run_benchmark("gemm", **LONG)
    killer.join()
    assert measured.outcome.lost == (victim,)
    assert not measured.outcome.late
    lost = [line for line in measured.lines if line.get("kind") == "rank_lost"]
    assert [(e["subject"], e["text"]) for e in lost] == [(f"rank:{victim}", "killed by SIGKILL")]
    assert measured.outcome.seconds < 30


def test_a_stopped_rank_is_named_long_before_the_deadline_and_nobody_else(run_benchmark, tmp_path):
    stopper = send_later(tmp_path / "gemm-run", 1, signal.SIGSTOP, after_s=1.0)
    measured = run_benchmark("gemm", deadline_s=600.0, **LONG)
    stopper.join()
    assert measured.outcome.late == (1,)
    assert not measured.outcome.lost
    late = [line for line in measured.lines if line.get("kind") == "rank_late"]
    assert [e["subject"] for e in late] == ["rank:1"]
    assert late[0]["text"] == "was stopped by a signal for 10 s or until the deadline"
    assert measured.outcome.seconds < 300


def test_no_worker_outlives_its_task(run_benchmark, tmp_path):
    stopper = send_later(tmp_path / "gemm-run", 1, signal.SIGSTOP, after_s=1.0)
    run_benchmark("gemm", deadline_s=120.0, **LONG)
    stopper.join()
    for rank in (0, 1):
        assert not Path(f"/proc/{pid_of(tmp_path / 'gemm-run', rank)}").exists()


def test_workers_die_with_their_agent(tmp_path):
    """An agent that is killed leaves no load behind."""
    script = (
        "import sys; from pathlib import Path; from assay.api import MeasureOptions, measure;"
        "measure(MeasureOptions(out=Path(sys.argv[1]), suite='standard', only=('gemm',), ranks=2))"
    )
    agent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "run")])
    pids = [pid_of(tmp_path / "run", rank) for rank in (0, 1)]
    agent.kill()
    agent.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end and any(alive(pid) for pid in pids):
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_half_line_of_a_killed_worker_is_set_aside(run_benchmark):
    folder = run_benchmark("gemm", **SHORT).folder
    file = folder / "rank-0001.jsonl"
    with file.open("ab") as out:
        out.write(b'{"type": "reading", "quan')
    measured = run_benchmark("gemm", **SHORT, worker=(sys.executable, "-c", "pass"))
    assert file.read_bytes().endswith(b"\n")
    assert (folder / "torn" / "rank-0001.jsonl").read_text() == '{"type": "reading", "quan\n'
    assert any(line.get("kind") == "line_torn" for line in measured.lines)


def test_a_worker_that_cannot_start_is_a_failure_of_its_rank(run_benchmark):
    measured = run_benchmark("gemm", worker=("/bin/false",))
    assert measured.outcome.failed == (0, 1)
    assert measured.lines[-1]["kind"] == "task_failed"


def test_a_plan_goes_round_by_round():
    chosen = [b for b in benchmarks().values() if b.name in ("environment", "gemm", "clock")]
    tasks = plan(suite("quick", on_gpu=False), chosen)
    assert [(t.benchmark.name, t.replicate) for t in tasks] == [
        ("environment", 0),
        ("gemm", 0),
        ("clock", 0),
        ("gemm", 1),
        ("clock", 1),
        ("gemm", 2),
        ("clock", 2),
    ]


def test_a_resumed_plan_repeats_no_whole_restart_and_uses_no_number_twice():
    chosen = [b for b in benchmarks().values() if b.name in ("environment", "gemm")]
    progress = {
        "environment": Progress(whole=1, next_replicate=1),
        "gemm": Progress(whole=1, next_replicate=2),
    }
    tasks = plan(suite("quick", on_gpu=False), chosen, progress)
    assert [(t.benchmark.name, t.replicate) for t in tasks] == [("gemm", 2), ("gemm", 3)]


def test_the_worker_needs_torch_alone(run_benchmark, tmp_path):
    """An environment with torch and what torch itself needs: no NumPy, nothing else that Assay uses."""
    python = torch_only(tmp_path)
    names = ("numpy", "pydantic", "click", "ruamel")
    probe = f"import importlib.util as u; print([m for m in {names} if u.find_spec(m)])"
    assert subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout == "[]\n"
    worker = (python, "-m", "assay.measure.worker")
    measured = run_benchmark("gemm", worker=worker, **SHORT)
    assert measured.outcome.whole
    assert len(measured.readings("gemm.fp32.rate", load="all")) == 2
    for name in ("environment", "clock", "peer"):
        assert run_benchmark(name, worker=worker).outcome.whole, name
    checkpoint = run_benchmark("checkpoint", worker=worker)
    assert checkpoint.reasons() == {"torch.distributed.checkpoint needs NumPy, which is not installed"}


def torch_only(tmp_path: Path) -> str:
    """A virtual environment whose packages are links to torch and its requirements."""
    import importlib.metadata as metadata

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    wanted, done = ["torch"], set()
    while wanted:
        name = wanted.pop()
        if name in done or name == "numpy":
            continue
        done.add(name)
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        for file in package.files or ():
            top = file.parts[0]
            source = Path(str(package.locate_file(top)))
            if top != ".." and source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
        for requirement in package.requires or ():
            if "extra ==" not in requirement:
                wanted.append(requirement.split(";")[0].split("[")[0].strip(" ()<>=!~.0123456789,"))
    return str(tmp_path / "venv" / "bin" / "python")


@pytest.mark.parametrize("cut_by", ["", "the budget of 60 s was used up while it ran"])
def test_ranks_that_work_until_the_budget_ends_are_not_late(tmp_path, cut_by):
    """Both are at work when time is up: without a budget they are late, with one nobody is to blame."""
    words = (sys.executable, "-c", "import time; time.sleep(60)")
    machine = Machine(host="h0", ranks=2, cores=2, devices=("cpu",) * 2, backend="gloo")
    crew = LocalCrew(tmp_path, world_of([(range(2), machine)]), worker=words)
    agent = Agent(run="test", folder=tmp_path, crew=crew, seed=1, command_time_s=time.time())
    outcome = agent.run_task(
        Task(benchmark=find("clock"), replicate=0, deadline_s=0.3, settings={}, cut_by=cut_by)
    )
    assert (outcome.cut, outcome.late, outcome.whole) == (bool(cut_by), () if cut_by else (0, 1), False)
    lines = [json.loads(line) for line in (tmp_path / "agent.jsonl").read_text().splitlines()]
    kinds = [line["kind"] for line in lines if line["type"] == "event"]
    assert kinds == ["task_started", *(["task_cut"] if cut_by else ["rank_late", "rank_late", "task_failed"])]
    assert {line["reason"] for line in lines if line["type"] == "reading"} == ({cut_by} if cut_by else set())


def test_a_rank_that_is_lost_twice_is_left_out_of_what_follows(tmp_path):
    """Rank 1 has a worker that dies at once; the third task is rank 0's alone."""
    script = (
        "import os, runpy, signal, sys;"
        "'1' in sys.argv[2:] and os.kill(os.getpid(), signal.SIGKILL);"
        "runpy.run_module('assay.measure.worker', run_name='__main__')"
    )
    machine = Machine(host="h0", ranks=2, cores=2, devices=("cpu",) * 2, backend="gloo")
    crew = LocalCrew(tmp_path, world_of([(range(2), machine)]), worker=(sys.executable, "-c", script))
    agent = Agent(run="test", folder=tmp_path, crew=crew, seed=1, command_time_s=time.time())
    settings = suite("quick", on_gpu=False).settings["gemm"] | SHORT
    outcomes = [
        agent.run_task(Task(benchmark=find("gemm"), replicate=i, deadline_s=30, settings=settings))
        for i in range(3)
    ]
    assert [outcome.lost for outcome in outcomes] == [(1,), (1,), ()]
    assert outcomes[2].whole
    assert '"rank_quarantined"' in (tmp_path / "agent.jsonl").read_text()
    # It dies in the second place of a task only: alone it has the first.
    settings = {"dtypes": ["fp32"], "shape": [64] * 3, "repeats": 1}
    agent.retest(Task(benchmark=find("bitwise"), replicate=0, deadline_s=30, settings=settings))
    lines = [json.loads(line) for line in (tmp_path / "agent.jsonl").read_text().splitlines()]
    again = [(e["subject"], e["text"]) for e in lines if e.get("kind") == "rank_retested"]
    assert again == [
        ("rank:1", "tried again alone: ran to its end"),
        ("rank:1", "tried again with rank 0: failed again"),
    ]
