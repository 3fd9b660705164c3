"""The training log itself: a loss that jumps, and what may have made it jump.

In synchronous training every rank waits for every other, so a delay changes when a step ends and never what
it computes. A slow step beside a jump of the loss is told as a coincidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from statistics import median

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, Proof, found, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.formats.training_log import Step

#: Steps before the jump that say what is usual, and how many of them there must be.
_BEFORE, _LEAST = 60, 12
#: A jump is this many times the usual step-to-step change, and this share of the level, and stays or returns.
_TIMES, _SHARE = 8.0, 0.15
#: How far before the jump its cause is looked for, in lines of the log.
_NEAR_LINES = 60
_SLOW = 1.5
_CORRUPTING_XIDS = (48, 63, 64, 92, 94, 95, 140)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Where the loss left its course: the step before it, and the first that is off."""

    before: Step
    after: Step


@rule("APP_LOSS_SPIKE", reads=("training log", "torch log"))
def not_a_number(facts: Facts, job: Job) -> Iterator[Finding]:
    """A framework that stops at a gradient that is not a number, or a loss that is none from early on."""
    logs: dict[str, list[Step]] = {}
    for step in facts.steps:
        logs.setdefault(step.file, []).append(step)
    early = [
        _place(next(s for s in steps if s.loss is not None and isnan(s.loss)))
        for steps in logs.values()
        if first_jump(steps) is None and any(s.loss is not None and isnan(s.loss) for s in steps)
    ]
    stopped = facts.all("train.nan")
    if early or (stopped and not any(map(first_jump, logs.values()))):
        because = Message("doctor.not_a_number")
        yield found("APP_LOSS_SPIKE", [*early, *stopped], sure=0.6, because=because)


@rule("APP_LOSS_SPIKE", reads=("training log",))
def loss_spike(facts: Facts, job: Job) -> Iterator[Finding]:
    """A jump of the loss with what stands before it: restart, overflow, rate, data, bad memory."""
    logs: dict[str, list[Step]] = {}
    for step in facts.steps:
        if step.loss is not None:
            logs.setdefault(step.file, []).append(step)
    for steps in logs.values():
        jump = first_jump(steps)
        if jump is not None:
            yield _told(jump, steps, facts)


#: A long step takes this many times the usual; so many of so many steps are no chance. Bounds of ours.
_LONG, _LONG_STEPS, _TIMED_STEPS = 2.0, 3, 12


@rule("STEP_SPIKES", "APP_CHECKPOINT_STALL", reads=("training log",))
def long_steps(facts: Facts, job: Job) -> Iterator[Finding]:
    """Steps that take far longer than the others, again and again; beside a save it is the save."""
    logs: dict[str, list[Step]] = {}
    for step in facts.steps:
        if step.step_s:
            logs.setdefault(step.file, []).append(step)
    for file, steps in logs.items():
        usual = median(s.step_s or 0.0 for s in steps)
        long = [s for s in steps[1:] if (s.step_s or 0.0) > _LONG * usual]
        if len(steps) < _TIMED_STEPS or not _LONG_STEPS <= len(long) <= len(steps) / 3:
            continue
        saves = [s.line for s in facts.all("ckpt.saving", "ckpt.saved") if s.file == file]
        beside = [s for s in long if any(abs(s.line - line) <= 3 for line in saves)]
        lost = sum((s.step_s or 0.0) - usual for s in long) / sum(s.step_s or 0.0 for s in steps)
        because = Message.of("doctor.long_steps", n=len(long), of=len(steps), usual_s=usual, lost_frac=lost)
        saving = len(beside) > len(long) / 2
        code, sure = ("APP_CHECKPOINT_STALL", LIKELY) if saving else ("STEP_SPIKES", POSSIBLE - 0.1)
        yield found(code, map(_place, long[:6]), sure=sure, because=because)


def first_jump(steps: Sequence[Step]) -> Jump | None:
    """The first step whose loss is far above the course of those before it, or not a number."""
    course: list[float] = []
    for index, now in enumerate(steps):
        loss = now.loss
        if loss is None:
            continue
        if index and now.step < steps[index - 1].step and now.step <= steps[0].step:
            course = []  # another run, from its beginning
        if len(course) >= _LEAST and (isnan(loss) or _is_off(course, loss)):
            return Jump(before=steps[index - 1], after=now)
        if not isnan(loss):
            course = [*course[-_BEFORE:], loss]
    return None


def _is_off(course: Sequence[float], loss: float) -> bool:
    """Far above the last ones, by the usual change from step to step and by the spread of all."""
    if loss - max(course[-8:]) <= _SHARE * abs(loss) / 2:
        return False
    level = median(course[-8:])
    usual = median([abs(b - a) for a, b in pairwise(course)])
    rise = loss - level
    return rise > max(_TIMES * usual, _SHARE * abs(level), 1e-3) and rise > 1.5 * (max(course) - level)


def _told(jump: Jump, steps: Sequence[Step], facts: Facts) -> Finding:
    after = jump.after
    lines: list[Proof] = [_place(jump.before), _place(after)]
    near = range(after.line - _NEAR_LINES, after.line + 1)
    resumed = [s for s in facts.all("train.resumed") if s.file == after.file and s.line in near]
    overflow = [s for s in facts.all("train.overflow") if s.file == after.file and s.line in near]
    epoch = [s for s in facts.all("train.epoch") if s.file == after.file and s.line in near]
    memory = [s for s in facts.all("gpu.xid") if s.number("xid") in _CORRUPTING_XIDS] + facts.all("cuda.ecc")
    back = [b for a, b in pairwise(steps) if b.step < a.step and b.line in near]
    values = {"step": after.step, "before": jump.before.loss, "after": after.loss}
    for why, proof, sure in (
        ("restart", [*resumed, *map(_place, back)], LIKELY),
        ("overflow", overflow, LIKELY),
        ("rate", _rate_changed(steps, after), LIKELY),
        ("data", epoch, POSSIBLE),
        ("memory", memory, POSSIBLE),
    ):
        if proof:
            because = Message(f"doctor.spike_{why}", tuple(values.items()))
            return found("APP_LOSS_SPIKE", [*lines, *proof[:3]], sure=sure, because=because)
    slow: list[Proof] = [*_slow(steps, after), *facts.all("ib.async_event", "nic.link_down")[:1]]
    because = Message("doctor.spike_delay" if slow else "doctor.spike_alone", tuple(values.items()))
    return found("APP_LOSS_SPIKE", [*lines, *slow[:2]], sure=POSSIBLE - 0.1, because=because)


def _rate_changed(steps: Sequence[Step], after: Step) -> list[Proof]:
    """The learning rate within the last steps: a factor of two between two of them."""
    rated = [s for s in steps if s.rate and 0 <= after.line - s.line <= _NEAR_LINES]
    pairs = [(a, b) for a, b in pairwise(rated) if a.rate and b.rate and not 0.5 < b.rate / a.rate < 2]
    return [_place(step) for pair in pairs[-1:] for step in pair]


def _slow(steps: Sequence[Step], after: Step) -> list[Proof]:
    """Steps near the jump that took far longer than usual."""
    times = [s.step_s for s in steps if s.step_s]
    usual = median(times) if times else 0.0
    return [
        _place(s)
        for s in steps
        if s.step_s and usual and s.step_s > _SLOW * usual and abs(s.line - after.line) <= 10
    ]


def _place(step: Step) -> tuple[str, int, str]:
    return step.file, step.line, step.text
