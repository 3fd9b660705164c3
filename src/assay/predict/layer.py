"""One micro-batch through the layers of one rank: matrix products, attention, memory traffic and host.

Everything is seconds for one layer, forward and backward apart, arrays of shape (N,). The layers of a
model are averaged: attention counts in all, the dense and the expert feed-forward by their number.
Formulas and sources: docs/models/layers.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.predict.kernels import GemmRates, attention_time_s, gemm_time_s
from assay.predict.physics import Physics
from assay.predict.situation import Columns

Floats = NDArray[np.float64]

#: Bytes per element of the result that joining the pieces of context parallelism moves: a piece's result is
#: read, scaled and added to the sum so far (2 + 2 + 2), and half of the queries copied out for it (4 · ½).
#: Backward the gradient of the queries likewise, and the result and its gradient copied out.
_JOIN_FORWARD = 8.0
_JOIN_BACKWARD = 10.0

#: Kernels of embedding, last norm, head and loss, both ways.
_END_KERNELS = 40.0

#: Tokens of a chunk of a state-space scan, as Megatron's mixer cuts them.
_CHUNK = 128.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Forward and backward seconds."""

    forward: Floats
    backward: Floats

    def __add__(self, other: Pair) -> Pair:
        return Pair(forward=self.forward + other.forward, backward=self.backward + other.backward)

    def times(self, factor: Floats | float) -> Pair:
        """Both, multiplied."""
        return Pair(forward=self.forward * factor, backward=self.backward * factor)

    @property
    def both(self) -> Floats:
        """Forward and backward together."""
        return self.forward + self.backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Families of kernels on one rank, seconds for all of the model's layers (not divided by pp)."""

    gemm: Pair
    attention: Pair
    traffic: Pair
    cast: Pair
    host: Pair
    idle: Pair
    head: Floats
    head_weight: Floats
    head_host: Floats
    spared: Floats

    @property
    def kernels(self) -> Pair:
        """All kernels of the layers."""
        return self.gemm + self.attention + self.traffic + self.cast


def compute(c: Columns, physics: Physics) -> Compute:
    """Kernel times of one micro-batch through all layers, as if one rank held them all (tp, cp, ep cut)."""
    mixing = _attention(c, physics)
    head, head_weight = _head(c, physics)
    gemm, last = _gemms(c, physics)
    if np.any(c.ssm_layers):
        mixing = mixing + _scan(c, physics)
    return Compute(
        gemm=gemm,
        attention=mixing,
        traffic=_traffic(c, physics),
        cast=_casts(c, physics),
        host=_host(c, physics),
        idle=_idle(c, physics),
        head=head,
        head_weight=head_weight,
        head_host=_head_host(c, physics),
        spared=c.stops_early * last,
    )


def expert_tokens(c: Columns) -> tuple[Floats, Floats]:
    """Tokens that one expert sees, and experts on one rank; zeros without experts."""
    experts = np.maximum(c.experts, 1)
    per_rank = c.tokens / np.where(c.sp > 0, c.tp, 1.0)
    spread = np.where(c.own_tokens, c.ep * c.etp, c.ep)
    seen = per_rank * spread * c.topk / experts * c.imbalance
    return np.where(c.moe_layers > 0, seen, 0.0), np.where(c.moe_layers > 0, experts / c.ep, 0.0)


def _products(c: Columns) -> tuple[list[tuple[Floats, Floats, Floats]], list[Floats]]:
    """(m, n, k) of each product of a layer's forward, and in how many layers it occurs."""
    t, h, tp = c.tokens, c.hidden, c.tp
    plain = (c.latent_rank == 0).astype(float)
    mla = 1.0 - plain
    q_width = c.heads * (c.head_dim + c.rope_dim * mla) / tp
    wide = q_width + plain * c.kv_heads * (c.head_dim + c.value_dim) / tp
    squeezed = mla * (c.query_rank > 0)
    products = [
        (t, wide, np.where(squeezed > 0, c.query_rank, h)),
        (t, h, c.heads * c.value_dim / tp),
        (t, c.ffn * (1 + c.gated) / tp, h),
        (t, h, c.ffn / tp),
    ]
    counts = [c.attention_layers, c.attention_layers, c.dense_layers, c.dense_layers]
    if np.any(mla):
        products += [
            (t * squeezed, c.query_rank, h),
            (t * mla, c.latent_rank + c.rope_dim, h),
            (t * mla, c.heads * (c.head_dim + c.value_dim) / tp, c.latent_rank),
        ]
        counts += [c.attention_layers] * 3
    if np.any(c.shared_ffn * c.moe_layers):
        shared = c.shared_ffn * (c.moe_layers > 0)
        products += [(t, shared * (1 + c.gated) / tp, h), (t, h, shared / tp)]
        counts += [c.moe_layers] * 2
    if np.any(c.ssm_layers):
        mixed = t * (c.ssm_layers > 0)
        products += [(mixed, c.ssm_projected / tp, h), (mixed, h, c.ssm_inner / tp)]
        counts += [c.ssm_layers] * 2
    return products, counts


def _gemms(c: Columns, physics: Physics) -> tuple[Pair, Floats]:
    """Forward product, and backward the input's and the weight's gradient, of every matrix of the layers.

    Besides, the forward's part that is the last product of dense layers.
    """
    products, counts = _products(c)
    shape = np.broadcast_shapes(*(side.shape for sides in products for side in sides), c.tokens.shape)
    m, n, k = (np.stack([np.broadcast_to(p[i], shape) for p in products]) for i in range(3))
    many = np.stack([np.broadcast_to(count, shape) for count in counts])
    learns = 1.0 - c.lora
    forward, data, weight = _three(c.layer_rates, m, n, k)
    backward = data + learns * weight
    if np.any(c.bf16_layers_frac):
        p_forward, p_data, p_weight = _three(c.plain_rates, m, n, k)
        share = c.bf16_layers_frac
        forward = forward + share * (p_forward - forward)
        backward = backward + share * (p_data + learns * p_weight - backward)
    last = many[3] * forward[3]
    forward, backward = (many * forward).sum(0), (many * backward).sum(0)
    if np.any(c.moe_layers):
        e_forward, e_backward = _experts(c)
        forward, backward = forward + c.moe_layers * e_forward, backward + c.moe_layers * e_backward
    slower = gemm_factor(c, physics)
    return Pair(forward=forward * slower, backward=backward * slower), last * slower


def _three(rates: GemmRates, m: Floats, n: Floats, k: Floats) -> tuple[Floats, Floats, Floats]:
    """Forward, input-gradient and weight-gradient times of one product."""
    m, n, k = np.broadcast_arrays(m, n, k)
    three = gemm_time_s(rates, np.stack([m, m, n]), np.stack([n, k, k]), np.stack([k, n, m]))
    return three[0], three[1], three[2]


def _experts(c: Columns) -> tuple[Floats, Floats]:
    """Grouped products of one expert layer: rows of all local experts, each padded to a tile, one launch."""
    seen, local = expert_tokens(c)
    rows = np.ceil(seen / 128) * 128 * local
    width = c.expert_ffn / c.etp
    up, down = width * (1 + c.gated), width
    idle = np.maximum(local - 1, 0)
    reread = idle * c.hidden * (up + down) * c.layer_rates.right_bytes / c.layer_rates.memory_Bps
    forward = gemm_time_s(c.layer_rates, rows, up, c.hidden) + gemm_time_s(
        c.layer_rates, rows, c.hidden, down
    )
    data = gemm_time_s(c.layer_rates, rows, c.hidden, up) + gemm_time_s(c.layer_rates, rows, down, c.hidden)
    weight = gemm_time_s(c.layer_rates, up * local, c.hidden, seen) + gemm_time_s(
        c.layer_rates, c.hidden * local, down, seen
    )
    return forward + reread, data + reread + (1 - c.lora) * weight


def gemm_factor(c: Columns, physics: Physics) -> Floats:
    """The fitted multiplier of each situation's GEMMs, by generation and precision class."""
    table = np.array(
        [
            [physics.gemm_ampere, physics.gemm_ampere, physics.gemm_ampere],
            [physics.gemm_hopper, physics.gemm_hopper_fp8, physics.gemm_hopper_fp8],
            [physics.gemm_blackwell, physics.gemm_blackwell_fp8, physics.gemm_fp4],
        ]
    )
    picked = table[c.generation.astype(int), c.precision_class.astype(int)]
    return np.asarray(picked * c.power_ratio**physics.power)


def traffic_factor(c: Columns, physics: Physics) -> Floats:
    """The fitted multiplier of each situation's memory-bound kernels."""
    table = np.array([physics.traffic_ampere, physics.traffic_hopper, physics.traffic_blackwell])
    return np.asarray(table[c.generation.astype(int)])


def cast_factor(c: Columns, physics: Physics) -> Floats:
    """The fitted multiplier of each situation's quantisation."""
    return np.where(c.generation < 2, physics.cast_hopper, physics.cast_blackwell)


def _attention(c: Columns, physics: Physics) -> Pair:
    """Scores and values of all layers: fused kernels, or products and a softmax with the scores in memory."""
    heads, kv_heads = c.heads / c.tp, np.maximum(c.kv_heads / c.tp, 1)
    queries = c.seq_len / c.cp
    width = c.head_dim + c.rope_dim * (c.latent_rank > 0)
    seen = np.minimum(c.seq_len, c.packed_len) / 2
    seen = seen + c.windowed_frac * (np.minimum(seen, c.window) - seen)
    # Keys arrive in cp pieces: a block of queries meets the first and three quarters of the others, each in
    # a kernel of its own that fills its pipeline again.
    pieces = 1 + 0.75 * (c.cp - 1)
    seen = seen + c.attention.ramp * (pieces - 1)
    fused = attention_time_s(
        c.attention, c.micro_batch, queries, heads, kv_heads, width, value_width=c.value_dim, keys=seen
    )
    old = c.generation == 0
    flash = np.where(old, physics.flash_ampere, physics.flash_hopper)
    first = np.where(old, physics.flash1_ampere, physics.flash1_hopper)
    vendor = np.where(c.generation == 2, physics.attention_blackwell, physics.attention)
    fused = fused * vendor * np.where(c.flash > 0, flash, np.where(c.flash1 > 0, first, 1.0))
    ratio = np.where(c.flash1 > 0, physics.flash1_backward, physics.attention_backward)
    ratio = np.where(c.flash > 0, physics.flash_backward, ratio)
    joined = np.where(c.cp > 1, c.micro_batch * queries * heads * c.value_dim * pieces, 0.0)
    joined = joined * traffic_factor(c, physics) / c.memory_Bps
    if not np.any(c.unfused):
        return Pair(
            forward=c.attention_layers * (fused + _JOIN_FORWARD * joined),
            backward=c.attention_layers * (fused * ratio + _JOIN_BACKWARD * joined),
        )
    scores = c.micro_batch * heads * queries * c.seq_len
    # Tensor cores want widths in multiples of 8 elements; other widths fall to slower kernels.
    odd = np.where(width % 8 == 0, 1.0, 15.0)
    rate = c.plain_rates.peak_flop_per_s * 0.6
    product = 2 * scores * (width + c.value_dim) / rate * odd
    moved = scores * physics.unfused / c.memory_Bps
    forward = np.where(c.unfused > 0, product + 13 * moved, fused) + _JOIN_FORWARD * joined
    backward = np.where(c.unfused > 0, 2 * product + 17 * moved, fused * ratio) + _JOIN_BACKWARD * joined
    return Pair(forward=c.attention_layers * forward, backward=c.attention_layers * backward)


def _scan(c: Columns, physics: Physics) -> Pair:
    """A state-space block (Mamba-2) between its two products, in chunks of `_CHUNK` tokens.

    Per inner unit and token: convolution and gated norm 10 bytes, the scan's values in and out 6, and the
    states of each chunk in fp32, written, passed on (read and written) and read: 16·states/chunk. Products
    within a chunk (chunk FLOP, the causal half) and with the states (4·states) run at a quarter of the peak.
    Backward computes the states again and their gradients. Dao and Gu 2024 (arXiv 2405.21060), section 6.
    """
    unit = c.tokens * c.ssm_inner / c.tp
    moved = unit * (16.0 + 16.0 * c.ssm_state / _CHUNK) * traffic_factor(c, physics) / c.memory_Bps
    product = unit * (_CHUNK + 4.0 * c.ssm_state) / (0.25 * c.plain_rates.peak_flop_per_s)
    once = c.ssm_layers * (moved + product)
    return Pair(forward=once, backward=3.0 * once)


def _traffic(c: Columns, physics: Physics) -> Pair:
    """Norms, residuals, activations, position codes, weight-gradient sums, and moving tokens to experts."""
    t = c.tokens
    norms = 16 * c.hidden / np.where(c.sp > 0, c.tp, 1.0)
    rope = np.where(c.positions > 0, 0.0, 4.0) * (c.heads + c.kv_heads) * c.head_dim / c.tp
    rope = rope * c.attention_layers / c.layers
    width = (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.tp / c.layers
    routed = c.moe_layers * c.topk * c.expert_ffn / c.layers / np.where(c.own_tokens, c.tp, c.etp)
    width = width + routed
    forward = norms + rope + width * (4 + 2 * c.gated)
    backward = norms + rope + width * (6 + 4 * c.gated)
    moved = 8 * c.moe_layers / c.layers * c.topk * c.hidden / np.where(c.sp > 0, c.tp, 1.0)
    moved = moved * physics.permute * c.moe_passes
    # Adapters read (and drop out) the inputs of their projections and add to the outputs.
    q, kv = c.heads * c.head_dim / c.tp, c.kv_heads * c.head_dim / c.tp
    adapters = c.lora * (4 * (c.hidden + q) + 6 * (q + 2 * kv + c.hidden)) / np.maximum(c.passes, 1)
    forward, backward = forward + adapters, backward + 1.5 * adapters
    scale = c.layers * t * traffic_factor(c, physics) / c.memory_Bps
    learns = 1 - c.lora
    sums = c.sum_bytes * learns
    weights = (
        c.mixing_weights / c.tp
        + (2 + c.gated) * c.hidden * (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.tp
    )
    weights = weights + (2 + c.gated) * c.hidden * c.moe_layers * c.experts * c.expert_ffn / (c.ep * c.etp)
    summed = weights * sums * traffic_factor(c, physics) / c.memory_Bps
    return Pair(
        forward=scale * (forward * c.passes + moved), backward=scale * (backward * c.passes + moved) + summed
    )


def _casts(c: Columns, physics: Physics) -> Pair:
    """Quantising the inputs of every product, and backward the gradients of its output.

    With sequence parallelism what is gathered over the tensor ranks (inputs of the first product of a block,
    gradients of the last one's output) is quantised before it is sent, each rank its own part; where
    products want a transposed copy, each rank turns the whole.
    """
    t = c.tokens * c.quantised * (1 - c.bf16_layers_frac)
    attends, scans = c.attention_layers / c.layers / c.tp, c.ssm_layers / c.layers / c.tp
    q = attends * c.heads * c.head_dim + scans * c.ssm_inner
    projected = attends * (c.heads + 2 * c.kv_heads) * c.head_dim + scans * c.ssm_projected
    inner = (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.layers / c.tp
    dense = (c.dense_layers + c.moe_layers * (c.shared_ffn > 0)) / c.layers
    routed = c.moe_layers / c.layers * c.topk / np.where(c.sp > 0, c.tp, 1.0)
    experts = routed * (c.hidden + c.expert_ffn)
    in_parts = (c.cast_bytes - c.turned) / c.tp + 2 * c.turned
    shared = c.hidden * (1 + dense) * np.where(c.sp > 0, in_parts, c.cast_bytes)
    into = shared + c.cast_bytes * (q + inner + experts)
    out = shared + c.cast_bytes * (projected + (inner + experts) * (1 + c.gated))
    scale = c.layers * t * cast_factor(c, physics) / c.memory_Bps
    return Pair(forward=scale * into, backward=scale * out)


def kernels(c: Columns) -> Floats:
    """Kernels of one layer's forward: the stack's own, quantisation, and those of routing and each expert."""
    local = np.where(c.moe_layers > 0, c.experts / c.ep, 0.0)
    # Each expert's tokens are quantised on their own before both products.
    routed = c.moe_layers / c.layers * (30.0 + (4.0 + 2.0 * c.quantised) * local)
    return c.layer_kernels + routed + np.where(c.quantised > 0, 10.0, 0.0) + 30.0 * c.lora


def _head_host(c: Columns, physics: Physics) -> Floats:
    """Launching the kernels of embedding, last norm, head and loss, forward and backward."""
    return np.where(c.cuda_graphs > 0, 3.0, _END_KERNELS) * c.launch_s * physics.host


def _host(c: Columns, physics: Physics) -> Pair:
    """Launching the kernels of all layers; with graphs, a few launches a layer and those of the experts."""
    count = kernels(c)
    routed = count - c.layer_kernels - np.where(c.quantised > 0, 10.0, 0.0)
    # Routing waits for the host: counts of tokens are read back before the experts can be launched.
    cost = np.where(c.cuda_graphs > 0, 3.0, count - routed) * c.launch_s + routed * c.expert_launch_s
    forward = c.layers * cost * physics.host
    return Pair(forward=forward, backward=1.3 * forward)


def _idle(c: Columns, physics: Physics) -> Pair:
    """What the device idles between kernels, even when the host is ahead."""
    forward = c.layers * kernels(c) * physics.kernel_gap_us * 1e-6 * np.where(c.cuda_graphs > 0, 0.5, 1.0)
    return Pair(forward=forward, backward=1.6 * forward)


def _head(c: Columns, physics: Physics) -> tuple[Floats, Floats]:
    """Output head and loss, forward and backward, on the last stage, and its weight's gradient of that.

    The embedding's sums are with them. Products so long run as in the tables, whatever slows those of layers.
    """
    parts = _three(c.plain_rates, c.tokens, c.vocab / c.tp, c.hidden)
    slower = c.power_ratio**physics.power
    product = (parts[0] + parts[1] + (1 - c.lora) * parts[2]) * slower
    moved = c.tokens * c.vocab / c.tp * c.loss_passes
    sums = c.sum_bytes * c.vocab * c.hidden / c.tp * (1 - c.lora)
    loss = (moved + sums) * traffic_factor(c, physics) / c.memory_Bps
    return (1 + c.extra_heads) * (product + loss), (1 - c.lora) * parts[2] * slower
