"""Typical mistakes: the wrong kind of file, a folder, a name nearly right, a place that is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import assay

#: Every way to give a command a file; `{}` stands for it.
READERS = (
    "judge {}",
    "judge {run} --profile {}",
    "judge {run} --claims {}",
    "doctor {}",
    "calibrate {} --base dgx-h100",
    "annex --profile h100-sxm --claims {}",
    "verify {run} --annex {}",
    "watch --replay {}",
    "watch --cluster {}",
    "watch --supervise {}",
    "validate training {}",
    "validate kernels {}",
    "validate collectives {}",
    "validate choices {}",
    "predict --cluster {}.yaml --nodes 2 --workload gpt3-175b --global-batch 64",
    "predict --cluster dgx-h100 --nodes 2 --workload {}.yaml --global-batch 64",
    "predict --from-trace {} --cluster dgx-h100 --nodes 2",
    "predict fabric --from {}",
    "plan compare --workload gpt3-175b --offers {}",
    "plan sweep {} --out rows.csv",
    "catalog profiles {}.yaml",
    "qualify --hosts {} --ssh false",
    "incidents --ledger {}",
    "sla --ledger {}",
    "sla --contract {} --ledger {ledger}",
)

#: Every way to have a file written; `{}` stands for it.
WRITERS = (
    "calibrate {run} --out {}",
    "annex --profile h100-sxm --claims examples/promises.yaml --out {}",
    "predict --cluster dgx-h100 --nodes 2 --workload llama-3.1-8b --global-batch 64 --trace {}",
    "predict fabric --cluster dgx-h100 --nodes 4 --svg {}",
    "predict fabric --cluster dgx-h100 --nodes 4 --html {}",
    "plan risk --cluster dgx-h100 --nodes 4 --workload llama-3.1-8b --html {}",
    "plan sweep examples/sweep.yaml --out {}.csv",
    "doctor --collect {}",
    "incidents --ledger {ledger} --html {}",
    "watch --replay {day} --ledger {}",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the files that commands need besides the one in question."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "ledger.jsonl").touch()
    (folder / "day.jsonl").write_text(
        '{"type": "event", "kind": "node_down", "time_s": 1700000010, "subject": "node:n1"}\n'
    )
    (folder / "file").write_text("no holds\n")
    return folder


def words(line, place, file):
    named = {"run": RUN, "ledger": place / "ledger.jsonl", "day": place / "day.jsonl"}
    return [word.format(file, **named) for word in line.split()]


ROOT = Path(__file__).parents[2]
RUN = ROOT / "examples" / "runs" / "two-cores"

CONTENTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "prose": b"Shall I compare thee to a summer's day?\nThou art more lovely\n",
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("line", READERS)
def test_another_kind_of_file_is_refused_by_its_name(tmp_path, place, line, kind):
    if kind == "empty" and "--ledger {}" in line:
        pytest.skip("optional: an empty ledger is one in which nothing is written yet")
    for name in ("given", "given.yaml"):
        (tmp_path / name).write_bytes(CONTENTS[kind])
    ended = assay(*words(line, place, "given"), cwd=tmp_path)
    assert ended.code == 2, (ended.out, ended.err)
    assert "given" in ended.told
    assert "Traceback" not in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("line", READERS)
def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path, place, line):
    (tmp_path / "given").mkdir()
    for name in ("absent", "given"):
        ended = assay(*words(line, place, name), cwd=tmp_path)
        assert ended.code == 2, (name, ended.out, ended.err)
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("line", WRITERS)
def test_a_place_that_cannot_be_written_to_is_told(place, line):
    ended = assay(*words(line, place, place / "file" / "answer"), cwd=ROOT)
    assert ended.code == 2, (ended.out, ended.err)
    assert f"cannot write {place / 'file' / 'answer'}" in ended.told
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("predict colective --bytes 8", "did you mean 'collective'"),
        ("plan layuot", "did you mean 'layout'"),
        ("validate kernel", "did you mean 'kernels'"),
        ("catalog cluster", "did you mean 'clusters'"),
        ("sla --contrct x", "--contract"),
    ],
)
def test_a_name_that_is_nearly_right_is_suggested(line, told):
    ended = assay(*line.split())
    assert ended.code == 2
    assert told in ended.told
    assert "--help" in ended.told


def test_who_reads_no_further_gets_neither_a_traceback_nor_a_verdict():
    words = [sys.executable, "-m", "assay", "catalog", "findings"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_answer_that_cannot_be_written_is_an_error_and_no_bug():
    words = [sys.executable, "-m", "assay", "catalog", "findings"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"assay: the answer: No space left on device\n"


def test_a_terminal_without_the_letters_shows_others():
    words = [sys.executable, "-m", "assay", "judge", RUN, "--profile", "rental-guide"]
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, capture_output=True, check=False, env=env)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(b" ? FAIL")
