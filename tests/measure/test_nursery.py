"""The process that bears workers: how they end is told, and none outlives it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from assay.measure.crew import worker_environment
from assay.measure.nursery import Nursery


@pytest.fixture
def nursery():
    made = Nursery()
    yield made
    made.close()


def ask(nursery: Nursery, folder: Path, **env: str):
    """A worker whose spec is not there."""
    return nursery.start(folder / "spec.json", 0, folder / "log", worker_environment("", 1) | env)


def test_a_worker_that_fails_leaves_its_code_and_its_words(nursery, tmp_path):
    born = ask(nursery, tmp_path)
    born.wait()
    assert born.poll() == 1
    assert "No such file" in (tmp_path / "log").read_text()
    again = ask(nursery, tmp_path)  # the same process bears the next
    again.wait()
    assert (again.poll(), again.pid != born.pid) == (1, True)


def test_a_worker_that_waits_is_killed_and_its_signal_is_told(nursery, tmp_path):
    os.mkfifo(tmp_path / "spec.json")  # reading its spec, it waits for a writer
    born = ask(nursery, tmp_path)
    end = time.monotonic() + 60
    while born.pid is None and time.monotonic() < end:
        time.sleep(0.02)
    assert born.poll() is None
    assert os.getpgid(born.pid) == born.pid
    born.kill()
    born.wait()
    assert born.poll() == -signal.SIGKILL


def test_one_that_is_not_there_yet_ends_with_the_nursery(nursery, tmp_path):
    os.mkfifo(tmp_path / "spec.json")
    born = ask(nursery, tmp_path)
    born.kill()
    born.wait()
    assert born.poll() == -signal.SIGKILL
    (tmp_path / "spec.json").unlink()
    after = ask(nursery, tmp_path)  # and another takes its place
    after.wait()
    assert after.poll() == 1
