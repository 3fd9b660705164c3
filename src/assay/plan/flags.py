"""A layout in the words of each framework, ready to paste; or why that framework cannot run it.

Flag names were read in Megatron-LM (training/arguments.py, 2025-26), Megatron-Bridge's mapping of those to
its configuration, torchtitan's job configuration, DeepSpeed's configuration reference, and Accelerate's FSDP2
guide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from assay.domain.layout import Layout
from assay.domain.message import Message
from assay.domain.workload import Transformer, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What to paste for one framework, in `language`; `why_not` where it cannot run the layout."""

    framework: str
    language: str
    text: str = ""
    why_not: Message | None = None


def flags(layout: Layout, workload: Workload, global_batch: int) -> tuple[Flags, ...]:
    """The layout for Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed and FSDP (through Accelerate)."""
    return (
        _megatron(layout, workload, global_batch),
        _bridge(layout, workload, global_batch),
        _titan(layout, workload, global_batch),
        _deepspeed(layout, global_batch),
        _fsdp(layout),
    )


_FSDP_STRATEGY = {"zero2": "optim_grads", "zero3": "optim_grads_params"}
_FP8_RECIPE = {"fp8": "delayed", "fp8-current": "tensorwise", "fp8-block": "blockwise", "mxfp8": "mxfp8"}


def _megatron(layout: Layout, workload: Workload, global_batch: int) -> Flags:
    why = _megatron_cannot(layout)
    if why:
        return Flags(framework="Megatron-LM", language="sh", why_not=why)
    words = [
        f"--tensor-model-parallel-size {layout.tp}",
        f"--pipeline-model-parallel-size {layout.pp}",
        f"--context-parallel-size {layout.cp}",
        f"--micro-batch-size {layout.micro_batch}",
        f"--global-batch-size {global_batch}",
        f"--seq-length {workload.seq_len}",
        "--bf16" if layout.precision != "fp16" else "--fp16",
    ]
    if layout.sp and layout.tp > 1:
        words.append("--sequence-parallel")
    if layout.vpp > 1:
        words.append(f"--num-virtual-stages-per-pipeline-rank {layout.vpp}")
    if ends_count(layout, workload.model):
        words += ["--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"]
    if workload.model.moe_layers:
        words += [
            f"--expert-model-parallel-size {layout.ep}",
            f"--expert-tensor-parallel-size {layout.etp}",
        ]
    if layout.shard_ranks:
        words.append(f"--num-distributed-optimizer-instances {_copies(layout)}")
    words += _megatron_sharding(layout) + _megatron_recompute(layout) + _megatron_precision(layout)
    return Flags(framework="Megatron-LM", language="sh", text=" \\\n".join(words))


def _copies(layout: Layout) -> int:
    """Groups of ranks that each hold a whole copy of what is sharded (HSDP)."""
    return layout.dp * layout.cp // layout.shard_ranks if layout.shard_ranks else 1


def _megatron_cannot(layout: Layout) -> Message | None:
    if layout.schedule == "zero-bubble":
        return Message.of("plan.flags.no_zero_bubble")
    if layout.pp > 1 and layout.sharding in _FSDP_STRATEGY:
        return Message.of("plan.flags.no_fsdp_with_pp", text=layout.sharding)
    if layout.vpp > 1 and layout.pp == 1:
        return Message.of("plan.flags.no_vpp")
    return None


def _megatron_sharding(layout: Layout) -> list[str]:
    if layout.sharding == "zero1":
        return ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if layout.sharding in _FSDP_STRATEGY:
        strategy = _FSDP_STRATEGY[layout.sharding]
        return [
            "--use-distributed-optimizer",
            "--use-megatron-fsdp",
            f"--data-parallel-sharding-strategy {strategy}",
        ]
    return ["--overlap-grad-reduce"]


def _megatron_recompute(layout: Layout) -> list[str]:
    if layout.recompute == "full":
        return ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    return ["--recompute-granularity selective"] if layout.recompute == "selective" else []


def _megatron_precision(layout: Layout) -> list[str]:
    if layout.precision == "nvfp4":
        return ["--fp4-format e2m1", "--fp4-recipe nvfp4"]
    recipe = _FP8_RECIPE.get(layout.precision)
    return (
        [f"--fp8-format {'e4m3' if recipe == 'mxfp8' else 'hybrid'}", f"--fp8-recipe {recipe}"]
        if recipe
        else []
    )


def ends_count(layout: Layout, model: Transformer) -> bool:
    """Whether the layers are cut evenly only when embedding and head count as a layer each."""
    return layout.pp > 1 and model.layers % (layout.pp * layout.vpp) != 0


def _bridge(layout: Layout, workload: Workload, global_batch: int) -> Flags:
    why = _megatron_cannot(layout)
    if why:
        return Flags(framework="Megatron-Bridge", language="sh", why_not=why)
    said: dict[str, object] = {
        "model.tensor_model_parallel_size": layout.tp,
        "model.pipeline_model_parallel_size": layout.pp,
        "model.virtual_pipeline_model_parallel_size": layout.vpp if layout.vpp > 1 else "null",
        "model.context_parallel_size": layout.cp,
        "model.sequence_parallel": layout.sp and layout.tp > 1,
        "model.seq_length": workload.seq_len,
        "train.micro_batch_size": layout.micro_batch,
        "train.global_batch_size": global_batch,
        "ddp.use_distributed_optimizer": layout.sharding != "none",
    }
    if layout.shard_ranks:
        said["ddp.num_distributed_optimizer_instances"] = _copies(layout)
    if ends_count(layout, workload.model):
        said |= {
            "model.account_for_embedding_in_pipeline_split": True,
            "model.account_for_loss_in_pipeline_split": True,
        }
    if workload.model.moe_layers:
        said |= {
            "model.expert_model_parallel_size": layout.ep,
            "model.expert_tensor_parallel_size": layout.etp,
        }
    if layout.sharding in _FSDP_STRATEGY:
        strategy = _FSDP_STRATEGY[layout.sharding]
        said |= {"ddp.use_megatron_fsdp": True, "ddp.data_parallel_sharding_strategy": strategy}
    if layout.recompute != "none":
        said["model.recompute_granularity"] = layout.recompute
    if layout.recompute == "full":
        said |= {"model.recompute_method": "uniform", "model.recompute_num_layers": 1}
    said["mixed_precision"] = _BRIDGE_PRECISION[layout.precision]
    lines = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in said.items()
    ]
    return Flags(framework="Megatron-Bridge", language="sh", text=" \\\n".join(lines))


_BRIDGE_PRECISION = {
    "fp16": "fp16_mixed",
    "bf16": "bf16_mixed",
    "fp8": "bf16_with_fp8_delayed_scaling_mixed",
    "fp8-current": "bf16_with_fp8_current_scaling_mixed",
    "fp8-block": "bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
_TITAN_PRECISION = {
    "fp8": "quantize.linear.float8",
    "fp8-current": "quantize.linear.float8",
    "mxfp8": "quantize.linear.mx",
}


def _titan(layout: Layout, workload: Workload, global_batch: int) -> Flags:
    why = None
    if layout.sharding == "zero1" and layout.dp * layout.cp > 1:
        why = Message.of("plan.flags.no_zero1", text="zero1")
    elif layout.precision not in ("bf16", *_TITAN_PRECISION):
        why = Message.of("plan.flags.no_precision", text=layout.precision)
    elif layout.dp % _copies(layout):
        why = Message.of("plan.flags.no_shard_ranks", text=str(layout.shard_ranks), dp=layout.dp)
    if why:
        return Flags(framework="torchtitan", language="toml", why_not=why)
    whole = layout.sharding == "none"
    reshard = "always" if layout.sharding == "zero3" else "never"
    # A stage's micro-batches are cut from the local batch, which is all sequences of a replica.
    local = layout.micro_batch if layout.pp == 1 else global_batch // layout.dp
    lines = [
        "[parallelism]",
        f"data_parallel_replicate_degree = {layout.dp if whole else _copies(layout)}",
        f"data_parallel_shard_degree = {1 if whole else layout.dp // _copies(layout)}",
        f'fsdp_reshard_after_forward = "{reshard}"',
        f"tensor_parallel_degree = {layout.tp}",
        f"context_parallel_degree = {layout.cp}",
        f"pipeline_parallel_degree = {layout.pp}",
    ]
    if layout.pp > 1:
        lines += [
            f'pipeline_parallel_schedule = "{_titan_schedule(layout)}"',
            f"pipeline_parallel_microbatch_size = {layout.micro_batch}",
            f"pipeline_parallel_layers_per_stage = {-(-workload.model.layers // (layout.pp * layout.vpp))}",
        ]
    if workload.model.moe_layers:
        lines += [f"expert_parallel_degree = {layout.ep}", f"expert_tensor_parallel_degree = {layout.etp}"]
    lines += [
        "",
        "[training]",
        f"local_batch_size = {local}",
        f"global_batch_size = {global_batch}",
        f"seq_len = {workload.seq_len}",
        "",
        "[activation_checkpoint]",
        f'mode = "{layout.recompute}"',
    ]
    if layout.precision in _TITAN_PRECISION:
        lines += ["", "[model]", f'converters = ["{_TITAN_PRECISION[layout.precision]}"]']
    return Flags(framework="torchtitan", language="toml", text="\n".join(lines))


def _titan_schedule(layout: Layout) -> str:
    if layout.schedule == "zero-bubble":
        return "InterleavedZeroBubble"
    return "Interleaved1F1B" if layout.vpp > 1 else "1F1B"


def _deepspeed(layout: Layout, global_batch: int) -> Flags:
    stage = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}[layout.sharding]
    why = None
    if layout.pp > 1 and stage >= 2:
        why = Message.of("plan.flags.no_fsdp_with_pp", text=layout.sharding)
    elif layout.vpp > 1 or layout.schedule == "zero-bubble":
        why = Message.of("plan.flags.no_interleaving")
    elif layout.shard_ranks:
        why = Message.of("plan.flags.no_shard_ranks", text=str(layout.shard_ranks), dp=layout.dp)
    elif layout.cp > 1 or layout.ep > 1:
        why = Message.of("plan.flags.no_cp", text=f"cp = {layout.cp}, ep = {layout.ep}")
    elif layout.precision not in ("bf16", "fp16"):
        why = Message.of("plan.flags.no_precision", text=layout.precision)
    if why:
        return Flags(framework="DeepSpeed", language="json", why_not=why)
    config: dict[str, object] = {
        "train_batch_size": global_batch,
        "train_micro_batch_size_per_gpu": layout.micro_batch,
        "gradient_accumulation_steps": layout.micro_batches(global_batch),
        layout.precision: {"enabled": True},
        "zero_optimization": {"stage": stage, "overlap_comm": True, "contiguous_gradients": True},
    }
    if layout.tp > 1:
        config["tensor_parallel"] = {"autotp_size": layout.tp}
    if layout.pp > 1:
        config["pipeline"] = {"stages": layout.pp}
    if layout.recompute != "none":
        config["activation_checkpointing"] = {"partition_activations": False, "cpu_checkpointing": False}
    return Flags(framework="DeepSpeed", language="json", text=json.dumps(config, indent=2))


def _fsdp(layout: Layout) -> Flags:
    why = None
    if layout.pp > 1:
        why = Message.of("plan.flags.no_pp", pp=layout.pp)
    elif layout.sharding not in ("zero2", "zero3"):
        why = Message.of("plan.flags.no_zero1", text=layout.sharding)
    elif layout.ep > 1:
        why = Message.of("plan.flags.no_cp", text=f"ep = {layout.ep}")
    elif layout.precision not in ("bf16", "fp16"):
        why = Message.of("plan.flags.no_precision", text=layout.precision)
    elif layout.dp % _copies(layout):
        why = Message.of("plan.flags.no_shard_ranks", text=str(layout.shard_ranks), dp=layout.dp)
    if why:
        return Flags(framework="FSDP (Accelerate)", language="yaml", why_not=why)
    lines = [
        "distributed_type: FSDP",
        f"mixed_precision: {layout.precision}",
        f"num_processes: {layout.ranks}",
        "fsdp_config:",
        "  fsdp_version: 2",
        f"  fsdp_reshard_after_forward: {str(layout.sharding == 'zero3').lower()}",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        f"  fsdp_activation_checkpointing: {str(layout.recompute == 'full').lower()}",
        "  fsdp_state_dict_type: SHARDED_STATE_DICT",
    ]
    if layout.tp > 1 or layout.cp > 1 or layout.shard_ranks:
        lines += [
            "parallelism_config:",
            f"  parallelism_config_dp_replicate_size: {_copies(layout)}",
            f"  parallelism_config_dp_shard_size: {layout.dp // _copies(layout)}",
            f"  parallelism_config_tp_size: {layout.tp}",
            f"  parallelism_config_cp_size: {layout.cp}",
        ]
    return Flags(framework="FSDP (Accelerate)", language="yaml", text="\n".join(lines))
