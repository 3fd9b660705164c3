"""The sample files of this folder as lines."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"


def sample(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()
