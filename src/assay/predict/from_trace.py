"""A step on N nodes from a trace of one: its kernels and host gaps stay, its collectives are replaced.

The trace is replayed on two clocks. While the device computes, or idles for no collective, both go on alike;
while it waits for a collective, the new clock waits for the new one. A collective blocks where it ended while
nothing computed; one that was hidden blocks where its result is due: a gather when the next gather of its
group begins, gradients when the optimizer does. Formulas and limits: docs/models/from-trace.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from assay.errors import InputError
from assay.formats.kineto_steps import Call, TracedSteps
from assay.predict.network import Network
from assay.predict.physics import FITTED
from assay.predict.prediction import Interval
from assay.predict.step import waiting

#: The range of a predicted collective over its value, as the network's own validation has it.
NETWORK_RANGE = (0.75, 1.35)
#: Kernels and gaps of another run of the same job differ by this, to either side.
REPEAT_FRAC = 0.03
_TIMED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast", "reduce")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePrediction:
    """One step on so many ranks. `breakdown_s` adds up to the step; `measured_s` is the traced step.

    `replayed_s` is the traced job itself with its collectives predicted: what the replacement is worth.
    """

    step_time_s: Interval
    breakdown_s: dict[str, float]
    measured_s: float
    measured_breakdown_s: dict[str, float]
    replayed_s: float
    world: int
    ranks: int
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Seconds of all steps: computing, idle for no collective, and waiting by kind of collective."""

    compute_s: float
    gaps_s: float
    waits_s: dict[str, float]

    @property
    def total_s(self) -> float:
        """The whole."""
        return self.compute_s + self.gaps_s + sum(self.waits_s.values())


def predict_from_trace(
    traced: TracedSteps,
    network: Network,
    *,
    node_ranks: int,
    nodes: int,
    shard_ranks: int = 0,
    home: Network | None = None,
) -> TracePrediction:
    """The traced job on `nodes` of `node_ranks`, its batch grown with them.

    `network` is that of the larger job, `home` that of the traced one (None: the same). `shard_ranks` keeps
    shards within groups of so many ranks and sums gradients across them (HSDP). Raises `InputError` where the
    trace does not tell the size of a collective, or the ranks do not multiply out.
    """
    _require_sizes(traced)
    grown, rest = divmod(nodes * node_ranks, traced.world)
    if rest or not grown:
        raise InputError(
            f"{nodes} nodes of {node_ranks} GPUs are {nodes * node_ranks} ranks, no multiple of the "
            f"{traced.world} that were traced",
            where=traced.file,
            fix="give another --nodes",
        )
    if grown > 1 and not any(call.op in _TIMED for call in traced.calls):
        raise InputError(
            f"the trace holds no collective, so it does not tell what {nodes * node_ranks} ranks exchange",
            where=traced.file,
            fix="trace two ranks or more; over Gloo one rank of DistributedDataParallel tells it too",
        )
    assumed = [] if traced.launch_s is not None or grown == 1 else [_CORES]
    groups = {call: _grown(call, traced, grown, shard_ranks, assumed) for call in traced.calls}

    def there(call: Call, factor: float = 1.0) -> float:
        return factor * sum(_time_s(network, part) for part in groups[call])

    def name(call: Call) -> str:
        return f"{call.op} over {max((part.ranks for part in groups[call]), default=call.ranks)}"

    ranks = traced.world * grown
    terms = _terms(replay(traced, there, name), traced.steps)
    # More ranks wait for the slowest of more; the trace holds the waiting of its own.
    later = (float(waiting(np.array(float(count)), FITTED.jitter_frac)) for count in (ranks, traced.world))
    jitter = next(later) - next(later)
    terms["jitter"] = sum(terms.values()) * jitter
    low, high = (
        replay(traced, lambda call, factor=factor: there(call, factor)).total_s / traced.steps * (1 + jitter)  # type: ignore[misc]
        for factor in NETWORK_RANGE
    )
    same = replay(traced, lambda call: _time_s(home or network, _as_traced(call)))
    own_time = replay(traced, lambda call: call.end_s - call.start_s)
    return TracePrediction(
        step_time_s=Interval(
            value=sum(terms.values()), low=low * (1 - REPEAT_FRAC), high=high * (1 + REPEAT_FRAC)
        ),
        breakdown_s=terms,
        measured_s=traced.step_s,
        measured_breakdown_s=_terms(own_time, traced.steps),
        replayed_s=same.total_s / traced.steps,
        world=traced.world,
        ranks=ranks,
        assumptions=tuple(dict.fromkeys((*_ASSUMED, *assumed))),
    )


_CORES = "without a GPU: each rank has as many cores to itself as the traced one had"
_ASSUMED = (
    "each rank does what it did in the trace: the batch grows with the nodes",
    "an optimizer whose state is sharded gets no faster",
)


def _require_sizes(traced: TracedSteps) -> None:
    silent = [call for call in traced.calls if call.bytes is None and call.op in _TIMED and call.ranks > 1]
    if silent:
        raise InputError(
            f"the trace does not tell the size of its collectives ({len(silent)} of {len(traced.calls)})",
            where=traced.file,
            fix="profile with torch 2.1 or newer; on CPUs with record_shapes=True",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One collective to be timed."""

    op: str
    bytes: float
    ranks: int
    stride: int


def _as_traced(call: Call) -> _Part:
    stride = call.members[1] - call.members[0] if len(call.members) > 1 else 1
    return _Part(op=call.op, bytes=call.bytes or 0.0, ranks=call.ranks, stride=stride)


def _grown(
    call: Call, traced: TracedSteps, grown: int, shard_ranks: int, assumed: list[str]
) -> tuple[_Part, ...]:
    """The collectives that stand for this one in the larger job.

    Groups of all ranks, and those whose ranks lie apart, are data-parallel and grow; neighbours share a model
    and stay.
    """
    one = _as_traced(call)
    inner = one.ranks < traced.world and one.stride == 1
    if inner and not call.members:
        assumed.append(f"groups of {one.ranks} of {traced.world} ranks share a model and stay as they are")
    if grown == 1 or inner or one.op in ("all_to_all", "send_recv"):
        return (one,)
    if not shard_ranks or one.op not in ("all_gather", "reduce_scatter"):
        return (replace(one, ranks=one.ranks * grown),)
    whole = one.ranks * grown
    if whole % shard_ranks:
        raise InputError(f"shards over {shard_ranks} ranks do not divide the {whole} data-parallel ranks")
    kept = replace(one, ranks=shard_ranks)
    if one.op == "all_gather":
        return (kept,)
    across = _Part(
        op="all_reduce",
        bytes=one.bytes / shard_ranks,
        ranks=whole // shard_ranks,
        stride=one.stride * shard_ranks,
    )
    return (kept, across)


def _time_s(network: Network, part: _Part) -> float:
    if part.ranks < 2 or part.op not in _TIMED:
        return 0.0
    return network.time_s(part.op, part.bytes, part.ranks, part.stride).item()


def _terms(one: Replay, steps: int) -> dict[str, float]:
    terms = {"compute": one.compute_s / steps, "host_gaps": one.gaps_s / steps}
    return terms | {name: seconds / steps for name, seconds in sorted(one.waits_s.items())}


def _name(call: Call) -> str:
    return f"{call.op} over {call.ranks}"


def replay(
    traced: TracedSteps, duration: Callable[[Call], float], name: Callable[[Call], str] = _name
) -> Replay:
    """The trace with other durations of its collectives; with their own it takes exactly its own time."""
    computes, last, now = False, traced.start_s, 0.0
    compute = gaps = idle = 0.0
    waits: dict[str, float] = defaultdict(float)
    free: dict[str, float] = {}
    ends: dict[int, float] = {}
    awaited: set[int] = set()
    for mark in _marks(traced):
        span, last = mark.at_s - last, mark.at_s
        if computes:
            compute, now = compute + span, now + span
        elif awaited:
            idle += span
        else:
            gaps, now = gaps + span, now + span
        if mark.kind in (_ON, _OFF):
            computes = mark.kind == _ON
            continue
        call = traced.calls[mark.index]
        if mark.kind == _BEGIN:
            # What begins while another is awaited was launched meanwhile, not at the end of the wait.
            begin = max(now + idle, free.get(call.stream, 0.0))
            ends[mark.index] = free[call.stream] = begin + duration(call)
            continue
        if mark.kind == _WAIT:
            awaited.add(mark.index)
            continue
        awaited.discard(mark.index)
        clock, late = now + idle, ends[mark.index] - now
        if late > 0:
            waits[name(call)] += late
            now = ends[mark.index]
        idle = max(0.0, clock - now) if awaited else 0.0
    return Replay(compute_s=compute, gaps_s=gaps, waits_s=dict(waits))


#: Kinds of mark in the order in which those of one moment count.
_OFF, _WAIT, _DUE, _BEGIN, _ON = range(5)


@dataclass(frozen=True, slots=True, order=True)
class _Mark:
    """A moment of the trace: the device begins or ends computing; a collective begins, is awaited, is due."""

    at_s: float
    kind: int
    index: int = 0


def _marks(traced: TracedSteps) -> list[_Mark]:
    found = [_Mark(traced.end_s, _OFF)]
    for begin, end in traced.busy:
        found += [_Mark(begin, _ON), _Mark(end, _OFF)]
    for index, (due, awaited) in enumerate(_due(traced)):
        found += [_Mark(traced.calls[index].start_s, _BEGIN, index), _Mark(due, _DUE, index)]
        if awaited is not None:
            found.append(_Mark(awaited, _WAIT, index))
    return sorted(found)


def _due(traced: TracedSteps) -> list[tuple[float, float | None]]:
    """When each collective's result is needed; and, where it ended while nothing computed, since when."""
    starts = np.array([begin for begin, _ in traced.busy])
    ends = np.array([end for _, end in traced.busy])
    updates = np.array(traced.optimizer_s)
    gathers: dict[tuple[str, int], list[float]] = defaultdict(list)
    for call in traced.calls:
        if call.op == "all_gather":
            gathers[call.stream, call.ranks].append(call.start_s)
    found: list[tuple[float, float | None]] = []
    for call in traced.calls:
        at = int(np.searchsorted(starts, call.end_s, side="left")) - 1
        if at < 0 or call.end_s >= ends[at]:
            found.append((call.end_s, max(call.start_s, float(ends[at]) if at >= 0 else call.start_s)))
            continue
        later = [begin for begin in gathers[call.stream, call.ranks] if begin >= call.end_s]
        after = updates[updates >= call.end_s]
        due = float(after[0]) if after.size else traced.end_s
        found.append((min(due, later[0]) if call.op == "all_gather" and later else due, None))
    return found
