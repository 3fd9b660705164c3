"""Storage as fio measured it: jobs that failed, and single requests that took seconds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, found, rule
from assay.domain.finding import Finding
from assay.domain.message import Message

#: Half of the requests are this many times faster than one in a hundred, which takes at least `_LONG_S`.
_TAIL, _LONG_S = 50.0, 0.5


@rule("DISK_FULL", "STO_IO_ERROR", "STO_STALLS", reads=("fio",))
def fio_jobs(facts: Facts, job: Job) -> Iterator[Finding]:
    """An error that a job ended with, and a tail of requests that stalls whoever waits for all."""
    for file, one in facts.fio:
        where = f"fio job {one.name}"
        if one.error:
            said = os.strerror(one.error) if one.error in errno.errorcode else f"error {one.error}"
            code = "DISK_FULL" if one.error in (errno.ENOSPC, errno.EDQUOT) else "STO_IO_ERROR"
            because = Message.of("doctor.fio_failed", job=one.name, error=said)
            yield found(code, [(file, one.line, f"{where}: {said}")], because=because)
        for way, side in (("read", one.read), ("write", one.write)):
            if side is None or side.clat is None:
                continue
            half, most = side.clat.percentile_s(50.0), side.clat.percentile_s(99.0)
            if half and most and most >= _LONG_S and most > _TAIL * half:
                place = (file, one.line, f"{where}: {way}, p50 {half:.4g} s, p99 {most:.4g} s")
                because = Message.of("doctor.fio_tail", job=one.name, half_s=half, most_s=most)
                yield found("STO_STALLS", [place], sure=LIKELY, because=because)
