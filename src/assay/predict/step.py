"""The time of one training step as terms that add up.

A step is what the busiest pipeline stage does with its micro-batches, the bubble around it, and what no
compute hides: gradient and weight traffic, the optimizer, host work, and waiting for the slowest rank.
Formulas and sources: docs/models/step.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.predict.communication import StepTraffic, micro_traffic, step_traffic, weights
from assay.predict.layer import compute
from assay.predict.network import Network
from assay.predict.physics import Physics
from assay.predict.situation import Columns

Floats = NDArray[np.float64]

#: Micro-batches whose gradients of the output head's weights may be deferred (NVIDIA's configurations).
_DEFERRED = 50.0

#: The terms of a step, in the order they are shown.
TERMS = (
    "gemm",
    "attention",
    "elementwise",
    "quantise",
    "head",
    "recompute",
    "host",
    "tp",
    "cp",
    "ep",
    "pp",
    "imbalance",
    "bubble",
    "dp_gradients",
    "dp_weights",
    "optimizer",
    "step_host",
    "input",
    "checkpoint",
    "jitter",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Step times of N situations; `terms` adds up to `time_s`.

    `forward_s` and `backward_s` are one micro-batch on an inner stage; the last stage has `last_frac` of its
    layers and `head_s` besides, and `send_s` takes `send_bytes` to the next stage.
    """

    time_s: Floats
    terms: dict[str, Floats]
    forward_s: Floats
    backward_s: Floats
    last_frac: Floats
    head_s: Floats
    send_s: Floats
    send_bytes: Floats
    traffic: StepTraffic
    micro_batches: Floats
    tokens: Floats
    gpus: Floats
    model_flop: Floats

    @property
    def tokens_per_s_per_gpu(self) -> Floats:
        """Training tokens over time and GPUs."""
        return self.tokens / self.time_s / self.gpus

    @property
    def model_flop_per_s(self) -> Floats:
        """Model FLOPs (causal attention, nothing recomputed) over time and GPUs."""
        return self.model_flop / self.time_s / self.gpus


def step_times(c: Columns, network: Network, physics: Physics) -> Steps:
    """Step times of every situation in `c`."""
    shape = np.broadcast_shapes(c.tokens.shape, c.layers.shape)
    one = _one_pass(c, network, physics)
    inner, last = _stage_layers(c)
    share = inner / c.layers
    forward_s, backward_s = share * one.forward, share * one.backward
    terms = _pipeline(c, one, network, physics)
    data = step_traffic(c, network, physics)
    terms["dp_gradients"], terms["dp_weights"] = _exposed_data(c, data, physics, forward_s, backward_s)
    terms["optimizer"] = _optimizer(c, physics)
    terms["step_host"] = c.step_s * physics.step
    terms["input"] = c.input_s
    terms["checkpoint"] = c.checkpoint_s
    so_far = sum(terms.values(), np.zeros(shape))
    terms["jitter"] = so_far * waiting(c.gpus, physics.jitter_frac)
    terms = {name: np.broadcast_to(terms[name], shape) for name in TERMS}
    tokens = np.broadcast_to(c.global_batch * c.seq_len, shape)
    return Steps(
        time_s=sum(terms.values(), np.zeros(shape)),
        terms=terms,
        forward_s=np.broadcast_to(forward_s, shape),
        backward_s=np.broadcast_to(backward_s, shape),
        last_frac=np.broadcast_to(last / inner, shape),
        head_s=np.broadcast_to(one.head, shape),
        send_s=np.broadcast_to(one.send, shape),
        send_bytes=np.broadcast_to(one.send_bytes, shape),
        traffic=data,
        micro_batches=np.broadcast_to(c.micro_batches, shape),
        tokens=tokens,
        gpus=np.broadcast_to(c.gpus, shape),
        model_flop=tokens * c.model_flop_per_token,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnePass:
    """One micro-batch through all layers on a rank: seconds by family, and both ways with all of them."""

    families: dict[str, Floats]
    forward: Floats
    backward: Floats
    head: Floats
    head_weight: Floats
    send: Floats
    send_bytes: Floats


def _one_pass(c: Columns, network: Network, physics: Physics) -> _OnePass:
    work = compute(c, physics)
    micro = micro_traffic(c, network, physics)
    expert = micro.ep.times(_distinct(c, network))
    full = c.full > 0
    moved = micro.tp + micro.cp + expert
    ran = work.kernels + moved
    again = np.where(full, ran.forward - work.spared, np.where(c.selective > 0, work.attention.forward, 0.0))
    repeat = np.where(full, 1.0, 0.0)
    forward, backward = ran.forward, ran.backward + again
    gap_forward = _gap(forward, work.host.forward) + work.idle.forward
    gap_backward = _gap(backward, work.host.backward + repeat * work.host.forward)
    gap_backward = gap_backward + work.idle.backward + repeat * work.idle.forward
    return _OnePass(
        families={
            "gemm": work.gemm.both,
            "attention": work.attention.both,
            "elementwise": work.traffic.both,
            "quantise": work.cast.both,
            "recompute": again,
            "host": gap_forward + gap_backward,
            "tp": micro.tp.both,
            "cp": micro.cp.both,
            "ep": expert.both,
        },
        forward=forward + gap_forward,
        backward=backward + gap_backward,
        head=work.head + _gap(work.head, work.head_host),
        head_weight=work.head_weight,
        send=micro.send,
        send_bytes=micro.send_bytes,
    )


def _distinct(c: Columns, network: Network) -> Floats:
    """Part of a token's copies that are sent inside one island, where a rank gets each token once.

    Of ep ranks a token meets ep·(1 − (1 − 1/ep)^topk), each expert being as likely as the next.
    """
    island = network.nodes(c.ep, np.where(c.own_tokens, c.etp, c.tp)) == 1
    met = c.ep * (1 - (1 - 1 / c.ep) ** c.topk) / np.maximum(c.topk, 1)
    return np.where((c.ep_once_a_node > 0) & island & (c.moe_layers > 0), met, 1.0)


def _pipeline(c: Columns, one: _OnePass, network: Network, physics: Physics) -> dict[str, Floats]:
    """All micro-batches on an inner stage by family, and what the pipeline adds: imbalance, sends, bubble."""
    inner, last = _stage_layers(c)
    m, alone = c.micro_batches, c.pp == 1
    terms = {name: m * inner / c.layers * seconds for name, seconds in one.families.items()}
    # Delayed scaling agrees on the largest values over all ranks that share weights, once a pass of a chunk.
    agree = c.vpp * network.time_s("all_reduce", 4096.0, c.tp * c.cp * c.dp, 1)
    terms["quantise"] = terms["quantise"] + m * c.amax_reduced * agree
    both = one.forward + one.backward
    inner_s, last_s = inner / c.layers * both, last / c.layers * both + one.head
    sends = np.where(alone, 0.0, 2 * c.vpp * one.send)
    hidden = c.pp_overlap * (c.vpp > 1) > 0
    exposed = sends * np.where(hidden, physics.tail, 1.0)
    # The last stage has one neighbour, so that it waits for half of the sends.
    busiest = np.where(alone, inner_s + one.head, np.maximum(inner_s, last_s - exposed / 2))
    terms["head"] = np.where(alone, m * one.head, 0.0)
    imbalance = np.where(alone, 0.0, m * (busiest - inner_s))
    # A stack that defers the head's weight gradients computes them while the other stages drain.
    drain = (c.pp - 1) / c.vpp * inner / c.layers * one.backward
    deferred = c.deferred_head * np.minimum(m, _DEFERRED) * one.head_weight
    terms["imbalance"] = imbalance - np.minimum(imbalance, np.minimum(deferred, drain))
    terms["pp"] = m * exposed
    terms["bubble"] = _bubble(c, inner_s, last_s, busiest, one.backward / np.maximum(both, 1e-12), sends)
    return terms


def _gap(device: Floats, host: Floats) -> Floats:
    """Idle device time when the host launches more slowly than the kernels run (a p-norm, p = 4)."""
    return (device**4 + host**4) ** 0.25 - device


def _stage_layers(c: Columns) -> tuple[Floats, Floats]:
    """Layers of an inner and of the last stage.

    Where the layers do not divide into pp × vpp chunks, but layers + 2 do, embedding and head count as a
    layer each, as Megatron can place them; else the fullest stage holds one more layer a chunk.
    """
    chunks = c.pp * c.vpp
    even = c.layers % chunks == 0
    ends = ((c.layers + 2) % chunks == 0) & (c.pp > 1)
    full = np.ceil(c.layers / chunks) * c.vpp
    inner = np.where(even, c.layers / c.pp, np.where(ends, (c.layers + 2) / c.pp, full))
    last = np.where(even, inner, np.where(ends, inner - 1, c.layers / c.pp))
    return inner, last


def _bubble(
    c: Columns, inner_s: Floats, last_s: Floats, busiest: Floats, backward_frac: Floats, sends: Floats
) -> Floats:
    """Filling and draining the pipeline: the other stages' time for one micro-batch, over vpp.

    Zero-bubble schedules put weight gradients, about half of the backward, into it.
    """
    others = (c.pp - 2) * inner_s + inner_s + last_s - busiest
    fill = np.where(c.pp > 1, np.maximum(others, 0.0) / c.vpp + c.pp * sends, 0.0)
    return fill * np.where(c.zero_bubble > 0, 1 - backward_frac, 1.0)


def _exposed_data(
    c: Columns, data: StepTraffic, physics: Physics, forward_s: Floats, backward_s: Floats
) -> tuple[Floats, Floats]:
    """Gradient and weight traffic that no compute hides.

    A replica's gradients may go while the last micro-batch runs backward; interleaved stages have the
    passes of their other chunks besides. Under ZeRO-2 and 3 every micro-batch gathers and reduces, but in a
    pipeline, where weights stay whole and gradients are summed until the last micro-batch.
    """
    spare = np.where(c.vpp > 1, c.pp * (c.vpp - 1) / c.vpp, 0.0)
    held = np.maximum(c.layers / c.pp, 1)
    room_b, room_f = backward_s * (1 + spare), forward_s * (1 + spare)
    tail = physics.tail + 1 / held
    per_step_g = np.where(
        c.grads_overlap > 0, np.maximum(data.reduce - room_b, np.minimum(tail, 1) * data.reduce), data.reduce
    )
    per_step_w = np.where(
        c.params_overlap > 0, np.maximum(data.gather - room_f, np.minimum(tail, 1) * data.gather), data.gather
    )
    alone = c.pp == 1
    again = np.where(c.zero >= 3, data.gather, 0.0)
    both = data.reduce + again
    sharded_g = data.rounds * np.maximum(both - c.grads_overlap * backward_s, np.minimum(tail, 1) * both)
    hidden = c.params_overlap * forward_s
    sharded_w = data.rounds * np.maximum(data.gather - hidden, np.minimum(tail, 1) * data.gather)
    sharded = (c.zero >= 2) & alone
    return np.where(sharded, sharded_g, per_step_g), np.where(sharded, sharded_w, per_step_w)


def _optimizer(c: Columns, physics: Physics) -> Floats:
    """Adam over the rank's share: state, master weights and gradients read and written once."""
    held = weights(c)
    shard = np.where(c.zero > 0, np.minimum(c.shard_ranks, c.dp * c.cp), 1.0)
    inner = np.where(c.zero > 0, np.maximum(c.tp * c.cp * c.dp / (c.ep * c.etp), 1), 1.0)
    mine = (held.plain + held.head) / shard + held.experts / inner
    mine = np.where(c.lora > 0, c.trained_parameters / (c.tp * c.pp) / shard, mine)
    # Gradients are scanned for their norm before any is applied.
    return mine * (c.optimizer_bytes + 4) * physics.optimizer / c.memory_Bps


def waiting(ranks: Floats, jitter_frac: float) -> Floats:
    """Expected maximum of `ranks` normal deviates over their mean: σ·√(2 ln n), by nodes of eight."""
    return np.asarray(jitter_frac * np.sqrt(2 * np.log(np.maximum(ranks / 8, 1.0))))
