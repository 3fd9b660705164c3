"""Traffic between ranks: how much of each collective a micro-batch or a step waits for.

Sizes are nccl-tests' sizes. Rank order is tp, cp, dp, pp (Megatron's), so tensor groups are neighbours
and stages are far apart. Formulas and sources: docs/models/layers.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.predict.layer import Pair
from assay.predict.network import Network
from assay.predict.physics import Physics
from assay.predict.situation import Columns

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroTraffic:
    """Exposed seconds of one micro-batch through all layers (not divided by pp); `send` is one stage hop."""

    tp: Pair
    cp: Pair
    ep: Pair
    send: Floats
    send_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of one rank: outside experts and in them, after tp, ep and pp."""

    plain: Floats
    experts: Floats
    head: Floats

    @property
    def total(self) -> Floats:
        """All weights of a rank of the fullest stage."""
        return self.plain + self.experts + self.head


def weights(c: Columns) -> Weights:
    """Weights on one rank of an inner stage; `head` is what the first or last stage holds besides."""
    block = c.mixing_weights / c.tp + c.layers * c.small_weights
    dense = (2 + c.gated) * c.hidden * (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.tp
    router = c.moe_layers * c.hidden * c.experts
    experts = (2 + c.gated) * c.hidden * c.moe_layers * c.experts * c.expert_ffn / (c.ep * c.etp)
    ends = (c.vocab * c.hidden) / c.tp * np.where((c.pp == 1) & (c.tied == 0), 2.0, 1.0)
    return Weights(plain=(block + dense + router) / c.pp, experts=experts / c.pp, head=ends)


def micro_traffic(c: Columns, network: Network, physics: Physics) -> MicroTraffic:
    """Tensor, context and expert traffic of one micro-batch, and one send between stages."""
    sent = _sent_bytes(c)
    return MicroTraffic(
        tp=_tensor(c, network, physics),
        cp=_context(c, network, physics),
        ep=_expert(c, network, physics),
        send=_send(c, sent, network, physics),
        send_bytes=sent,
    )


def _sent_bytes(c: Columns) -> Floats:
    """What a rank sends to another stage a micro-batch, cut over the tensor ranks; mean of both ways."""
    cut = np.where(c.sp > 0, 1.0, (c.split_sends + c.split_gradient_sends) / 2)
    return np.asarray(2 * c.tokens * c.hidden * (1 - cut + cut / c.tp))


def _send(c: Columns, sent: Floats, network: Network, physics: Physics) -> Floats:
    """One micro-batch a stage on; without sequence parallelism its pieces are joined there."""
    hop = network.time_s("send_recv", sent, np.where(c.pp > 1, 2, 1), c.tp * c.cp * c.dp)
    whole = np.where(c.sp > 0, 0.0, 2 * c.tokens * c.hidden - sent) * c.tp / np.maximum(c.tp - 1, 1)
    return np.where(c.pp > 1, physics.pp * (hop + network.time_s("all_gather", whole, c.tp, 1)), 0.0)


def _tensor(c: Columns, network: Network, physics: Physics) -> Pair:
    """Two all-reduces a layer each way; with sequence parallelism as gathers and scatters, one more back.

    Gathers carry values that are quantised already; what is summed travels in bf16. Backward the sums of
    inputs' gradients may run behind the products of the weights' gradients.
    """
    size = 2 * c.tokens * c.hidden
    pieces = np.where(c.sp > 0, network.time_s("all_gather", size, c.tp, 1), 0.0)
    # Adapters beside the attention's projections want their inputs in bf16.
    narrow = 1 - c.quantised * (1 - c.bf16_layers_frac) * (1 - c.layer_rates.left_bytes / 2) * (
        1 - c.lora / 2
    )
    gathered = narrow * pieces
    summed_s = np.where(c.sp > 0, pieces, network.time_s("all_reduce", size, c.tp, 1))
    whole = np.where(c.sp > 0, gathered, 0.0) + summed_s
    blocks = c.layers + c.dense_layers + c.moe_layers * (c.shared_ffn > 0)
    slower = np.where(c.generation == 0, physics.tp_ampere, physics.tp_later)
    # The gathered input is gathered again for the weight's gradient, behind the input's.
    again = blocks * gathered * slower * physics.tail
    inside = np.where(c.etp > 1, c.moe_layers * _inside(c, network, whole) * c.topk * slower, 0.0)
    exposed = _hidden(c.tp_hidden_frac, physics.tail)
    summed = np.minimum(exposed, _hidden(c.wgrad_hides_tp * (1 - c.lora), physics.tail))
    back = blocks * slower * ((whole - summed_s) * exposed + summed_s * summed)
    return Pair(
        forward=(blocks * whole * slower + inside) * exposed, backward=back + inside * exposed + again
    )


def _inside(c: Columns, network: Network, whole: Floats) -> Floats:
    """Ranks that share an expert gather each other's tokens and scatter the sums, a copy of a token each.

    Where tensor ranks hold the same tokens the sums are all-reduced, which is `whole`.
    """
    if not np.any(c.etp > 1):
        return whole
    gathered = 2 * c.tokens * c.hidden * c.etp / np.where(c.sp > 0, c.tp, 1.0)
    return np.where(c.own_tokens, 2 * network.time_s("all_gather", gathered, c.etp, 1), whole)


def _hidden(frac: Floats, tail: float) -> Floats:
    """What is left of traffic of which `frac` runs behind compute, and slows it by `tail` of its time."""
    return 1 - frac * (1 - tail)


def _context(c: Columns, network: Network, physics: Physics) -> Pair:
    """Keys and values of every other rank, once forward, and backward again with their gradients."""
    width = np.where(c.latent_rank > 0, c.heads, c.kv_heads) * (c.head_dim + c.value_dim) / c.tp
    size = 2 * c.micro_batch * c.seq_len * width
    once = c.attention_layers * network.time_s("all_gather", size, c.cp, c.tp) * physics.cp
    exposed = np.where(c.cp_overlap > 0, np.maximum(physics.tail, 0.15), 1.0)
    return Pair(forward=once * exposed, backward=2 * once * exposed)


def _expert(c: Columns, network: Network, physics: Physics) -> Pair:
    """Tokens to their experts and back: two all-to-alls a layer each way."""
    tokens = c.tokens / np.where(c.sp > 0, c.tp, 1.0)
    stride = np.where(c.own_tokens, c.etp, c.tp)
    apart = network.nodes(c.ep, stride).astype(float)
    distinct = apart * (1 - (1 - 1 / np.maximum(apart, 1)) ** c.topk)
    copies = np.where((c.ep_once_a_node > 0) & (apart > 1), np.minimum(distinct, c.topk), c.topk)
    size = 2 * tokens * copies * c.hidden * c.imbalance
    once = 2 * c.moe_layers * network.time_s("all_to_all", size, c.ep, stride) * physics.ep
    exposed = _hidden(c.ep_hidden_frac, physics.tail)
    return Pair(forward=once * exposed, backward=once * exposed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTraffic:
    """Seconds of gradient and weight traffic, before anything hides it; `rounds` of each a step.

    The bytes are one rank's weights and gradients of the whole group, as nccl-tests counts a size.
    """

    gather: Floats
    reduce: Floats
    rounds: Floats
    gather_bytes: Floats
    reduce_bytes: Floats


def step_traffic(c: Columns, network: Network, physics: Physics) -> StepTraffic:
    """Reduce gradients and gather weights over the data-parallel ranks, within shard groups and across."""
    held = weights(c)
    learned = np.where(c.lora > 0, c.trained_parameters / (c.tp * c.pp), held.plain + held.head)
    group = c.dp * c.cp
    shard = np.where(c.zero > 0, np.minimum(c.shard_ranks, group), 1.0)
    outer = group / shard
    plain = learned * c.grad_bytes
    reduce = network.time_s("reduce_scatter", plain, shard, c.tp) + network.time_s(
        "all_reduce", plain / shard, outer, c.tp * shard
    )
    if np.any(c.reduces_whole):
        reduce = reduce + c.reduces_whole * network.time_s("all_gather", plain, shard, c.tp)
    # Frozen weights are sharded by FSDP too, and gathered all the same.
    kept = np.where((c.lora > 0) & (c.zero < 3), learned, held.plain + held.head)
    gather = network.time_s("all_gather", kept * c.gather_bytes, shard, c.tp)
    if np.any(held.experts):
        inner = np.maximum(c.tp * c.cp * c.dp / (c.ep * c.etp), 1)
        learned_e = np.where(c.lora > 0, 0.0, held.experts)
        reduce = reduce + network.time_s("reduce_scatter", learned_e * c.grad_bytes, inner, c.ep * c.etp)
        gather = gather + network.time_s("all_gather", held.experts * c.gather_bytes, inner, c.ep * c.etp)
    gather = np.where(c.zero > 0, gather, 0.0) + np.where(c.zero == 1, c.gather_by_rank_s * shard, 0.0)
    slow = np.where(c.zero >= 3, c.shard_link_frac, 1.0)
    return StepTraffic(
        gather_bytes=np.where(c.zero > 0, (kept + held.experts) * c.gather_bytes, 0.0),
        reduce_bytes=(learned + np.where(c.lora > 0, 0.0, held.experts)) * c.grad_bytes,
        gather=gather * physics.dp / slow,
        reduce=reduce * physics.dp / slow,
        rounds=np.where((c.zero >= 2) & (c.pp == 1), c.micro_batches, 1.0),
    )
