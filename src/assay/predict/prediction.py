"""One step predicted: time with a range, where it goes, memory, and what it would take to fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from assay.domain.layout import RECOMPUTES, SHARDINGS, Layout
from assay.errors import InputError
from assay.predict.doubt import extrapolations, width
from assay.predict.memory import memory
from assay.predict.network import Network
from assay.predict.physics import FITTED, Physics
from assay.predict.situation import Situation, columns
from assay.predict.step import Steps, step_times
from assay.predict.timeline import StageTimes

#: The key of the datasheet's peak that a recipe's MFU is taken against.
_PEAK = {"fp16": "bf16", "bf16": "bf16", "fp8": "fp8", "fp8-current": "fp8", "fp8-block": "fp8"}
_PEAK |= {"mxfp8": "fp8", "nvfp4": "fp4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and its 80 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a rank sends: `send_bytes` to another stage a micro-batch, gradients and weights so many rounds.

    Seconds are those of one round before compute hides any; what is not hidden stands in the breakdown.
    """

    send_bytes: float
    reduce_s: float
    reduce_bytes: float
    gather_s: float
    gather_bytes: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a step takes. `breakdown_s` and `memory_bytes` add up to `step_time_s.value` and `total_bytes`."""

    situation: Situation
    step_time_s: Interval
    tokens_per_s_per_gpu: float
    model_flop_per_s: float
    mfu_frac: float | None
    mfu_formula: str
    breakdown_s: dict[str, float]
    memory_bytes: dict[str, float]
    capacity_bytes: float
    stage: StageTimes
    sent: Sent
    micro_batches: int
    assumptions: tuple[str, ...]
    extrapolated: tuple[str, ...]

    @property
    def peak_dtype(self) -> str:
        """The datasheet's peak that MFU is taken against."""
        return _PEAK[self.situation.layout.precision]

    @property
    def total_bytes(self) -> float:
        """Memory of the fullest rank."""
        return sum(self.memory_bytes.values())

    @property
    def fits(self) -> bool:
        """Whether the fullest rank's memory holds it."""
        return self.total_bytes <= self.capacity_bytes

    def days(self, tokens: float) -> float:
        """Days for a token budget at this rate, without failures and evaluation."""
        layout = self.situation.layout
        return tokens / (self.tokens_per_s_per_gpu * layout.ranks) / 86400


def predict(
    one: Situation,
    network: Network,
    *,
    physics: Physics = FITTED,
    input_s: float = 0.0,
    checkpoint_s: float = 0.0,
    assumptions: tuple[str, ...] = (),
) -> Prediction:
    """The prediction for one situation on one network; `InputError` for a batch that does not divide."""
    c = columns([one])
    steps = step_times(c, network, physics, input_s=input_s, checkpoint_s=checkpoint_s)
    held = memory(c)
    value = float(steps.time_s[0])
    half = width(one)
    flop_per_s = float(steps.model_flop_per_s[0])
    key = _PEAK[one.layout.precision]
    peak = one.gpu.peak(key)
    return Prediction(
        situation=one,
        step_time_s=Interval(value=value, low=value * math.exp(-half), high=value * math.exp(half)),
        tokens_per_s_per_gpu=float(steps.tokens_per_s_per_gpu[0]),
        model_flop_per_s=flop_per_s,
        mfu_frac=None if peak is None else flop_per_s / peak,
        mfu_formula=(
            "3 × forward FLOPs (2 per matrix weight a token meets, output head included, and causal "
            f"attention over (s+1)/2 positions; nothing recomputed) / s / GPU, over the dense {key} peak"
        ),
        breakdown_s=_first(steps),
        memory_bytes={name: float(values[0]) for name, values in held.terms.items()},
        capacity_bytes=float(held.capacity_bytes[0]),
        stage=StageTimes(
            forward_s=float(steps.forward_s[0]),
            backward_s=float(steps.backward_s[0]),
            last_frac=float(steps.last_frac[0]),
            head_s=float(steps.head_s[0]),
            send_s=float(steps.send_s[0]),
        ),
        sent=_sent(steps),
        micro_batches=int(steps.micro_batches[0]),
        assumptions=(*_assumptions(one), *assumptions),
        extrapolated=extrapolations(one),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Tokens/s of so many nodes over the fewest nodes', batch in proportion; `frac` is the part of linear."""

    nodes: int
    gpus: int
    speedup: float
    frac: float


def scaling_curve(
    whole: Prediction, network_of: Callable[[int], Network], *, node_gpus: int, physics: Physics = FITTED
) -> tuple[ScalingPoint, ...]:
    """From the fewest nodes that hold a replica to the full size, doubling; empty where nothing divides."""
    one = whole.situation
    layout = one.layout
    replica = layout.tp * layout.pp * layout.cp
    dp, sizes = max(1, node_gpus // replica), []
    while dp < layout.dp:
        if _divides(one, dp):
            sizes.append(dp)
        dp *= 2
    if not sizes and layout.dp != dp:
        return ()
    rates = []
    for dp in sizes:
        small = replace(one, layout=replace(layout, dp=dp), global_batch=one.global_batch * dp // layout.dp)
        nodes = -(-replica * dp // node_gpus)
        rates.append(
            (nodes, replica * dp, predict(small, network_of(nodes), physics=physics).tokens_per_s_per_gpu)
        )
    rates.append((-(-layout.ranks // node_gpus), layout.ranks, whole.tokens_per_s_per_gpu))
    _, fewest, base = rates[0]
    return tuple(
        ScalingPoint(nodes=nodes, gpus=gpus, speedup=gpus * rate / (fewest * base), frac=rate / base)
        for nodes, gpus, rate in rates
    )


def speedup_frac(
    whole: Prediction, network_of: Callable[[int], Network], *, node_gpus: int, physics: Physics = FITTED
) -> float | None:
    """Tokens per GPU at full size over those of the fewest nodes that hold a replica, batch in proportion."""
    curve = scaling_curve(whole, network_of, node_gpus=node_gpus, physics=physics)
    return curve[-1].frac if curve else None


def _divides(one: Situation, dp: int) -> bool:
    """Whether batch, experts and shards still divide with fewer replicas."""
    layout = one.layout
    inner = layout.tp * layout.cp * dp
    return not (
        layout.dp % dp
        or one.global_batch * dp % layout.dp
        or inner % (layout.ep * layout.etp)
        or (layout.shard_ranks and (dp * layout.cp) % layout.shard_ranks)
    )


def smallest_change_that_fits(one: Situation) -> str | None:
    """The mildest of the usual remedies that makes a layout fit; None where none does on so many GPUs.

    First one change of a setting, then two, then a wider model-parallel group, least wide first.
    """
    for words, layout in _remedies(one.layout):
        try:
            model = one.workload.model
            layout.check(
                gpus=one.layout.ranks, layers=model.layers, heads=model.heads, seq_len=one.workload.seq_len
            )
            if memory(columns([replace(one, layout=layout)])).fits[0]:
                return words
        except InputError:
            continue
    return None


def require_fit(result: Prediction) -> None:
    """Raise `InputError` where memory does not fit: the largest term, and the smallest change that fits."""
    if result.fits:
        return
    name, most = max(result.memory_bytes.items(), key=lambda item: item[1])
    change = smallest_change_that_fits(result.situation)
    raise InputError(
        f"{result.total_bytes / 2**30:.1f} GiB on the fullest rank, "
        f"{result.capacity_bytes / 2**30:.1f} GiB on {result.situation.gpu.id}; "
        f"the largest term is {name} with {most / 2**30:.1f} GiB",
        fix=change or "use more model parallelism, or a GPU with more memory",
    )


def _remedies(layout: Layout) -> Iterator[tuple[str, Layout]]:
    """Changes in words, and the layouts they make; the mildest first."""
    milder = [("", layout)]
    if layout.micro_batch > 1:
        milder.append(("micro_batch=1", replace(layout, micro_batch=1)))
    harder: list[tuple[str, Layout]] = []
    for name, kinds in (("recompute", RECOMPUTES), ("sharding", SHARDINGS)):
        later = kinds[kinds.index(getattr(layout, name)) + 1 :]
        harder += [(f"{name}={kind}", replace(layout, **{name: kind})) for kind in later]  # type: ignore[arg-type]
    yield from milder[1:]
    yield from harder
    for words, changed in harder:
        if words.startswith("recompute"):
            later = SHARDINGS[SHARDINGS.index(layout.sharding) + 1 :]
            yield from ((f"{words} and sharding={kind}", replace(changed, sharding=kind)) for kind in later)
    yield from _wider(layout)


def _wider(layout: Layout) -> Iterator[tuple[str, Layout]]:
    """More tensor and pipeline ranks from fewer replicas, the least wide first, each with more recomputed."""
    sizes = [(tp, pp) for tp in (1, 2, 4, 8) for pp in (1, 2, 4, 8, 16, 32, 64)]
    whole = layout.tp * layout.pp * layout.dp
    for tp, pp in sorted(sizes, key=lambda size: (size[0] * size[1], size[1])):
        grown = tp * pp > layout.tp * layout.pp and tp >= layout.tp and pp >= layout.pp
        if not grown or whole % (tp * pp):
            continue
        degrees = (("tp", tp, layout.tp), ("pp", pp, layout.pp))
        words = [f"{name}={to}" for name, to, was in degrees if to != was]
        for kind in RECOMPUTES[RECOMPUTES.index(layout.recompute) :]:
            more = [f"recompute={kind}"] if kind != layout.recompute else []
            try:
                wider = replace(layout, tp=tp, pp=pp, dp=whole // (tp * pp), recompute=kind, shard_ranks=0)
            except InputError:
                continue
            yield " and ".join(words + more), wider


def _first(steps: Steps) -> dict[str, float]:
    return {name: float(values[0]) for name, values in steps.terms.items()}


def _sent(steps: Steps) -> Sent:
    traffic = steps.traffic
    return Sent(
        send_bytes=float(steps.send_bytes[0]),
        reduce_s=float(traffic.reduce.flat[0]),
        reduce_bytes=float(traffic.reduce_bytes.flat[0]),
        gather_s=float(traffic.gather.flat[0]),
        gather_bytes=float(traffic.gather_bytes.flat[0]),
        rounds=int(traffic.rounds.flat[0]),
    )


def _assumptions(one: Situation) -> tuple[str, ...]:
    found = [f"stack {one.stack.id}: {one.stack.name}", *one.workload.model.assumed]
    if one.workload.model.moe_layers and one.workload.imbalance == 1:
        found.append("experts are evenly loaded (public MoE figures force this); say imbalance to change it")
    if one.workload.packed_len is None:
        found.append("one document fills a sequence")
    return tuple(found)
