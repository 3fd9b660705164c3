"""A failure that no rule explains is told as one: what was given shows that something broke, not why."""

from __future__ import annotations

from collections.abc import Iterator

from assay.doctor.facts import Facts
from assay.doctor.registry import POSSIBLE, found, host_of, node
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.sentences import Said

#: Facts that a job failed or hangs, the most telling first; none of them says why.
FAILURES = (
    "torch.timeout",
    "torch.watchdog_error",
    "torch.stuck",
    "gloo.timeout",
    "gloo.closed",
    "c10d.store_timeout",
    "c10d.rendezvous_timeout",
    "nccl.warned",
    "net.remote_closed",
    "nccl.remote_error",
    "nccl.failure",
    "elastic.failed",
    "elastic.exit",
    "elastic.signal",
    "job.failed",
    "slurm.error",
)
_HANGS = ("torch.timeout", "torch.stuck", "gloo.timeout", "c10d.store_timeout", "c10d.rendezvous_timeout")
HANG, FAILURE = "JOB_HANG_UNEXPLAINED", "JOB_FAILURE_UNEXPLAINED"
#: The codes given here, of which no cause is known.
UNEXPLAINED = (HANG, FAILURE)


def unexplained(facts: Facts) -> Iterator[Finding]:
    """One finding with the first line of each kind of failure; none where nothing failed.

    Ask only where no rule found a cause or a symptom.
    """
    first = [said for fact in FAILURES for said in facts.all(fact)[:1]]
    if not first:
        return
    every = facts.all(*FAILURES)
    because = Message.of("doctor.unexplained", n=len(every), files=len(facts.readings))
    if first[0].fact in _HANGS:
        yield found(HANG, first, sure=POSSIBLE, because=because)
    else:
        yield found(FAILURE, first, sure=POSSIBLE, subject=_teller(every), because=because)


def _teller(lines: list[Said]) -> Subject:
    """The rank or the node that alone tells of the failure."""
    ranks = {line.rank for line in lines}
    if len(ranks) == 1 and (rank := ranks.pop()) is not None:
        return Subject("rank", str(rank))
    hosts = {host_of(line) for line in lines}
    return node(hosts.pop()) if len(hosts) == 1 else CLUSTER
