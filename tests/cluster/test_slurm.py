"""Inside a real Slurm job on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
