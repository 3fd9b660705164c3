"""A job and its nodes on a real Slurm, as the watch follows them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from test_slurm import slurm

from assay.watch.sources.logs import LogReader
from assay.watch.sources.slurm import SlurmSource

__all__ = ["slurm"]


def test_a_job_that_is_requeued_and_nodes_that_go_are_told(slurm, tmp_path):
    def run(*words: str) -> str:
        done = subprocess.run(
            words, env=slurm.env, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout

    job = run("sbatch", "--parsable", "--requeue", "-N2", "--wrap", "sleep 300")
    got = []
    source = SlurmSource(job.strip(), every_s=0.2, run=lambda words: run(*words))

    def heard(kind: str, subject: str) -> object:
        got.extend(source.poll(0))
        return next((e for e in got if (e.kind, str(e.subject)) == (kind, subject)), None)

    try:
        _until(lambda: heard("job_started", "cluster"))
        run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=bad cable")
        assert _until(lambda: heard("node_drained", "node:n2")).text == "bad cable"
        run("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=no power")
        assert _until(lambda: heard("job_ended", "cluster")).details["ok"] == 0
        assert _until(lambda: heard("job_requeued", "cluster")).details["restarts"] >= 0
    finally:
        source.close()
        got.extend(source.poll(0))
    assert not [e for e in got if e.kind == "source_failed"]
    log = Path(slurm.folder / "slurmctld.log").read_text().splitlines()
    told = {
        (e.kind, str(e.subject))
        for number, line in enumerate(log)
        for e in LogReader().read(line, file="slurmctld.log", number=number, now_s=0.0)
    }
    assert {("node_down", "node:n1"), ("node_drained", "node:n2"), ("job_requeued", "cluster")} <= told


def _until(condition: Callable[[], object], within_s: float = 40.0):
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {within_s} s")
