"""Real inventories of a fabricated machine, for rules about what the probe finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fake_sysfs
import pytest
from compile_nvml import compile_nvml

from assay.domain.fact import Fact
from assay.probe import Roots, inventory

Probe = Callable[..., tuple[Fact, ...]]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A healthy fabricated machine, with no time stolen by a hypervisor."""
    built = fake_sysfs.build(tmp_path / "machine")
    fake_sysfs.write(built / "proc/stat", fake_sysfs.STAT.replace("505", "0"))
    return built


@pytest.fixture
def probe(top: Path, tmp_path: Path, nvml_library: str, monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Reads the machine: `probe("0 ecc_unc 3", host="h")` after the driver was told what to answer."""
    state = tmp_path / "nvml.txt"

    def read(*lines: str, host: str = "h") -> tuple[Fact, ...]:
        state.write_text("\n".join(("-1 count 2", *lines)) + "\n")
        monkeypatch.setenv("NVML_STUB", str(state))
        return inventory(
            host=host, roots=Roots.under(top), environ={}, packages=[], nvml_library=nvml_library
        )

    return read
