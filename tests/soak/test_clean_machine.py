"""Clean runs of this machine raise no alarm: `make soak-test`, `ASSAY_SOAK_RUNS` of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

RUNS = int(os.environ.get("ASSAY_SOAK_RUNS", "10"))
NAMED = {
    "GPU_SLOW",
    "NODE_SLOW",
    "LINK_SLOW",
    "LINK_SLOW_ONE_WAY",
    "RANK_STARVED",
    "RANK_LOST",
    "CLOCK_OFFSET",
}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_clean_run_names_an_odd_one(tmp_path):
    alarms = []
    for number in range(RUNS):
        words = [
            "qualify",
            "--suite",
            "quick",
            "--only",
            "gemm,memory,peer,clock",
            "--out",
            tmp_path / str(number),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "assay", *map(str, words), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        answer = json.loads(done.stdout)
        alarms += [(number, f["code"], f["subject"]) for f in answer["findings"] if f["code"] in NAMED]
        print(f"run {number}: {answer['verdict']}, {len(alarms)} alarms so far", flush=True)
    assert not alarms
