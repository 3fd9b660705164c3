"""One run of this machine that many tests judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import assay_process


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Path:
    """A quick run of two benchmarks and the environment; copy it before changing it."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    ended = assay_process(
        "measure", "--suite", "quick", "--only", "environment,gemm,clock", "--out", folder, "--json"
    )
    assert ended.code == 0, ended.err
    assert ended.json["run"] == str(folder)
    return folder
