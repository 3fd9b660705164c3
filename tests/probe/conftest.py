"""The fabricated machine and the stand-in for the driver's library, for the tests of this room."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.probe import Roots

TESTBED = Path(__file__).resolve().parents[1] / "testbed"
sys.path.insert(0, str(TESTBED))

import fake_sysfs  # noqa: E402 - found through the line above


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


def _compile(out: Path, *flags: str) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the NVML stand-in: install the package gcc")
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags, "-o", str(out)]
    subprocess.run([*command, str(TESTBED / "nvml_stub.c")], check=True, timeout=60)
    return str(out)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _compile(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As of a driver before 450."""
    return _compile(tmp_path_factory.mktemp("old_nvml") / "libnvidia-ml.so.1", "-DOLD_DRIVER")


@pytest.fixture
def gpus_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tells the stand-in what to answer: `gpus_say("-1 count 2", "1 lost 1")`."""
    state = tmp_path / "nvml.txt"

    def say(*lines: str) -> None:
        state.write_text("\n".join(lines) + "\n")
        monkeypatch.setenv("NVML_STUB", str(state))

    return say
