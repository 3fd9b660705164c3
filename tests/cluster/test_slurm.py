"""Inside a real Slurm job on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_job import SOURCE, clocks
from slurm import Slurm, obstacle


@pytest.fixture
def slurm(tmp_path):
    reason = obstacle()
    if reason and os.environ.get("CI"):
        pytest.fail(f"a skip in CI is a failure: {reason}")
    if reason:
        pytest.skip(reason)
    (tmp_path / "slurm").mkdir()
    with Slurm(tmp_path / "slurm") as running:
        yield running


def test_srun_starts_the_ranks_and_each_ends_with_0(slurm, tmp_path):
    assay = ["-m", "assay", "qualify", "--suite", "quick", "--restarts", "1"]
    assay += ["--only", "clock", "--json", "--out", "run"]
    done = subprocess.run(
        ["srun", "-N2", "-n2", sys.executable, *assay],
        env={**slurm.env, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["missing_ranks"] == []
    assert clocks(answer) == {"rank:1": "sound"}


@pytest.mark.cluster
def test_the_batch_script_of_the_examples_ends_with_a_verdict(slurm, tmp_path):
    script = Path(__file__).parents[2] / "examples" / "launch" / "slurm.sbatch"
    path = f"{Path(sys.executable).parent}:{slurm.env['PATH']}"
    words = {"SUITE": "quick", "BUDGET": "10min", "ASSAY": "--restarts 1 --only clock", "OUT": "run"}
    done = subprocess.run(
        ["sbatch", "--wait", "-N2", "--ntasks-per-node=1", "--gpus-per-node=0", "--output=log", script],
        env={**slurm.env, **words, "PATH": path, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert done.returncode == 0, (done.stderr, log)
    assert "schedule:" in log
    assert (tmp_path / "run" / "run.json").exists(), log
