"""Compiles the stand-in for the driver's library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def compile_nvml(directory: Path, *flags: str) -> str:
    """The path of a libnvidia-ml.so.1 made of nvml_stub.c in `directory`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the NVML stand-in: install the package gcc")
    out = directory / "libnvidia-ml.so.1"
    command = [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags, "-o", str(out)]
    subprocess.run([*command, str(Path(__file__).with_name("nvml_stub.c"))], check=True, timeout=60)
    return str(out)
