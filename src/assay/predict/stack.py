"""What a training framework fuses, overlaps and launches: named choices with a physical meaning.

A stack says nothing about how fast a kernel is. It says which kernels there are, how many passes over
memory the parts between the matrix products take, what the host spends, and which traffic may run
behind compute. Sources for each: docs/models/stacks.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.errors import InputError, unknown_name

ATTENTIONS = ("unfused", "flash1", "flash", "fused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One framework at one age. A time is what one thing costs, a fraction what is left or hidden.

    Kernels: `attention` is separate kernels with the scores in memory, the first FlashAttention (Triton,
    ALiBi), FlashAttention-2 class, or the vendor's own. `passes` multiplies the least traffic of norms,
    activations, residuals and position codes (1: all fused). `loss_passes` bytes per logit are moved by
    the loss. `fused_wgrad` adds weight gradients to their sum inside the product; `sums_in_16_bits` adds
    them in the weights' own precision, and in bf16 recipes to an fp32 sum after that, which is all-reduced.
    `moe_passes` multiplies the traffic of sorting tokens for experts.

    Host: `layer_kernels` are launched in a dense layer's forward at `launch_s` each, those of routing and
    experts at `expert_launch_s`; with `cuda_graphs` a few launches replay the dense ones. `step_s` is
    host work once a step (data, logging, optimizer launches).

    Overlap: `tp_hidden_frac` of tensor-parallel traffic runs behind the products next to it,
    `ep_hidden_frac` of expert traffic likewise. `wgrad_hides_tp` sums the gradients of a layer's inputs
    behind the product of its weights' gradient. `grads_overlap` and `params_overlap` say that gradients
    are reduced behind the backward, and weights gathered behind the forward; `pp_overlap` and
    `cp_overlap` hide sends between stages and keys and values under way.

    Traffic: `grad_bytes` per weight are reduced. `split_sends` cuts what goes to the next stage over the
    tensor ranks, `split_gradient_sends` what comes back. `deferred_head` computes weight gradients of the
    output head while the pipeline drains. `ep_once_a_node` sends a token once to each node that holds some
    of its experts (DeepEP, HybridEP). `gather_by_rank_s` is what one owner costs where updated weights are
    broadcast owner by owner, `shard_link_frac` the part of a link that sharded weights reach when they are
    gathered tensor by tensor. `fp8_weight_gather` gathers weights in one byte.

    Memory: `recomputes` says that whole layers are recomputed unless a user chooses otherwise, as the usual
    configurations of JAX do; `stops_early` that recomputing a layer ends with the last tensor that its
    backward needs, so that the last product is not repeated (PyTorch's checkpoints that are not re-entrant,
    and compilers that drop dead code). `eager_saves` says that each PyTorch operation keeps its own tensors,
    and that gradients are dropped between steps. `optimizer_bytes` per weight are read and written by an
    optimizer step.
    """

    id: str
    name: str
    attention: str = "fused"
    passes: float = 1.3
    layer_kernels: float = 25.0
    launch_s: float = 10e-6
    expert_launch_s: float = 25e-6
    cuda_graphs: bool = False
    tp_hidden_frac: float = 0.0
    wgrad_hides_tp: bool = False
    grads_overlap: bool = True
    params_overlap: bool = True
    pp_overlap: bool = True
    cp_overlap: bool = True
    ep_hidden_frac: float = 0.0
    grad_bytes: float = 4.0
    fused_wgrad: bool = True
    sums_in_16_bits: bool = False
    loss_passes: float = 16.0
    moe_passes: float = 1.0
    ep_once_a_node: bool = False
    step_s: float = 0.01
    recomputes: bool = False
    stops_early: bool = False
    eager_saves: bool = False
    optimizer_bytes: float = 30.0
    fp8_weight_gather: bool = False
    split_sends: bool = True
    split_gradient_sends: bool = True
    deferred_head: bool = False
    gather_by_rank_s: float = 0.0
    shard_link_frac: float = 1.0

    def __post_init__(self) -> None:
        if self.attention not in ATTENTIONS:
            raise unknown_name("attention", self.attention, ATTENTIONS)
        for name in ("tp_hidden_frac", "ep_hidden_frac"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"stack {self.id}: {name} = {getattr(self, name):g} is not between 0 and 1")


_MEGATRON = Stack(
    id="megatron", name="Megatron-LM / Megatron-Core", tp_hidden_frac=0.0, wgrad_hides_tp=True, launch_s=20e-6
)


_DEEPSPEED = replace(
    _MEGATRON,
    id="megatron-deepspeed",
    wgrad_hides_tp=False,
    name="Megatron-DeepSpeed",
    attention="unfused",
    passes=1.8,
    layer_kernels=35.0,
    launch_s=25e-6,
    grads_overlap=False,
    params_overlap=False,
    pp_overlap=False,
    loss_passes=56.0,
    step_s=0.003,
    fused_wgrad=False,
    sums_in_16_bits=True,
)

#: The shipped stacks, by id.
STACKS: dict[str, Stack] = {
    one.id: one
    for one in (
        _MEGATRON,
        replace(
            _MEGATRON,
            id="megatron-2020",
            wgrad_hides_tp=False,
            name="Megatron-LM 2020-2021",
            attention="unfused",
            passes=2.0,
            layer_kernels=35.0,
            grads_overlap=False,
            params_overlap=False,
            pp_overlap=False,
            fused_wgrad=False,
            grad_bytes=2.0,
            loss_passes=56.0,
            launch_s=20e-6,
        ),
        replace(
            _MEGATRON,
            id="megatron-2022",
            name="Megatron-LM 2022",
            attention="unfused",
            passes=1.4,
            layer_kernels=35.0,
            grads_overlap=False,
            params_overlap=False,
            pp_overlap=False,
            loss_passes=56.0,
            launch_s=20e-6,
        ),
        _DEEPSPEED,
        replace(
            _DEEPSPEED,
            id="megatron-deepspeed-2022",
            name="Megatron-DeepSpeed to 2022",
            split_gradient_sends=False,
        ),
        replace(_MEGATRON, id="nemo", name="NeMo 23-25", tp_hidden_frac=0.55, passes=1.2, deferred_head=True),
        replace(
            _MEGATRON,
            id="mlperf",
            deferred_head=True,
            name="NeMo as submitted to MLPerf",
            tp_hidden_frac=0.55,
            passes=1.1,
            grad_bytes=2.0,
            step_s=0.01,
            fp8_weight_gather=True,
        ),
        replace(
            _MEGATRON,
            id="megatron-bridge",
            deferred_head=True,
            name="Megatron-Bridge to 26.04",
            ep_once_a_node=True,
            tp_hidden_frac=0.55,
            passes=1.1,
            grad_bytes=2.0,
            cuda_graphs=True,
            fp8_weight_gather=True,
        ),
        replace(
            _MEGATRON,
            id="megatron-bridge-26.06",
            deferred_head=True,
            name="Megatron-Bridge from 26.06",
            ep_once_a_node=True,
            ep_hidden_frac=0.7,
            moe_passes=0.5,
            tp_hidden_frac=0.55,
            passes=1.05,
            grad_bytes=2.0,
            cuda_graphs=True,
            expert_launch_s=8e-6,
            fp8_weight_gather=True,
        ),
        replace(
            _MEGATRON,
            id="megascale",
            name="MegaScale (parallel block, fused and overlapped)",
            passes=1.0,
            tp_hidden_frac=0.8,
            grad_bytes=2.0,
        ),
        Stack(
            id="torchtitan",
            stops_early=True,
            name="torchtitan, compiled",
            attention="flash",
            passes=1.1,
            layer_kernels=20.0,
            grad_bytes=4.0,
            fused_wgrad=False,
        ),
        Stack(
            id="torchtitan-eager",
            stops_early=True,
            name="torchtitan, eager",
            attention="flash",
            passes=2.2,
            layer_kernels=45.0,
            fused_wgrad=False,
            eager_saves=True,
            loss_passes=30.0,
        ),
        Stack(
            id="fsdp",
            stops_early=True,
            name="PyTorch FSDP, eager",
            attention="flash",
            passes=2.2,
            layer_kernels=40.0,
            grad_bytes=2.0,
            fused_wgrad=False,
            eager_saves=True,
            loss_passes=30.0,
        ),
        Stack(
            id="automodel",
            stops_early=True,
            name="NeMo AutoModel (FSDP2, DeepEP)",
            passes=1.4,
            layer_kernels=30.0,
            grad_bytes=2.0,
            fused_wgrad=False,
            eager_saves=True,
            ep_once_a_node=True,
        ),
        Stack(
            id="deepspeed",
            name="DeepSpeed ZeRO",
            grads_overlap=False,
            params_overlap=False,
            shard_link_frac=0.2,
            attention="unfused",
            passes=2.0,
            layer_kernels=40.0,
            launch_s=7e-6,
            grad_bytes=2.0,
            fused_wgrad=False,
            eager_saves=True,
            loss_passes=30.0,
            step_s=0.05,
        ),
        Stack(
            id="llm-foundry",
            stops_early=True,
            name="MosaicML llm-foundry (Composer FSDP)",
            attention="flash1",
            passes=1.7,
            layer_kernels=30.0,
            grad_bytes=2.0,
            fused_wgrad=False,
            eager_saves=True,
            loss_passes=30.0,
        ),
        Stack(
            id="internevo",
            name="InternEvo",
            gather_by_rank_s=2.6e-3,
            attention="flash1",
            passes=2.6,
            layer_kernels=30.0,
            grad_bytes=2.0,
            fused_wgrad=False,
            loss_passes=24.0,
        ),
        Stack(
            id="maxtext",
            stops_early=True,
            name="MaxText (JAX, XLA)",
            attention="fused",
            passes=1.2,
            layer_kernels=15.0,
            launch_s=1e-6,
            grad_bytes=2.0,
            fused_wgrad=False,
            recomputes=True,
        ),
    )
}

#: What is assumed where no stack is named; its predictions are widened.
DEFAULT_STACK = "megatron"


def stack(name: str) -> Stack:
    """The stack with this id; raises `UnknownNameError` with the nearest."""
    said = name.strip().lower().replace("_", "-").replace(" ", "-")
    if said not in STACKS:
        raise unknown_name("stack", name, STACKS)
    return STACKS[said]
