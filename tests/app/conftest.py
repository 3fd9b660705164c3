"""The command as a user calls it, and one run of this machine that many tests judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[1] / "formats" / "data"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def assay(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ended:
    """Run `assay` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=240,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Path:
    """A quick run of two benchmarks and the environment; copy it before changing it."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    ended = assay(
        "measure", "--suite", "quick", "--only", "environment,gemm,clock", "--out", folder, "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.json["run"] == str(folder)
    return folder
