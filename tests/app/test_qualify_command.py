"""`assay qualify` and `assay measure` as a user runs them, and what happens when they are stopped."""

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

from assay.store.run import check_seal, open_run
from commands import assay, assay_process


def start(*words: object, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "assay", *map(str, words)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(run: Path, text: str, *, within_s: float = 90.0) -> None:
    """Until some file of the run holds `text`."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if any(text in file.read_text() for file in run.glob("*.jsonl")):
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} did not come")


def worker_pid(run: Path, rank: int) -> int:
    started = [
        line for line in (run / f"rank-{rank:04d}.jsonl").read_text().splitlines() if "worker_started" in line
    ]
    return int(json.loads(started[-1])["details"]["pid"])


def test_qualify_measures_judges_and_reports(tmp_path):
    run = tmp_path / "run"
    ended = assay_process("qualify", "--suite", "quick", "--only", "clock,peer", "--out", run, "--json")
    assert ended.code in (1, 3), ended.err
    answer = ended.json
    assert answer["command"] == "qualify"
    clock = [c for c in answer["criteria"] if c["id"] == "clocks-agree"]
    assert [(c["subject"], c["verdict"]) for c in clock] == [("rank:1", "pass")]
    assert json.loads((run / "verdict.json").read_text()) == answer
    assert "<html" in (run / "report.html").read_text()
    assert check_seal(run)
    assert {e.kind for e in open_run(run).events} >= {"task_started", "task_done", "worker_started"}


def test_a_rank_killed_in_the_middle_leaves_the_others_their_verdicts_and_is_named(tmp_path):
    run = tmp_path / "run"
    words = ("--suite", "quick", "--only", "gemm,clock", "--restarts", 2, "--out", run, "--json")
    process = start("qualify", *words, cwd=tmp_path)
    wait_for(run, '"quantity": "gemm.fp32.rate"')
    os.kill(worker_pid(run, 1), signal.SIGKILL)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 1, err
    answer = json.loads(out)
    assert answer["missing_ranks"] == [1]
    lost = [f for f in answer["findings"] if f["code"] == "RANK_LOST"]
    assert [f["subject"] for f in lost] == ["rank:1"]
    verdicts = {(c["id"], c["subject"]): c["verdict"] for c in answer["criteria"]}
    assert verdicts["ranks-present", "cluster"] == "fail"
    assert verdicts["clocks-agree", "rank:1"] == "pass"
    compute = [c for c in answer["criteria"] if c["id"] == "compute-uniform"]
    assert compute
    assert all(c["verdict"] != "not_measured" for c in compute)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_qualification_is_judged_by_what_it_has_and_can_go_on(tmp_path, number):
    run = tmp_path / "run"
    words = ("--suite", "quick", "--only", "clock,peer", "--restarts", 2, "--out", run, "--json")
    process = start("qualify", *words, cwd=tmp_path)
    wait_for(run, '"task_done"')
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (1, 3), err
    assert json.loads(out)["verdict"] in ("fail", "undecided", "not_measured")
    before = len(open_run(run).readings)
    assert any(e.kind == "interrupted" for e in open_run(run).events)
    ended = assay_process("measure", "--resume", run)
    assert ended.code == 0, ended.err
    whole = open_run(run)
    assert len(whole.readings) > before
    done = [e.details["benchmark"] for e in whole.events if e.kind == "task_done"]
    assert sorted(done) == ["clock"] * 2 + ["peer"] * 2


def test_a_finished_run_resumes_to_nothing(measured, tmp_path):
    run = shutil.copytree(measured, tmp_path / "run")
    before = len(open_run(run).readings)
    assert assay_process("measure", "--resume", run).code == 0
    assert len(open_run(run).readings) == before


def test_resuming_sets_a_half_line_aside(measured, tmp_path):
    run = shutil.copytree(measured, tmp_path / "run")
    with (run / "rank-0001.jsonl").open("ab") as file:
        file.write(b'{"type": "rea')
    assert assay_process("measure", "--resume", run).code == 0
    assert (run / "torn" / "rank-0001.jsonl").read_text() == '{"type": "rea\n'
    open_run(run)


def test_a_full_disk_loses_nothing_that_was_measured(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", disk], check=True)
    try:
        run = disk / "run"
        ended = assay_process("measure", "--suite", "quick", "--only", "peer,clock", "--out", run)
        assert "Traceback" not in ended.told, ended.err
        found = open_run(run, partial=True)
        assert any(r.value is not None for r in found.readings)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_until_decided_adds_restarts_only_while_something_is_open(tmp_path):
    profile = tmp_path / "easy.yaml"
    profile.write_text(
        "schema: 1\nname: easy\ntitle: Easy\ncriteria:\n"
        "  - {id: offset, quantity: clock.offset, op: within, bound: -1 s, high: 1 s}\n"
    )
    run = tmp_path / "run"
    ended = assay_process(
        "qualify",
        "--suite",
        "quick",
        "--only",
        "clock",
        "--until-decided",
        "--profile",
        profile,
        "--out",
        run,
        "--json",
    )
    assert ended.code == 0, ended.err
    (criterion,) = ended.json["criteria"]
    assert criterion["measured"]["n"] > 3


def test_help_names_every_command():
    out = assay("--help").out
    for word in ("qualify", "measure", "judge", "catalog"):
        assert word in out


def test_help_imports_nothing_heavy():
    script = (
        "import sys, assay.app.cli as c\n"
        "try:\n    c.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'torch', 'pydantic', 'rich', 'altair') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_a_budget_prints_the_schedule_first_and_is_kept(tmp_path):
    run = tmp_path / "run"
    words = ("--suite", "quick", "--only", "clock,training", "--budget", "8s", "--ranks", 1, "--out", run)
    ended = assay_process("qualify", *words, "--json")
    assert ended.err.startswith("schedule: ")
    assert "does not fit: 3 restarts of training" in ended.told
    assert "training: not measured, it did not fit into the budget of 8 s" in ended.told
    reasons = [r["reason"] for r in ended.json["readings"] if r["quantity"] == "training.step_time"]
    assert reasons == ["it did not fit into the budget of 8 s"]


def test_a_budget_needs_a_unit_and_a_soak_its_suite():
    bare = assay("qualify", "--budget", "48")
    assert bare.code == 2
    assert "--budget" in bare.told
    assert "has no unit" in bare.told
    other = assay("qualify", "--for", "48h")
    assert other.code == 2
    assert "give --suite soak with it" in other.told


def test_a_soak_says_what_its_time_shows(tmp_path):
    run = tmp_path / "run"
    ended = assay_process("qualify", "--suite", "soak", "--for", "2s", "--ranks", 2, "--out", run, "--json")
    assert ended.code == 0, ended.err
    assert ended.json["profile"] == "soak"
    assert any("failures: 0" in note for note in ended.json["notes"])
    (shown,) = [
        r
        for r in ended.json["readings"]
        if r["quantity"] == "soak.mtbf_shown" and r["recipe"]["of"] == "session"
    ]
    lasted = [r["value"] for r in ended.json["readings"] if r["quantity"] == "soak.duration"]
    assert lasted
    assert 2 / 3 < shown["value"] < 60
