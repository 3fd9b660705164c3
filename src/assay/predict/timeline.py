"""The pipeline of one step as a timeline: which micro-batch and chunk runs on which stage, and when.

Orders are Megatron's 1F1B and interleaved 1F1B. Start times follow from two rules: a stage does one thing
at a time, in its order; a pass starts after the pass it depends on and one send.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import InputError

#: More passes than this make a file that viewers open slowly.
MOST_PASSES = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A forward (or backward) of one micro-batch through one chunk of one stage."""

    stage: int
    chunk: int
    micro_batch: int
    forward: bool
    start_s: float
    end_s: float


def pipeline(
    *, pp: int, vpp: int, micro_batches: int, forward_s: float, backward_s: float, send_s: float = 0.0
) -> list[Pass]:
    """Passes of a step whose stage takes `forward_s` and `backward_s` a micro-batch over all its chunks.

    Raises `InputError` where an interleaved schedule's micro-batches are no multiple of the stages.
    """
    if vpp > 1 and micro_batches % pp:
        raise InputError(f"{micro_batches} micro-batches are no multiple of pp = {pp}, as interleaving needs")
    if 2 * pp * vpp * micro_batches > MOST_PASSES:
        raise InputError(f"{2 * pp * vpp * micro_batches} passes; a timeline shows at most {MOST_PASSES}")
    orders = [_order(stage, pp, vpp, micro_batches) for stage in range(pp)]
    return _run(orders, pp, vpp, forward_s / vpp, backward_s / vpp, send_s)


def _order(stage: int, pp: int, vpp: int, m: int) -> list[tuple[bool, int, int]]:
    """(forward, chunk, micro-batch) in the order in which a stage does them."""
    total = m * vpp
    if vpp == 1:
        warm = min(pp - stage - 1, m)
    else:
        warm = total if m == pp else min((pp - stage - 1) * 2 + (vpp - 1) * pp, total)
    forwards = [_step_of(i, pp, vpp, forward=True) for i in range(total)]
    backwards = [_step_of(i, pp, vpp, forward=False) for i in range(total)]
    order = [(True, *one) for one in forwards[:warm]]
    for i in range(total - warm):
        order += [(True, *forwards[warm + i]), (False, *backwards[i])]
    return order + [(False, *one) for one in backwards[total - warm :]]


def _step_of(i: int, pp: int, vpp: int, *, forward: bool) -> tuple[int, int]:
    """Chunk and micro-batch of a stage's i-th pass: groups of pp micro-batches, chunk by chunk."""
    if vpp == 1:
        return 0, i
    group, within = divmod(i, pp * vpp)
    chunk, offset = divmod(within, pp)
    return (chunk if forward else vpp - 1 - chunk), group * pp + offset


def _run(
    orders: list[list[tuple[bool, int, int]]],
    pp: int,
    vpp: int,
    forward_s: float,
    backward_s: float,
    send_s: float,
) -> list[Pass]:
    done: dict[tuple[bool, int, int, int], float] = {}
    at = [0] * pp
    free = [0.0] * pp
    passes: list[Pass] = []
    while any(at[s] < len(orders[s]) for s in range(pp)):
        moved = False
        for stage in range(pp):
            while at[stage] < len(orders[stage]):
                forward, chunk, mb = orders[stage][at[stage]]
                needs = _needs(stage, chunk, forward, pp, vpp)
                if needs is not None and (*needs, mb) not in done:
                    break
                ready = 0.0
                if needs is not None:
                    wire = 0.0 if needs[1] == stage else send_s
                    ready = done[(*needs, mb)] + wire
                start = max(ready, free[stage])
                end = start + (forward_s if forward else backward_s)
                free[stage] = end
                done[forward, stage, chunk, mb] = end
                passes.append(
                    Pass(stage=stage, chunk=chunk, micro_batch=mb, forward=forward, start_s=start, end_s=end)
                )
                at[stage] += 1
                moved = True
        if not moved:
            raise InputError("the pipeline's order waits for itself; this schedule cannot run")
    return passes


def _needs(stage: int, chunk: int, forward: bool, pp: int, vpp: int) -> tuple[bool, int, int] | None:
    """The pass before this one on the way: (forward, stage, chunk)."""
    if forward:
        if stage > 0:
            return (True, stage - 1, chunk)
        return (True, pp - 1, chunk - 1) if chunk > 0 else None
    if stage < pp - 1:
        return (False, stage + 1, chunk)
    return (False, 0, chunk + 1) if chunk < vpp - 1 else (True, pp - 1, vpp - 1)


def trace_events(passes: list[Pass], *, name: str, tail: dict[str, float]) -> dict[str, object]:
    """Chrome's trace format (Perfetto opens it): a track a stage, and what follows the pipeline."""
    events: list[dict[str, object]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}},
    ]
    stages = 1 + max((one.stage for one in passes), default=0)
    events += [
        {"ph": "M", "pid": 0, "tid": s, "name": "thread_name", "args": {"name": f"stage {s}"}}
        for s in range(stages)
    ]
    for one in passes:
        way = "forward" if one.forward else "backward"
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": one.stage,
                "name": f"{'F' if one.forward else 'B'}{one.micro_batch}"
                + (f".{one.chunk}" if one.chunk else ""),
                "cat": way,
                "ts": one.start_s * 1e6,
                "dur": (one.end_s - one.start_s) * 1e6,
                "args": {"micro_batch": one.micro_batch, "chunk": one.chunk},
            }
        )
    at = max((one.end_s for one in passes), default=0.0)
    for term, seconds in tail.items():
        if seconds <= 0:
            continue
        events += [
            {"ph": "X", "pid": 0, "tid": s, "name": term, "cat": "step", "ts": at * 1e6, "dur": seconds * 1e6}
            for s in range(stages)
        ]
        at += seconds
    return {"traceEvents": events, "displayTimeUnit": "ms"}
