"""Running ranks, as they are seen from outside: who waits in a collective, and who is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, Proof, found, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.stack_text import LiveRank

_COLLECTIVE = re.compile(
    r"^(?:all_reduce|all_gather|reduce_scatter|broadcast|barrier|all_to_all|gather|scatter|send|recv|reduce|wait|"
    r"synchronize|_all_gather_base|all_gather_into_tensor|reduce_scatter_tensor|batch_isend_irecv)\b"
)
#: Calls whose name is the type of the collective, unlike `wait`.
_TYPED = re.compile(
    r"^(?:all_reduce|all_gather|reduce_scatter|broadcast|barrier|all_to_all|gather|scatter|reduce)\w* "
)
_LOADER = re.compile(
    r"DataLoader|dataloader|_next_data|_try_get_data|__getitem__|_MultiProcessing", re.IGNORECASE
)
_CHECKPOINT = re.compile(r"save_checkpoint|checkpoint|torch/serialization|^save\b", re.IGNORECASE)


@rule(
    "RANK_LOST",
    "RANK_STOPPED",
    "APP_DATALOADER_STARVED",
    "APP_CHECKPOINT_STALL",
    "APP_STRAGGLER",
    "APP_COLLECTIVE_DESYNC",
    reads=("live ranks",),
)
def where_ranks_are(facts: Facts, job: Job) -> Iterator[Finding]:
    """The root of a hang is the rank that waits for nobody: dead, stopped, or busy with something else."""
    for name in dict.fromkeys(one.job for one in facts.live):
        yield from _of_job(_main_processes([one for one in facts.live if one.job == name]), facts)


def _of_job(ranks: dict[int, LiveRank], facts: Facts) -> Iterator[Finding]:
    stopped = [one for one in ranks.values() if one.state in "TtZX"]
    for one in stopped:
        yield found(
            "RANK_STOPPED",
            [one],
            subject=_subject(one),
            because=Message.of("doctor.live_stopped", rank=one.rank),
        )
    world = max((one.world or 0 for one in ranks.values()), default=0)
    gone = [rank for rank in range(world) if rank not in ranks][:64]
    if gone:
        subject = Subject("rank", str(gone[0])) if len(gone) == 1 else CLUSTER
        silent = facts.all("live.no_answer")
        proof: list[Proof] = [*silent[:2], *list(ranks.values())[:3]]
        yield found(
            "RANK_LOST",
            proof,
            subject=subject,
            sure=0.8 if len(gone) == 1 and not silent else POSSIBLE,
            because=Message.of("doctor.live_gone", ranks=", ".join(map(str, gone)), world=world),
        )
    seen = [one for one in ranks.values() if one.frames and one not in stopped]
    away = [one for one in seen if not waits(one)]
    if stopped or gone or len(away) * 2 > len(seen):
        return
    if not away:
        yield from _in_another(seen)
    for one in away:
        code, sure = _doing(one)
        place = (one.file, one.line, f"{one.text}: {' < '.join(one.frames[:4])}")
        yield found(
            code,
            [place],
            sure=sure,
            subject=_subject(one),
            because=Message.of(
                "doctor.live_elsewhere", rank=one.rank, frame=one.frames[0], n=len(seen) - len(away)
            ),
        )


def _in_another(seen: Sequence[LiveRank]) -> Iterator[Finding]:
    """All wait, and one of them in a collective of another type than all others."""
    calls: dict[str, list[LiveRank]] = {}
    for one in seen:
        frame = next(frame for frame in one.frames[:12] if _TYPED.match(frame) or _COLLECTIVE.match(frame))
        typed = next((f for f in one.frames[:12] if _TYPED.match(f)), frame)
        calls.setdefault(typed.split(" ")[0], []).append(one)
    alone = [(call, ranks[0]) for call, ranks in calls.items() if len(ranks) == 1]
    if len(calls) == 2 and len(alone) == 1 and len(seen) >= 3:
        call, one = alone[0]
        message = Message.of("doctor.live_elsewhere", rank=one.rank, frame=call, n=len(seen) - 1)
        yield found("APP_COLLECTIVE_DESYNC", [one], sure=LIKELY, subject=_subject(one), because=message)


def _main_processes(live: Sequence[LiveRank]) -> dict[int, LiveRank]:
    """One process a rank: the one whose parent is not of that rank, too (loader workers inherit it)."""
    pids = {(one.file, one.pid): one.rank for one in live}
    ranks: dict[int, LiveRank] = {}
    for one in live:
        if pids.get((one.file, one.parent)) != one.rank:
            ranks.setdefault(one.rank, one)
    return dict(sorted(ranks.items()))


def waits(one: LiveRank) -> bool:
    """Whether its stack is inside of a collective or a send or receive."""
    return any(_COLLECTIVE.match(frame) for frame in one.frames[:12])


def _doing(one: LiveRank) -> tuple[str, float]:
    for frame in one.frames:
        if _CHECKPOINT.search(frame):
            return "APP_CHECKPOINT_STALL", 0.8
        if _LOADER.search(frame):
            return "APP_DATALOADER_STARVED", 0.8
    return "APP_STRAGGLER", LIKELY


def _subject(one: LiveRank) -> Subject:
    return Subject("rank", str(one.rank))
