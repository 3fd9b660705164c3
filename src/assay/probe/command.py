"""Running a small program that only reports, with a bound on its time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from assay.probe.files import Text, short

_MOST_S = 0.7


def run(command: Sequence[str]) -> Text:
    """What `command` prints to stdout, or why not; it is killed after 0.7 s."""
    source = Path(command[0])
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MOST_S,
            check=False,
            close_fds=True,
        )
    except subprocess.TimeoutExpired:
        return Text(path=source, text=None, reason=f"{command[0]} gave no answer within {_MOST_S} s")
    except OSError as error:
        return Text(path=source, text=None, reason=f"cannot run {command[0]}: {error.strerror or error}")
    text = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip() or text
        reason = f"{command[0]} ended with {done.returncode}: {short(said)}"
        return Text(path=source, text=None, reason=reason)
    return Text(path=source, text=text, reason=None)
