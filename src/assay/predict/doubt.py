"""How wrong a prediction may be: validation errors of its class, and what lies outside what was validated.

The widths come from `assay validate training --cross source`: each class's 80 % quantile of the absolute
log error on sources that the fit had not seen (docs/models/validation.md prints the table).
"""

from __future__ import annotations

import math

from assay.predict.situation import Situation

#: Class → half-width of the 80 % interval, in log.
WIDTHS: dict[str, float] = {
    "dense ampere": 0.12,
    "dense hopper": 0.08,
    "dense blackwell": 0.17,
    "small dense": 0.15,
    "sharded": 0.115,
    "experts": 0.22,
    "fine-tuning": 0.11,
}

#: Where no run of the class was measured.
UNKNOWN_WIDTH = 0.35

#: Every reason to call a prediction extrapolated multiplies the width by this, once.
EXTRAPOLATED = 1.6

#: Class → most GPUs in a validated run.
MOST_GPUS = {
    "dense ampere": 512,
    "dense hopper": 11616,
    "dense blackwell": 5120,
    "small dense": 8,
    "sharded": 2048,
    "experts": 2048,
    "fine-tuning": 1024,
}

_DEVICES = (
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "h100-sxm",
    "h200-sxm",
    "b200",
    "gb200",
    "b300",
    "gb300",
    "l40s",
)
_FAMILIES = {"ampere": "ampere", "hopper": "hopper", "blackwell": "blackwell", "blackwell-ultra": "blackwell"}

#: Stacks with runs in the validation set.
_STACKS = (
    "megatron",
    "megatron-2022",
    "megatron-deepspeed",
    "megatron-deepspeed-2022",
    "nemo",
    "mlperf",
    "megatron-bridge",
    "megatron-bridge-26.06",
    "llm-foundry",
    "internevo",
    "maxtext",
)


def class_of(one: Situation) -> str:
    """The class whose validation errors stand for this prediction's."""
    model = one.workload.model
    if model.moe_layers:
        return "experts"
    if one.workload.task != "pretrain":
        return "fine-tuning"
    if one.layout.sharding in ("zero2", "zero3"):
        return "sharded"
    if model.hidden <= 2048 and one.stack.id.startswith("megatron-deepspeed"):
        return "small dense"
    return f"dense {_FAMILIES.get(one.gpu.architecture, one.gpu.architecture)}"


def extrapolations(one: Situation) -> tuple[str, ...]:
    """Why this prediction lies outside what was validated; empty where it does not."""
    kind = class_of(one)
    reasons: list[str] = []
    if kind not in WIDTHS:
        reasons.append(f"no measured run of class {kind!r}")
    most = MOST_GPUS.get(kind)
    if most is not None and one.layout.ranks > most:
        reasons.append(f"{one.layout.ranks} GPUs; the largest validated run of its class had {most}")
    if one.gpu.id not in _DEVICES:
        reasons.append(f"no measured run on {one.gpu.id}")
    if one.stack.id not in _STACKS:
        reasons.append(f"no measured run of stack {one.stack.id}")
    if one.layout.schedule == "zero-bubble":
        reasons.append("no measured run of a zero-bubble schedule")
    return tuple(reasons)


def width(one: Situation, spread: float = 0.0) -> float:
    """Half-width of the 80 % interval in log; `spread` is that of the settings marginalised over."""
    base = WIDTHS.get(class_of(one), UNKNOWN_WIDTH)
    if extrapolations(one):
        base *= EXTRAPOLATED
    return math.hypot(base, 1.28 * spread)
