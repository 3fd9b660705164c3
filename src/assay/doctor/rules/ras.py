"""What NCCL's RAS says of a running job: who is gone, who does not answer, who is behind."""

from __future__ import annotations

from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, found, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.formats.nccl_ras import RasRank


@rule("RANK_LOST", "RANK_STOPPED", reads=("nccl ras",))
def missing(facts: Facts, job: Job) -> Iterator[Finding]:
    """A process that RAS cannot reach for a minute is dead; one that does not answer is stopped or dying."""
    gone = {(one.host, one.process) for one in facts.ras if one.state == "dead"}
    for state, code, sure in (("dead", "RANK_LOST", 0.9), ("silent", "RANK_STOPPED", LIKELY)):
        told: dict[tuple[str, int], list[RasRank]] = {}
        for one in facts.ras:
            if one.state == state and (state == "dead" or (one.host, one.process) not in gone):
                told.setdefault((one.host, one.process), []).append(one)
        for lines in told.values():
            because = Message.of(f"doctor.ras_{state}", process=lines[0].process, host=lines[0].host)
            yield found(code, lines, subject=_subject(lines), sure=sure, because=because)


@rule("APP_COLLECTIVE_DESYNC", "APP_STRAGGLER", reads=("nccl ras",))
def behind(facts: Facts, job: Job) -> Iterator[Finding]:
    """Ranks that launched fewer collectives. One answer shows a moving job; two alike show one that stands.

    A rank that is behind in one communicator and ahead in another waits itself, and is no root.
    """
    if any(one.state in ("dead", "silent") for one in facts.ras):
        return
    ahead = {(one.host, one.process) for one in facts.ras if one.state == "ahead"}
    late: dict[tuple[str, int], list[RasRank]] = {}
    for one in facts.ras:
        if one.state == "behind" and (one.host, one.process) not in ahead:
            late.setdefault((one.host, one.process), []).append(one)
    for lines in late.values():
        last = lines[-1]
        before = [s for s in lines[:-1] if (s.comm, s.count, s.usual) == (last.comm, last.count, last.usual)]
        code = "doctor.ras_stands" if before else "doctor.ras_behind"
        because = Message.of(code, process=last.process, host=last.host, count=last.count, usual=last.usual)
        if before:
            yield found("APP_COLLECTIVE_DESYNC", lines, subject=_subject(lines), sure=0.8, because=because)
        elif last.usual - last.count > 1:
            yield found("APP_STRAGGLER", lines, subject=_subject(lines), sure=POSSIBLE, because=because)


def _subject(lines: list[RasRank]) -> Subject:
    """The rank, where RAS tells it; it numbers ranks within a communicator, so only if all agree."""
    ranks = {one.rank for one in lines if one.rank is not None}
    return Subject("rank", str(ranks.pop())) if len(ranks) == 1 else node(lines[0].host)
