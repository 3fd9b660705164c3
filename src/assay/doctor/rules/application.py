"""The application itself: ranks in different collectives, memory, CUDA errors, checkpoints, uneven data."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, found, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.sentences import Said

_TINY = 16


@rule("APP_COLLECTIVE_DESYNC", "APP_UNEVEN_INPUTS", "APP_CHECKPOINT_STALL", reads=("torch log",))
def watchdogs(facts: Facts, job: Job) -> Iterator[Finding]:
    """What the ranks waited for when the watchdog ended them, and which ranks it did not have to end."""
    groups: dict[str, dict[int, Said]] = defaultdict(dict)
    for said in facts.all("torch.timeout"):
        if said.rank is not None:
            groups[said["pg"]].setdefault(said.rank, said)
    saving = facts.all("ckpt.saving")
    for by_rank in groups.values():
        lines = list(by_rank.values())
        places = {(s["seq"], s["op"], _elements(s)) for s in lines}
        if len(places) > 1:
            yield found(
                "APP_COLLECTIVE_DESYNC",
                lines,
                subject=_minority(by_rank),
                because=Message.of("doctor.different_collectives", n=len(places)),
            )
        elif not saving:
            yield from _some_only(by_rank, facts)
    if saving and groups and not facts.dumps:
        lines = [s for by_rank in groups.values() for s in by_rank.values()]
        after = facts.all("ckpt.saved")
        sure = (
            0.6 if after and after[-1].file == saving[-1].file and after[-1].line > saving[-1].line else 0.8
        )
        yield found("APP_CHECKPOINT_STALL", [*saving[-2:], *lines], sure=sure)
    elif (ahead := _far_ahead(facts)) and groups:
        yield found("APP_CHECKPOINT_STALL", ahead, sure=0.6)


def _elements(said: Said) -> int:
    """Elements of the tensor, as later versions say them, or by its shape; many where neither is told."""
    if said["shape"]:
        return prod(int(part) for part in said["shape"].replace(" ", "").split(",") if part)
    return said.number("numel_in") or 10**9


def _minority(by_rank: dict[int, Said]) -> Subject:
    votes: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, said in by_rank.items():
        votes[said["seq"], said["op"]].append(rank)
    fewest = min(votes.values(), key=len)
    return Subject("rank", str(fewest[0])) if len(fewest) == 1 and len(by_rank) > 2 else CLUSTER


def _some_only(by_rank: dict[int, Said], facts: Facts) -> Iterator[Finding]:
    """Some ranks wait in a tiny all-reduce that the others never entered."""
    one = next(iter(by_rank.values()))
    tiny = _elements(one) <= _TINY and one["op"].startswith(("ALLREDUCE", "BARRIER"))
    lines = [*by_rank.values(), *facts.all("torch.status")[:2], *facts.all("train.epoch_end")]
    absent = [r for r in range(max(by_rank) + 1) if r not in by_rank]
    told = {s.rank for s in facts.all("train.epoch_end")} - set(by_rank)
    if not tiny:
        if absent and len(by_rank) > 1:
            yield found(
                "APP_COLLECTIVE_DESYNC",
                lines,
                sure=0.5,
                because=Message.of("doctor.ranks_absent", n=len(by_rank)),
            )
        return
    if len(by_rank) == 1:
        yield found(
            "APP_COLLECTIVE_DESYNC",
            lines,
            sure=LIKELY,
            subject=Subject("rank", str(next(iter(by_rank)))),
            because=Message.of("doctor.one_rank_alone", rank=next(iter(by_rank))),
        )
        yield found("APP_UNEVEN_INPUTS", lines, sure=POSSIBLE)
    elif absent or told:
        yield found(
            "APP_UNEVEN_INPUTS",
            lines,
            sure=0.85 if told else 0.75,
            subject=Subject("rank", str(absent[0])) if len(absent) == 1 else CLUSTER,
        )
        yield found(
            "APP_COLLECTIVE_DESYNC",
            lines,
            sure=POSSIBLE,
            because=Message.of("doctor.ranks_absent", n=len(by_rank)),
        )


def _far_ahead(facts: Facts) -> list[Said]:
    return [
        s
        for s in facts.all("torch.status")
        if (s.number("enqueued") or 0) - (s.number("completed") or 0) >= 8
        and (s.number("completed") or 0) > 0
    ]


@rule("APP_COLLECTIVE_DESYNC", reads=("torch log",))
def fr_trace(facts: Facts, job: Job) -> Iterator[Finding]:
    """The verdict of PyTorch's own analyser. Which side is the culprit depends on the majority."""
    lines = facts.all("fr.culprit", "fr.missing", "fr.not_joined", "fr.lagging", "torch.monitored_barrier")
    lines += facts.all("nccl.mismatched_call")
    if lines:
        ranks = {s["rank"] for s in facts.all("fr.culprit", "fr.lagging") if s["rank"]}
        ranks |= {r for s in facts.all("torch.monitored_barrier") for r in s["ranks"].split(", ")}
        ranks |= {rank for s in facts.all("fr.missing") for rank in re.findall(r"\d+", s["ranks"])}
        subject = Subject("rank", next(iter(ranks))) if len(ranks) == 1 else CLUSTER
        yield found(
            "APP_COLLECTIVE_DESYNC", lines, subject=subject, because=Message.of("doctor.fr_trace_says")
        )


@rule("APP_OOM_AS_NCCL", reads=("nccl log", "torch log"))
def out_of_memory(facts: Facts, job: Job) -> Iterator[Finding]:
    """One rank ran out of GPU memory; what the others say about the network is its echo."""
    lines = facts.all("cuda.out_of_memory")
    if lines:
        echoes = facts.all("nccl.remote_error", "net.remote_closed")
        device = lines[0].device
        host = lines[0].host
        subject = (
            Subject("rank", str(lines[0].rank))
            if lines[0].rank is not None
            else (Subject("gpu", f"{host}/{device}") if host and device else node(host))
        )
        yield found("APP_OOM_AS_NCCL", [*lines, *echoes[:1]], subject=subject, sure=PROVEN if echoes else 0.8)


@rule("APP_CUDA_ERROR_AS_NCCL", reads=("torch log",))
def cuda_error(facts: Facts, job: Job) -> Iterator[Finding]:
    """The watchdog is only the first to notice an error of some earlier kernel."""
    lines = [
        s
        for s in facts.all("torch.watchdog_error")
        if "ECC" not in s["error"] and "out of memory" not in s["error"]
    ]
    if lines and not facts.has("torch.timeout"):
        yield found("APP_CUDA_ERROR_AS_NCCL", lines, sure=0.6 if facts.has("gpu.xid") else PROVEN)


@rule("APP_COLLECTIVE_DESYNC", reads=("nccl log",))
def last_calls(facts: Facts, job: Job) -> Iterator[Finding]:
    """The last collective that each process logged: at one count they must all be in the same one."""
    by_size: dict[str, list[Said]] = defaultdict(list)
    for said in facts.all("nccl.last_call"):
        by_size[said["nranks"]].append(said)
    hung = facts.has("torch.timeout", "job.silent")
    for lines in by_size.values():
        places = {(s["count"], s["op"], s["elements"], s["dtype"]) for s in lines}
        same_count = len({s["count"] for s in lines}) == 1
        if len(places) > 1 and len({(s.host, s.pid, s.device) for s in lines}) > 1 and (same_count or hung):
            yield found(
                "APP_COLLECTIVE_DESYNC",
                lines,
                sure=0.85 if same_count else LIKELY,
                because=Message.of("doctor.different_collectives", n=len(places)),
            )
            return


@rule("RANK_LOST", "NET_FIREWALL", reads=("torch log",))
def no_first_rank(facts: Facts, job: Job) -> Iterator[Finding]:
    """The others could not ask rank 0 for the communicator's id: it crashed, or cannot be reached."""
    lines = facts.all("c10d.no_first_rank")
    if lines:
        yield found("RANK_LOST", lines, sure=POSSIBLE, subject=Subject("rank", "0"))
        yield found("NET_FIREWALL", lines, sure=POSSIBLE - 0.1)


#: Signals that end a process from outside or for its own fault; the rest are how a job is torn down.
_DEADLY = (9, 7, 11)


_ENDED = {
    "TIME LIMIT": "doctor.slurm_time_limit",
    "PREEMPTION": "doctor.slurm_preemption",
    "": "doctor.slurm_cancelled",
}


@rule("JOB_ENDED_BY_SCHEDULER", reads=("shell",))
def ended_by_scheduler(facts: Facts, job: Job) -> Iterator[Finding]:
    """Slurm says why it ended the job; without a reason somebody asked for it."""
    if ended := facts.all("slurm.ended"):
        why = next((s["reason"] for s in ended if s["reason"]), "")
        yield found("JOB_ENDED_BY_SCHEDULER", ended, because=Message(_ENDED[why]))


@rule("RANK_LOST", reads=("kernel log", "torch log", "shell"))
def killed(facts: Facts, job: Job) -> Iterator[Finding]:
    """A process that the kernel killed for want of host memory; the others see a closed connection."""
    lines = facts.all("kernel.oom")
    died = _died(facts)
    if lines:
        told = facts.all("elastic.failed", "elastic.signal")
        rank = next((s.rank for s in [*died, *told] if s.rank is not None), None)
        subject = Subject("rank", str(rank)) if rank is not None else node(lines[0].host)
        because = Message.of("doctor.killed")
        yield found("RANK_LOST", [*lines, *died, *told], sure=0.85, subject=subject, because=because)
    elif gone := facts.all("slurm.node_failure"):
        host = next((s["host"] for s in gone if s["host"]), None)
        yield found("RANK_LOST", gone, subject=node(host), because=Message("doctor.node_gone"))
    elif died:
        rank = died[0].rank
        subject = Subject("rank", str(rank)) if rank is not None else CLUSTER
        because = Message.of("doctor.ended_by_signal")
        yield found("RANK_LOST", died, sure=LIKELY, subject=subject, because=because)


def _died(facts: Facts) -> list[Said]:
    """What torchrun says of processes that a signal ended; the rank stands in a line of its own above."""
    ends = [s for s in facts.all("elastic.signal") if s.number("signal") in _DEADLY]
    ends += [s for s in facts.all("elastic.exit", "elastic.failed") if -(s.number("code") or 0) in _DEADLY]
    named = facts.all("elastic.rank")
    found_ends: list[Said] = []
    for end in ends:
        above = [s for s in named if s.file == end.file and 0 < end.line - s.line <= 3]
        found_ends.append(replace(end, rank=above[-1].rank) if above and end.rank is None else end)
    return sorted(found_ends, key=lambda s: (s.rank is None, s.file, s.line))
