"""What each training framework can run: sharding beside pipelines, schedules and precisions.

Sources: Megatron-LM arguments.py and its custom FSDP guide, torchtitan's job configuration and composability
notes, DeepSpeed's pipeline documentation (ZeRO-2 and 3 do not go with pipelines), PyTorch FSDP2.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.layout import SCHEDULES, SHARDINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ability:
    """What a framework offers; `shardings_with_pp` is what goes with more than one stage.

    `interleaves_whole_rounds`: micro-batches must be a multiple of the stages where these are interleaved.
    `cuts_experts`: an expert's weights may lie on several ranks (expert tensor parallelism).
    """

    shardings: tuple[str, ...] = SHARDINGS
    shardings_with_pp: tuple[str, ...] = SHARDINGS
    schedules: tuple[str, ...] = SCHEDULES
    interleaves_whole_rounds: bool = False
    cuts_experts: bool = True
    precisions: tuple[str, ...] = ("bf16", "fp8-current", "fp8-block", "mxfp8", "nvfp4")


#: All that the predictor can compute, whoever can run it.
EVERYTHING = Ability()

_MEGATRON = Ability(
    shardings_with_pp=("none", "zero1"), schedules=("1f1b", "interleaved"), interleaves_whole_rounds=True
)
_TITAN = Ability(shardings=("none", "zero2", "zero3"), shardings_with_pp=("none", "zero2", "zero3"))
_FSDP = Ability(
    shardings=("none", "zero2", "zero3"),
    shardings_with_pp=(),
    schedules=("1f1b",),
    precisions=("bf16",),
    cuts_experts=False,
)
_DEEPSPEED = Ability(
    shardings_with_pp=("none", "zero1"), schedules=("1f1b",), precisions=("bf16",), cuts_experts=False
)

_BY_FAMILY = {
    "megatron-deepspeed": _DEEPSPEED,
    "megatron-deepspeed-2022": _DEEPSPEED,
    "deepspeed": _DEEPSPEED,
    "megatron": _MEGATRON,
    "nemo": _MEGATRON,
    "mlperf": _MEGATRON,
    "torchtitan": _TITAN,
    "fsdp": _FSDP,
    "automodel": _FSDP,
    "llm-foundry": _FSDP,
}


def ability(stack_id: str) -> Ability:
    """What the framework behind a stack can run; everything where it is not known."""
    return next((can for family, can in _BY_FAMILY.items() if stack_id.startswith(family)), EVERYTHING)
