"""Storage as fio measured it and as the kernel tells of it: errors, and requests that take seconds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, found, host_of, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message

#: Half of the requests are this many times faster than one in a hundred, which takes at least `_LONG_S`.
_TAIL, _LONG_S = 50.0, 0.5


@rule("STO_IO_ERROR", "STO_STALLS", reads=("kernel log",))
def told_by_the_kernel(facts: Facts, job: Job) -> Iterator[Finding]:
    """A disk that fails, a file server that does not answer, and processes that wait for either."""
    failed, away, hung = facts.all("disk.failed"), facts.all("fs.unreachable"), facts.all("kernel.hung")
    if failed:
        because = Message("doctor.storage_disk")
        yield found("STO_IO_ERROR", failed, subject=node(host_of(failed[0])), because=because)
    if away:
        yield found("STO_STALLS", [*away, *hung[:1]], sure=0.85, because=Message("doctor.storage_server"))
    elif hung and not failed:
        because = Message("doctor.storage_hung")
        yield found("STO_STALLS", hung, sure=POSSIBLE, subject=node(host_of(hung[0])), because=because)


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
