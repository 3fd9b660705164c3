"""Diagnosing files: reading them, and joining the doctor with the words for people."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from assay.api.collecting import SSH, gathered, hosts_of, hosts_of_job
from assay.api.reading import read_given
from assay.doctor.diagnose import Diagnosis, diagnose
from assay.doctor.registry import load_plugins
from assay.errors import InputError


def doctor(paths: Sequence[str], *, stdin: IO[bytes] | None = None) -> Diagnosis:
    """Diagnose files, folders and archives; `-` or nothing is standard input.

    Raises `InputError` when there is nothing to read, or an archive is not safe to open.
    """
    load_plugins()
    diagnosis = diagnose(read_given(list(paths) or ["-"], stdin or sys.stdin.buffer))
    if not diagnosis.readings:
        raise InputError(
            "no file is in what was given", where=", ".join(paths), fix="give logs, dumps or a bundle"
        )
    if not any(reading.kinds for reading in diagnosis.readings):
        first = diagnosis.readings[0]
        raise InputError(
            "nothing in it is understood" if first.lines else "is empty",
            where=first.file,
            fix="give what docs/doctor.md lists: logs of NCCL, torch or the kernel, nvidia-smi, ibstat, …",
        )
    return diagnosis


def doctor_live(
    paths: Sequence[str] = (), *, hosts: Path | None = None, job: str | None = None, ssh: str = SSH
) -> Diagnosis:
    """Ask the hosts of a running job, or this one, and diagnose the answers beside the files given.

    A host that does not answer in time counts with what it said.
    """
    load_plugins()
    names = hosts_of(hosts) if hosts else hosts_of_job(job) if job else ("localhost",)
    return diagnose(
        itertools.chain(gathered(names, ranks=True, ssh=ssh), read_given(list(paths), sys.stdin.buffer))
    )
