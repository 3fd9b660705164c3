"""Fabrics simulated by ibsim, where it is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testbed"))

import ibsim


@pytest.fixture(scope="session")
def simulator():
    """The class of a simulated fabric."""
    reason = ibsim.obstacle()
    if reason and os.environ.get("CI"):
        pytest.fail(f"a skip in CI is a failure: {reason}")
    if reason:
        pytest.skip(reason)
    return ibsim.Fabric
