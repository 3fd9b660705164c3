"""The pipeline of one step as a timeline: which micro-batch and chunk runs on which stage, and when.

Orders are Megatron's 1F1B and interleaved 1F1B, and ZB-H1 of "Zero Bubble Pipeline Parallelism" (Qi 2023).
Start times follow from three rules: a stage does one thing at a time, in its order; a pass starts after the
pass it depends on and one send; a stage sends one thing at a time each way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from assay.errors import InputError

#: More passes than this make a file that viewers open slowly.
MOST_PASSES = 60_000

#: What a pass does. Only zero-bubble schedules take a weight's gradient apart from its input's.
FORWARD, BACKWARD, WEIGHT_GRADIENT = "forward", "backward", "weight gradient"

#: Kind, stage, chunk and micro-batch of a pass.
_Key = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """What one micro-batch takes on a stage: both ways over all its chunks, and one send to another stage.

    The last stage has `last_frac` of an inner one's layers, and the output head with its loss besides, of
    which a third is forward.
    """

    forward_s: float
    backward_s: float
    last_frac: float = 1.0
    head_s: float = 0.0
    send_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One micro-batch through one chunk of one stage.

    What it made goes to another stage's chunk `to` (stage, chunk) from `sent_s` on; None where it stays.
    """

    kind: str
    stage: int
    chunk: int
    micro_batch: int
    start_s: float
    end_s: float
    sent_s: float = 0.0
    to: tuple[int, int] | None = None


def pipeline(
    times: StageTimes, *, pp: int, vpp: int, micro_batches: int, zero_bubble: bool = False
) -> list[Pass]:
    """Passes of a step, stage by stage in the order in which they run.

    Raises `InputError` where an interleaved schedule's micro-batches are no multiple of the stages.
    """
    if vpp > 1 and micro_batches % pp:
        raise InputError(f"{micro_batches} micro-batches are no multiple of pp = {pp}, as interleaving needs")
    count = (3 if zero_bubble else 2) * pp * vpp * micro_batches
    if count > MOST_PASSES:
        raise InputError(f"{count} passes; a timeline shows at most {MOST_PASSES}")
    schedule = _Schedule(times=times, pp=pp, vpp=vpp, zero_bubble=zero_bubble and pp > 1)
    return schedule.run([_order(stage, pp, vpp, micro_batches) for stage in range(pp)])


def _order(stage: int, pp: int, vpp: int, m: int) -> list[tuple[str, int, int]]:
    """(kind, chunk, micro-batch) in the order in which a stage does them."""
    total = m * vpp
    if vpp == 1:
        warm = min(pp - stage - 1, m)
    else:
        warm = total if m == pp else min((pp - stage - 1) * 2 + (vpp - 1) * pp, total)
    forwards = [(FORWARD, *_step_of(i, pp, vpp, forward=True)) for i in range(total)]
    backwards = [(BACKWARD, *_step_of(i, pp, vpp, forward=False)) for i in range(total)]
    order = forwards[:warm]
    for i in range(total - warm):
        order += [forwards[warm + i], backwards[i]]
    return order + backwards[total - warm :]


def _step_of(i: int, pp: int, vpp: int, *, forward: bool) -> tuple[int, int]:
    """Chunk and micro-batch of a stage's i-th pass: groups of pp micro-batches, chunk by chunk."""
    if vpp == 1:
        return 0, i
    group, within = divmod(i, pp * vpp)
    chunk, offset = divmod(within, pp)
    return (chunk if forward else vpp - 1 - chunk), group * pp + offset


@dataclass(slots=True, kw_only=True)
class _Schedule:
    """Stages at work: when each is free, what has arrived where, and weight gradients still to be taken."""

    times: StageTimes
    pp: int
    vpp: int
    zero_bubble: bool
    passes: list[list[Pass]] = field(default_factory=list)
    free_s: list[float] = field(default_factory=list)
    wire_free_s: dict[tuple[int, str], float] = field(default_factory=dict)
    arrived_s: dict[_Key, float] = field(default_factory=dict)
    waiting: list[deque[tuple[int, int]]] = field(default_factory=list)

    def run(self, orders: list[list[tuple[str, int, int]]]) -> list[Pass]:
        """Let every stage do what it can until all is done."""
        self.passes = [[] for _ in orders]
        self.free_s = [0.0] * self.pp
        self.waiting = [deque() for _ in orders]
        left = [deque(order) for order in orders]
        while any(left):
            moved = False
            for stage, todo in enumerate(left):
                while todo and self._can_start((todo[0][0], stage, *todo[0][1:])):
                    kind, chunk, micro_batch = todo.popleft()
                    self._start((kind, stage, chunk, micro_batch))
                    moved = True
            if not moved:
                raise InputError("the pipeline's order waits for itself; this schedule cannot run")
        for stage, rest in enumerate(self.waiting):
            while rest:
                self._take_weight_gradient(stage)
        return [one for stage in self.passes for one in stage]

    def _can_start(self, key: _Key) -> bool:
        """Whether the pass before it has begun its send; the first chunk's forward waits for none."""
        return key[:3] == (FORWARD, 0, 0) or key in self.arrived_s

    def _start(self, key: _Key) -> None:
        """Run a pass as soon as its stage is free and its input has come, and send what it made onwards."""
        kind, stage, chunk, micro_batch = key
        ready = self.arrived_s.get(key, 0.0)
        waiting = self.waiting[stage]
        weight_s = self._lasts(WEIGHT_GRADIENT, stage, chunk)
        # Weight gradients fill a wait; a stage holds back only so many that its memory is the first stage's.
        while waiting and (len(waiting) > stage or self.free_s[stage] + weight_s <= ready):
            self._take_weight_gradient(stage)
        start = max(ready, self.free_s[stage])
        end = start + self._lasts(kind, stage, chunk)
        self.free_s[stage] = end
        if kind == BACKWARD and self.zero_bubble:
            waiting.append((chunk, micro_batch))
        onward = _onward(key, self.pp, self.vpp)
        sent_s, to = end, None
        if onward is not None and onward[1] != stage:
            sent_s, to = max(end, self.wire_free_s.get((stage, kind), 0.0)), (onward[1], onward[2])
            self.wire_free_s[stage, kind] = self.arrived_s[onward] = sent_s + self.times.send_s
        elif onward is not None:
            self.arrived_s[onward] = end
        self.passes[stage].append(
            Pass(
                kind=kind,
                stage=stage,
                chunk=chunk,
                micro_batch=micro_batch,
                start_s=start,
                end_s=end,
                sent_s=sent_s,
                to=to,
            )
        )

    def _take_weight_gradient(self, stage: int) -> None:
        chunk, micro_batch = self.waiting[stage].popleft()
        start = self.free_s[stage]
        end = self.free_s[stage] = start + self._lasts(WEIGHT_GRADIENT, stage, chunk)
        self.passes[stage].append(
            Pass(
                kind=WEIGHT_GRADIENT,
                stage=stage,
                chunk=chunk,
                micro_batch=micro_batch,
                start_s=start,
                end_s=end,
            )
        )

    def _lasts(self, kind: str, stage: int, chunk: int) -> float:
        """Seconds of a pass; the weights' gradients are half of a backward that is taken apart."""
        t = self.times
        last = stage == self.pp - 1
        forward = (t.last_frac if last else 1.0) * t.forward_s / self.vpp
        backward = (t.last_frac if last else 1.0) * t.backward_s / self.vpp
        if last and chunk == self.vpp - 1:
            forward, backward = forward + t.head_s / 3, backward + t.head_s * 2 / 3
        if kind == FORWARD:
            return forward
        return backward / 2 if self.zero_bubble else backward


def _onward(key: _Key, pp: int, vpp: int) -> _Key | None:
    """The pass that needs this one's output."""
    kind, stage, chunk, micro_batch = key
    if kind == FORWARD:
        if stage < pp - 1:
            return (FORWARD, stage + 1, chunk, micro_batch)
        return (FORWARD, 0, chunk + 1, micro_batch) if chunk < vpp - 1 else (BACKWARD, *key[1:])
    if stage > 0:
        return (BACKWARD, stage - 1, chunk, micro_batch)
    return (BACKWARD, pp - 1, chunk - 1, micro_batch) if chunk > 0 else None
