"""Flight-recorder dumps and profiler traces: who is missing, who is late, what the step waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, found, rule
from assay.doctor.rules.live import waits
from assay.doctor.wait_for import WaitFor, wait_for
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.kineto import Trace


@rule("APP_COLLECTIVE_DESYNC", "APP_STRAGGLER", "RANK_LOST", reads=("flight recorder",))
def dumps(facts: Facts, job: Job) -> Iterator[Finding]:
    """A mismatch names the odd ranks; without one, the root of the wait-for graph is named."""
    if not facts.dumps:
        return
    waiting = {s.rank for s in facts.all("gloo.timeout", "torch.timeout") if s.rank is not None}
    waiting |= {one.rank for one in facts.live if waits(one)}
    graph = wait_for(facts.dumps, waiting=waiting)
    place = {dump.rank: (dump.file, dump.line) for dump in facts.dumps}
    if graph.mismatch is not None:
        odd = graph.mismatch
        name, line = place[odd.odd[0]]
        text = (
            f"group {odd.group}, seq {odd.seq}: {odd.what} {odd.other[:120]} on rank {_ranks(odd.odd)}, "
            f"elsewhere {odd.usual[:120]}"
        )
        yield found(
            "APP_COLLECTIVE_DESYNC",
            [(name, line, text)],
            sure=PROVEN if odd.what != "call site" else 0.85,
            subject=_subject(odd.odd),
            because=Message.of(
                "doctor.mismatch", group=odd.group, seq=odd.seq, what=odd.what, ranks=_ranks(odd.odd)
            ),
        )
        return
    yield from _roots(graph, place, facts)


def _roots(graph: WaitFor, place: dict[int, tuple[str, int]], facts: Facts) -> Iterator[Finding]:
    if not graph.roots or not graph.waits:
        return
    proof = [
        (
            *place[w.rank],
            f"rank {w.rank} waits in {w.name} (group {w.group}, seq {w.seq}) for rank {_ranks(w.missing)}",
        )
        for w in graph.waits
        if set(w.missing) & set(graph.roots)
    ][:6]
    values = (("ranks", _ranks(graph.roots)), ("waiting", len(graph.waits)))
    if graph.absent:
        died = [s for s in facts.all("elastic.failed", "elastic.signal") if s.rank in graph.absent]
        yield found(
            "RANK_LOST",
            [*proof, *died],
            sure=PROVEN if died else 0.6 if len(graph.absent) == 1 else POSSIBLE,
            subject=_subject(graph.absent),
            because=Message("doctor.root_without_dump", values),
        )
        return
    yield found(
        "APP_COLLECTIVE_DESYNC",
        proof,
        sure=0.8 if len(graph.roots) == 1 else 0.6,
        subject=_subject(graph.roots),
        because=Message("doctor.root_waits_for_nobody", values),
    )
    yield found(
        "APP_STRAGGLER",
        proof,
        sure=POSSIBLE,
        subject=_subject(graph.roots),
        because=Message("doctor.root_waits_for_nobody", values),
    )


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:8])
    return shown if len(ranks) <= 8 else f"{shown} and {len(ranks) - 8} more"


def _subject(ranks: Sequence[int]) -> Subject:
    return Subject("rank", str(ranks[0])) if len(ranks) == 1 else CLUSTER


@rule("APP_DATALOADER_STARVED", "APP_COMPUTE_TOO_SMALL", "APP_CHECKPOINT_STALL", reads=("torch profiler",))
def where_time_goes(facts: Facts, job: Job) -> Iterator[Finding]:
    """Waiting for data, exposed communication, and checkpoints as shares of the steps."""
    for trace in facts.traces:
        if trace.span_s <= 0:
            continue
        loader, exposed, saving = (
            part / trace.span_s for part in (trace.loader_s, trace.exposed_s, trace.checkpoint_s)
        )
        subject = (
            Subject("rank", str(trace.rank)) if trace.rank is not None and len(facts.traces) > 1 else CLUSTER
        )
        if loader > 0.3:
            yield found(
                "APP_DATALOADER_STARVED",
                [_place(trace, f"{trace.loader_name}: {trace.loader_s:.3f} s of {trace.span_s:.3f} s")],
                subject=subject,
                because=Message.of("doctor.loader_share", share_frac=loader, steps=trace.steps),
            )
        if saving > 0.3:
            yield found(
                "APP_CHECKPOINT_STALL",
                [_place(trace, f"checkpoint: {trace.checkpoint_s:.3f} s of {trace.span_s:.3f} s")],
                subject=subject,
                sure=0.85,
            )
        if exposed > 0.5 and not _straggler(facts.traces):
            yield found(
                "APP_COMPUTE_TOO_SMALL",
                [_place(trace, f"collectives exposed: {trace.exposed_s:.3f} s of {trace.span_s:.3f} s")],
                subject=subject,
                sure=LIKELY,
                because=Message.of("doctor.exposed_share", share_frac=exposed, steps=trace.steps),
            )


def _place(trace: Trace, text: str) -> tuple[str, int, str]:
    return trace.file, trace.line, text


@rule("APP_STRAGGLER", reads=("torch profiler",))
def late_rank(facts: Facts, job: Job) -> Iterator[Finding]:
    """The rank that is last into the collectives spends the least time in them; often there is none."""
    late = _straggler(facts.traces)
    if late is not None:
        trace, score, lost_s = late
        yield found(
            "APP_STRAGGLER",
            [_place(trace, f"rank {trace.rank}: last in {score:.0%} of the collectives")],
            subject=Subject("rank", str(trace.rank)),
            sure=0.85 if score > 0.8 else LIKELY,
            because=Message.of("doctor.straggler", rank=trace.rank, share_frac=score, lost_s=lost_s),
        )


def _straggler(traces: Sequence[Trace]) -> tuple[Trace, float, float] | None:
    """The rank that is last in most collectives, with its share and the seconds that the others waited."""
    ranked = [t for t in traces if t.rank is not None and t.collectives_s]
    count = min((len(t.collectives_s) for t in ranked), default=0)
    if len(ranked) < 3 or count < 4:
        return None
    votes: Counter[int] = Counter()
    lost_s, judged = 0.0, 0
    for index in range(count):
        times = [t.collectives_s[index] for t in ranked]
        least = min(times)
        usual = sorted(times)[len(times) // 2]
        if usual - least > 0.1 * usual:
            votes[times.index(least)] += 1
            lost_s += usual - least
        judged += 1
    if not votes:
        return None
    who, last = votes.most_common(1)[0]
    span = min(t.span_s for t in ranked)
    if last < 0.6 * judged or lost_s < 0.05 * span:
        return None
    return ranked[who], last / judged, lost_s
