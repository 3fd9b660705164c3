"""What a process of a job does that is not rank 0: attend to it, and judge what is here if it is lost."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from assay.api.gathering import attend_job
from assay.errors import AssayError, EnvironmentLackError
from assay.measure.attend import Attended
from assay.measure.launchers.job import Job
from assay.store.seal import seal

if TYPE_CHECKING:
    from assay.codec.claims import Claims
    from assay.domain.criterion import Profile

_JUDGING = ".judging"
#: Other survivors that share the folder write their last lines meanwhile.
_GRACE_S = 1.0


def attend(
    job: Job,
    *,
    out: Path | None,
    wait_s: float,
    profile: str | Profile | None = None,
    claims: Path | Claims | None = None,
    lang: str = "en",
) -> int:
    """Attend to rank 0; 0 when the run has its verdict.

    Where rank 0 is lost, the folder that can be seen from here is sealed and judged in its stead.
    """
    attended = attend_job(job, out=out, wait_s=wait_s)
    if attended.refused is not None:
        raise EnvironmentLackError(f"rank {job.rank} was sent away by rank 0: {attended.refused}")
    if attended.lead_lost and attended.folder:
        _judge_instead(job, attended, attended.folder, profile=profile, claims=claims, lang=lang)
    return 0


def _judge_instead(
    job: Job,
    attended: Attended,
    folder: Path,
    *,
    profile: str | Profile | None,
    claims: Path | Claims | None,
    lang: str,
) -> None:
    """Several survivors may share the folder; the first to say so judges it."""
    # Only here: thousands of agents need not load what judging needs.
    from assay.api.judging import judge
    from assay.api.reporting import write_report

    with contextlib.suppress(FileExistsError):
        os.close(os.open(folder / _JUDGING, os.O_CREAT | os.O_EXCL))
        try:
            time.sleep(_GRACE_S)
            seal(folder)
            judged = judge([folder], profile=profile, claims=claims, partial=True, lang=lang)
            write_report(judged, folder, command="qualify")
            verdict = judged.assessment.verdict.value
        except AssayError as error:
            verdict = f"none: {error}"
        finally:
            (folder / _JUDGING).unlink(missing_ok=True)
        rest = "" if attended.shared else "; with the other machines' folders: assay judge DIR DIR …"
        print(  # noqa: T201 - nobody else is left to say it
            f"assay: rank {job.rank}: rank 0 was lost; verdict of {folder}: {verdict}{rest}", file=sys.stderr
        )
