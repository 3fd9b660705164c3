"""One thing to predict, and many of them as columns of arrays.

A `Situation` names the workload, the layout, the stack, the GPU and the wires. `Columns` holds N of them
as arrays of shape (N,): the whole predictor works on columns, one situation is N = 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from assay.domain.device import Gpu
from assay.domain.layout import Layout
from assay.domain.workload import Transformer, Workload
from assay.errors import InputError
from assay.predict.kernels import AttentionRates, GemmRates, attention_rates, gemm_rates
from assay.predict.stack import Stack

Floats = NDArray[np.float64]

#: Precision recipe → dtype of the layers' GEMMs. fp16 runs on the same units at the same rate as bf16.
_GEMM_DTYPE = {
    "fp16": "bf16",
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8-current": "fp8",
    "fp8-block": "fp8-block",
    "mxfp8": "fp8-block",
    "nvfp4": "nvfp4",
}

#: Bytes that quantising one bf16 element moves: two read, the value written, and written again transposed;
#: a scan for the tensor's largest reads two more. Scales of blocks are found within the tile, 1/32 a value.
#: nvfp4 has half a byte twice, scales of 16, a scan, and a rotation of the transposed copy.
_CAST_BYTES = {"fp8": 4.0, "fp8-current": 6.0, "fp8-block": 4.1, "mxfp8": 4.1, "nvfp4": 7.0}

#: Blackwell's fp8 products take either operand in either order: no transposed copy.
_NO_TRANSPOSE = ("blackwell", "blackwell-ultra")

#: Watts of the card on which a generation's factors were fitted: A100 and H100 SXM, GB200.
_REFERENCE_W = {0: 400.0, 1: 700.0, 2: 1200.0}

#: Fields of a Transformer that become columns as they are.
_MODEL_FIELDS = (
    "layers",
    "dense_layers",
    "moe_layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "value_dim",
    "rope_dim",
    "query_rank",
    "latent_rank",
    "ffn",
    "gated",
    "vocab",
    "experts",
    "topk",
    "expert_ffn",
    "shared_ffn",
    "extra_heads",
    "attention_layers",
    "mixing_weights",
    "small_weights",
    "window",
    "windowed_frac",
    "ssm_layers",
    "ssm_heads",
    "ssm_inner",
    "ssm_state",
    "ssm_projected",
)

#: Fields of a Stack that become columns as they are.
_STACK_FIELDS = (
    "passes",
    "layer_kernels",
    "launch_s",
    "expert_launch_s",
    "params_overlap",
    "cp_overlap",
    "ep_hidden_frac",
    "wgrad_hides_tp",
    "loss_passes",
    "moe_passes",
    "ep_once_a_node",
    "step_s",
    "eager_saves",
    "stops_early",
    "optimizer_bytes",
    "split_sends",
    "split_gradient_sends",
    "deferred_head",
    "gather_by_rank_s",
    "shard_link_frac",
)

_GENERATIONS = {
    "volta": 0,
    "ampere": 0,
    "hopper": 1,
    "blackwell": 2,
    "blackwell-ultra": 2,
    "blackwell-rtx": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A step to predict. `bf16_layers_frac` of the layers stay in bf16 (nvfp4 recipes keep some).

    `input_s` is what a step waits for data, `checkpoint_s` a step's share of a blocking checkpoint.
    `dropped_tokens` says that experts take a fixed number of tokens and drop the rest, so that the host need
    not wait for their counts.
    """

    workload: Workload
    layout: Layout
    global_batch: int
    gpu: Gpu
    stack: Stack
    bf16_layers_frac: float = 0.0
    tp_hidden_frac: float | None = None
    grads_overlap: bool | None = None
    pp_overlap: bool | None = None
    cuda_graphs: bool | None = None
    dropped_tokens: bool = False
    input_s: float = 0.0
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("input_s", "checkpoint_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} = {getattr(self, name):g}; a time of at least 0 is wanted")

    @property
    def micro_batches(self) -> int:
        """Micro-batches of one replica."""
        return self.layout.micro_batches(self.global_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """N situations, one array a property, all of shape (N,); flags are 0 or 1."""

    # the model
    layers: Floats
    dense_layers: Floats
    moe_layers: Floats
    hidden: Floats
    heads: Floats
    kv_heads: Floats
    head_dim: Floats
    value_dim: Floats
    rope_dim: Floats
    query_rank: Floats
    latent_rank: Floats
    ffn: Floats
    gated: Floats
    vocab: Floats
    tied: Floats
    positions: Floats
    experts: Floats
    topk: Floats
    expert_ffn: Floats
    shared_ffn: Floats
    extra_heads: Floats
    attention_layers: Floats
    mixing_weights: Floats
    small_weights: Floats
    window: Floats
    windowed_frac: Floats
    ssm_layers: Floats
    ssm_heads: Floats
    ssm_inner: Floats
    ssm_state: Floats
    ssm_projected: Floats
    # the task
    seq_len: Floats
    packed_len: Floats
    imbalance: Floats
    lora: Floats
    trained_parameters: Floats
    model_flop_per_token: Floats
    input_s: Floats
    checkpoint_s: Floats
    # the layout
    tp: Floats
    sp: Floats
    pp: Floats
    vpp: Floats
    cp: Floats
    ep: Floats
    etp: Floats
    dp: Floats
    shard_ranks: Floats
    zero: Floats
    micro_batch: Floats
    micro_batches: Floats
    global_batch: Floats
    selective: Floats
    full: Floats
    zero_bubble: Floats
    quantised: Floats
    cast_bytes: Floats
    turned: Floats
    amax_reduced: Floats
    bf16_layers_frac: Floats
    # the stack
    unfused: Floats
    flash: Floats
    flash1: Floats
    passes: Floats
    layer_kernels: Floats
    launch_s: Floats
    expert_launch_s: Floats
    cuda_graphs: Floats
    tp_hidden_frac: Floats
    wgrad_hides_tp: Floats
    grads_overlap: Floats
    params_overlap: Floats
    pp_overlap: Floats
    cp_overlap: Floats
    ep_hidden_frac: Floats
    grad_bytes: Floats
    reduces_whole: Floats
    sum_bytes: Floats
    loss_passes: Floats
    moe_passes: Floats
    ep_once_a_node: Floats
    step_s: Floats
    eager_saves: Floats
    stops_early: Floats
    split_sends: Floats
    split_gradient_sends: Floats
    deferred_head: Floats
    gather_by_rank_s: Floats
    shard_link_frac: Floats
    optimizer_bytes: Floats
    gather_bytes: Floats
    # the GPU
    generation: Floats
    power_ratio: Floats
    precision_class: Floats
    memory_Bps: Floats
    memory_bytes: Floats
    layer_rates: GemmRates = field(repr=False)
    plain_rates: GemmRates = field(repr=False)
    attention: AttentionRates = field(repr=False)

    @property
    def gpus(self) -> Floats:
        """Ranks of each layout."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def own_tokens(self) -> NDArray[np.bool_]:
        """Where each tensor rank has tokens of its own: sequence parallelism, or no tensor parallelism."""
        return np.asarray((self.sp > 0) | (self.tp == 1))

    @property
    def tokens(self) -> Floats:
        """Tokens of one micro-batch on one context-parallel rank."""
        return self.micro_batch * self.seq_len / self.cp


def columns(situations: Sequence[Situation]) -> Columns:
    """Situations as arrays; `InputError` where a batch or a precision does not fit."""
    rows = [_row(one) for one in situations]
    arrays = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    gpus = [one.gpu for one in situations]
    dtypes = [_GEMM_DTYPE[one.layout.precision] for one in situations]
    return Columns(
        **arrays,
        layer_rates=gemm_rates(gpus, dtypes),
        plain_rates=gemm_rates(gpus, ["bf16"] * len(gpus)),
        attention=attention_rates(gpus),
    )


def with_layouts(base: Situation, layouts: Sequence[Layout]) -> Columns:
    """Columns of one situation under many layouts; what they share is looked up once."""
    one = columns([base])
    kinds = sorted({layout.precision for layout in layouts})
    by_kind = {kind: gemm_rates([base.gpu], [_GEMM_DTYPE[kind]]) for kind in kinds}
    recipes = {kind: _precision_row(base, kind) for kind in kinds}
    rows = [_layout_row(base, layout) for layout in layouts]
    arrays = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    spread = [recipes[layout.precision] for layout in layouts] if len(kinds) > 1 else [recipes[kinds[0]]]
    arrays |= {name: np.array([recipe[name] for recipe in spread], float) for name in spread[0]}
    shared = {entry.name: getattr(one, entry.name) for entry in fields(Columns) if entry.name not in arrays}
    if len(kinds) == 1:
        shared["layer_rates"] = by_kind[kinds[0]]
    else:
        picked = [by_kind[layout.precision] for layout in layouts]
        shared["layer_rates"] = GemmRates(
            **{e.name: np.concatenate([getattr(p, e.name) for p in picked]) for e in fields(GemmRates)}
        )
    return Columns(**(shared | arrays))


def _row(one: Situation) -> dict[str, float]:
    laid = _layout_row(one, one.layout) | _precision_row(one, one.layout.precision)
    return _model_row(one.workload.model) | _task_row(one.workload) | laid | _rest(one)


def _model_row(m: Transformer) -> dict[str, float]:
    row = {name: float(getattr(m, name)) for name in _MODEL_FIELDS}
    return row | {"tied": float(m.tied_embeddings), "positions": float(m.learned_positions)}


def _task_row(w: Workload) -> dict[str, float]:
    return {
        "seq_len": w.seq_len,
        "packed_len": w.seq_len if w.packed_len is None else w.packed_len,
        "imbalance": w.imbalance,
        "lora": float(w.task == "lora"),
        "trained_parameters": w.trained_parameters,
        "model_flop_per_token": w.model_flop_per_token(),
    }


def _layout_row(one: Situation, layout: Layout) -> dict[str, float]:
    return {
        "tp": layout.tp,
        "sp": float(layout.sp and layout.tp > 1),
        "pp": layout.pp,
        "vpp": layout.vpp,
        "cp": layout.cp,
        "ep": layout.ep,
        "etp": layout.etp,
        "dp": layout.dp,
        "shard_ranks": layout.shard_ranks or layout.dp * layout.cp,
        "zero": {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}[layout.sharding],
        "micro_batch": layout.micro_batch,
        "micro_batches": layout.micro_batches(one.global_batch),
        "global_batch": one.global_batch,
        "selective": float(layout.recompute == "selective"),
        "full": float(layout.recompute == "full"),
        "zero_bubble": float(layout.schedule == "zero-bubble"),
    }


def _precision_row(one: Situation, precision: str) -> dict[str, float]:
    dtype = _GEMM_DTYPE[precision]
    return {
        "quantised": float(dtype != "bf16"),
        "amax_reduced": float(precision == "fp8"),
        "cast_bytes": _cast_bytes(one.gpu, precision),
        "turned": float(_turns(one.gpu, precision)),
        "precision_class": {"bf16": 0.0, "fp8": 1.0, "fp8-block": 1.0, "nvfp4": 2.0}[dtype],
        "grad_bytes": _grad_bytes(one.stack, precision),
        # DeepSpeed's bf16 optimizer gives every rank the whole sums, though each keeps a part of its state.
        "reduces_whole": float(one.stack.sums_in_16_bits and precision == "bf16"),
        "sum_bytes": _sum_bytes(one.stack, precision),
        "gather_bytes": 1.0 if one.stack.fp8_weight_gather and dtype != "bf16" else 2.0,
    }


def _turns(gpu: Gpu, precision: str) -> bool:
    """Whether products want a transposed copy that can be made from the quantised values alone."""
    return precision in ("fp8", "fp8-current") and gpu.architecture not in _NO_TRANSPOSE


def _cast_bytes(gpu: Gpu, precision: str) -> float:
    spared = precision in ("fp8", "fp8-current") and not _turns(gpu, precision)
    return _CAST_BYTES.get(precision, 0.0) - (1.0 if spared else 0.0)


def _grad_bytes(stack: Stack, precision: str) -> float:
    """Bytes per weight that are reduced: sums kept in 16 bits travel in them, fp16 recipes' among them."""
    return 2.0 if stack.sums_in_16_bits and precision == "fp16" else stack.grad_bytes


def _sum_bytes(stack: Stack, precision: str) -> float:
    """Bytes per weight that adding one micro-batch's gradient to the sum moves beyond the product's output.

    In the product's epilogue: fp32 read and written instead of two bytes written (6). Apart, into fp32: 2 + 4
    read, 4 written, and the piece cleared (12). DeepSpeed adds in 16 bits first (6), and bf16 recipes then
    once more into fp32 (12).
    """
    if stack.fused_wgrad:
        return 6.0
    if stack.sums_in_16_bits:
        return 6.0 if precision == "fp16" else 18.0
    return 12.0


def _power_ratio(gpu: Gpu) -> float:
    """The generation's reference power over this card's limit; 1 where a datasheet gives none."""
    if gpu.architecture == "volta":
        return 1.0
    reference = _REFERENCE_W.get(_GENERATIONS.get(gpu.architecture, 1), 700.0)
    comparable = (
        gpu.tdp_W is not None and gpu.architecture in _GENERATIONS and gpu.form in ("sxm", "superchip")
    )
    return reference / gpu.tdp_W if comparable and gpu.tdp_W else 1.0


def _rest(one: Situation) -> dict[str, float]:
    s, gpu = one.stack, one.gpu
    row = {name: float(getattr(s, name)) for name in _STACK_FIELDS}
    for name in ("tp_hidden_frac", "grads_overlap", "pp_overlap", "cuda_graphs"):
        said = getattr(one, name)
        row[name] = float(getattr(s, name) if said is None else said)
    if one.dropped_tokens:
        row["expert_launch_s"] = min(s.launch_s, s.expert_launch_s)
    return row | {
        "unfused": float(s.attention == "unfused"),
        "flash": float(s.attention == "flash"),
        "flash1": float(s.attention == "flash1"),
        "bf16_layers_frac": one.bf16_layers_frac,
        "input_s": one.input_s,
        "checkpoint_s": one.checkpoint_s,
        "power_ratio": _power_ratio(gpu),
        "generation": _GENERATIONS.get(gpu.architecture, 1),
        "memory_Bps": gpu.memory_Bps,
        "memory_bytes": gpu.memory_bytes,
    }
