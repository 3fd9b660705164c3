"""The command as a user calls it: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        check=False,
        text=True,
        cwd=cwd,
        timeout=240,
        env={**os.environ, "COLUMNS": "80", **(env or {})},
    )
    return Ended(done.returncode, done.stdout, done.stderr)
