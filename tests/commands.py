"""The command as a user calls it: within this process, or as a process of its own where it measures."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from assay.app.cli import main

SAMPLES = Path(__file__).parent / "formats" / "data"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """The errors without the ends of lines, which stand where 80 columns were full."""
        return " ".join(self.err.split())

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def assay(*words: object, cwd: Path | None = None) -> Ended:
    """Call `assay` here with the words of a command line: an interpreter takes a second to start."""
    out, err, terminate, code = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM), None
    args = [str(word) for word in words]
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.dict(os.environ, {"COLUMNS": "80"}),
        mock.patch.object(sys, "argv", ["assay", *args]),
    ):
        try:
            main(args)
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.signal(signal.SIGTERM, terminate)
            gc.enable()  # `judge` does without it
    assert isinstance(code, int)
    return Ended(code, out.getvalue(), err.getvalue())


def assay_process(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ended:
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
