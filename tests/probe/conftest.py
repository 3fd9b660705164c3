"""The fabricated machine and the stand-in for the driver's library, for the tests of this room."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.probe import Roots

TESTBED = Path(__file__).resolve().parents[1] / "testbed"
sys.path.insert(0, str(TESTBED))

import fake_sysfs  # noqa: E402 - found through the line above
from compile_nvml import compile_nvml  # noqa: E402


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A healthy fabricated machine."""
    return fake_sysfs.build(tmp_path / "machine")


@pytest.fixture
def roots(top: Path) -> Roots:
    return Roots.under(top)


@pytest.fixture
def empty(tmp_path: Path) -> Roots:
    """A machine of which nothing can be read."""
    (tmp_path / "nothing").mkdir()
    return Roots.under(tmp_path / "nothing")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As of a driver before 450."""
    return compile_nvml(tmp_path_factory.mktemp("old_nvml"), "-DOLD_DRIVER")


@pytest.fixture
def gpus_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tells the stand-in what to answer: `gpus_say("-1 count 2", "1 lost 1")`."""
    state = tmp_path / "nvml.txt"

    def say(*lines: str) -> None:
        state.write_text("\n".join(lines) + "\n")
        monkeypatch.setenv("NVML_STUB", str(state))

    return say
