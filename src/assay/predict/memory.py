"""Memory of the fullest rank as terms that add up, and whether it fits.

Counted as PyTorch's allocator counts: weights, gradients, optimizer state, what the backward needs, and
buffers, at the fullest moment of a step on the fuller of the first and the last stage. What lies outside
the allocator (context, communication buffers, fragments) is the term `reserve`; a layout fits when all of
it fits. Formulas and sources: docs/models/memory.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.predict.communication import weights
from assay.predict.layer import expert_tokens
from assay.predict.situation import Columns

Floats = NDArray[np.float64]

TERMS = ("weights", "gradients", "optimizer", "activations", "logits", "gathered", "reserve")

#: CUDA context, libraries' workspaces and NCCL's buffers, and the part of the rest lost to fragments.
OUTSIDE_BYTES = 2.5 * 2**30
FRAGMENT_FRAC = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest rank by term, of shape (N,); `total_bytes` is their sum."""

    terms: dict[str, Floats]
    capacity_bytes: Floats

    @property
    def total_bytes(self) -> Floats:
        """All terms."""
        return sum(self.terms.values(), np.zeros(()))

    @property
    def allocated_bytes(self) -> Floats:
        """What the allocator hands out: all terms but the reserve."""
        return self.total_bytes - self.terms["reserve"]

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether each layout fits on its GPU."""
        return np.asarray(self.total_bytes <= self.capacity_bytes)


def memory(c: Columns) -> Memory:
    """Bytes at the fullest moment: the loss, either end of the backward, or the optimizer's step."""
    moments = [moment for last in (False, True) for moment in _moments(c, last=last)]
    shape = np.broadcast_shapes(c.tokens.shape, *(value.shape for m in moments for value in m.values()))
    stacked = {
        name: np.stack([np.broadcast_to(moment[name], shape) for moment in moments]) for name in TERMS[:-1]
    }
    total = sum(stacked.values(), np.zeros(()))
    fullest = np.argmax(total, axis=0)[None]
    terms = {name: np.take_along_axis(values, fullest, axis=0)[0] for name, values in stacked.items()}
    terms["reserve"] = OUTSIDE_BYTES + FRAGMENT_FRAC * np.max(total, axis=0)
    return Memory(terms=terms, capacity_bytes=np.broadcast_to(c.memory_bytes, shape))


def _moments(c: Columns, *, last: bool) -> list[dict[str, Floats]]:
    """Terms on one end stage at the moments that can be the fullest."""
    state = _state(c, last=last)
    kept, working = activations(c, last=last)
    logits = c.tokens * c.vocab / c.tp * np.where(c.eager_saves > 0, 12.0, 10.0)
    logits = np.where(c.pp == 1, logits, logits if last else 0.0)
    # Gradients that are dropped between steps are not there yet when the only backward begins.
    early = state["gradients"] * np.where((c.eager_saves > 0) & (c.micro_batches == 1), 0.0, 1.0)
    layer, ends, nothing = state["layer"], state["ends_whole"], np.zeros(())
    fixed = {"weights": state["weights"], "optimizer": state["optimizer"], "logits": nothing}

    def backward(done: float, working: Floats, layer_bytes: Floats | float) -> dict[str, Floats]:
        """After the backward of `done` layers; `layer_bytes` per weight of a layer are whole."""
        left = kept * np.maximum(1 - done / np.maximum(c.layers / c.pp, 1), 0)
        gathered = ends + state["head_gradient"] + layer_bytes * layer
        return fixed | {"gradients": early, "activations": left + working, "gathered": gathered}

    # The layer in use and the next (2 + 2); from the second layer on the last one's gradients in fp32 under
    # way (4); and a layer's own in bf16 (2), all of them when its activations are gone. Halfway through a
    # layer two gradients of the inner width stand beside the activations.
    full = c.full > 0
    width = (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.layers / c.tp
    inner = np.where(c.zero >= 3, 4 * c.tokens * width, 0.0)
    between = 10 * c.tokens * c.hidden / np.where(c.sp > 0, c.tp, 1.0)
    loss = fixed | {"gradients": early, "activations": kept, "logits": logits, "gathered": ends}
    begin = backward(0, working, 4.0)
    second = backward(1, working + inner, 8.0)
    after = backward(2, between + np.where(full, kept * c.pp / np.maximum(c.layers, c.pp), 0.0), 10.0)
    end = backward(np.inf, np.where(c.zero >= 3, between, working), 8.0) | {"gradients": state["gradients"]}
    # Embedding and head are cut last: gradients in bf16 (2) and in fp32 (4).
    cut = fixed | {"gradients": state["gradients"], "activations": nothing, "gathered": state["ends_cut"]}
    step = fixed | {"gradients": state["gradients"], "activations": nothing, "gathered": nothing}
    step |= {"optimizer": state["optimizer"] + state["optimizer_work"]}
    return [loss, begin, second, after, end, cut, step]


def _state(c: Columns, *, last: bool) -> dict[str, Floats]:
    """Weights, gradients and optimizer state of an end stage, by what is sharded."""
    held = weights(c)
    ends = held.head if not last else np.where(c.pp == 1, held.head, c.vocab * c.hidden / c.tp)
    plain, experts = held.plain + ends, held.experts
    group = np.where(c.zero > 0, np.minimum(c.shard_ranks, c.dp * c.cp), 1.0)
    inner = np.where(c.zero > 0, np.maximum(c.tp * c.cp * c.dp / (c.ep * c.etp), 1), 1.0)

    def shared(stage: int, bytes_each: Floats | float) -> Floats:
        cut = c.zero >= stage
        return np.asarray(
            bytes_each * (plain / np.where(cut, group, 1.0) + experts / np.where(cut, inner, 1.0))
        )

    lora = c.lora > 0
    mine = c.trained_parameters / (c.tp * c.pp)
    # ZeRO-3 and FSDP keep one fp32 master as the weights; others keep bf16 weights and fp32 masters.
    held_bytes = shared(3, np.where((c.zero >= 3) & ~lora, 4.0, 2.0))
    # Frozen weights of an fp8 recipe are kept in one byte.
    held_bytes = np.where(lora & (c.gather_bytes == 1), held_bytes / 2, held_bytes)
    copies = np.where((c.quantised > 0) & (c.zero < 3) & (c.gather_bytes > 1), shared(3, 1.0), 0.0)
    each = np.where(c.zero >= 2, 4.0, np.maximum(c.grad_bytes, 2.0))
    layer = (held.plain + experts) / np.maximum(c.layers / c.pp, 1)
    return {
        "weights": held_bytes + copies,
        "gradients": np.where(lora, 4.0 * mine, shared(2, each)),
        "optimizer": np.where(lora, 12.0 * mine, shared(1, np.where(c.zero >= 3, 8.0, 12.0))),
        "optimizer_work": np.where(lora | (c.eager_saves == 0), 0.0, shared(1, 4.0)),
        # Under ZeRO-3: weights of a layer; embedding and head, whole from the forward to the end of the
        # backward; the head's gradient, whole as long, and both's when they are cut.
        "layer": np.where(c.zero >= 3, layer, 0.0),
        "ends_whole": np.where(c.zero >= 3, 2.0 * ends, 0.0),
        "head_gradient": np.where((c.zero >= 3) & ~lora, 2.0 * c.vocab * c.hidden / c.tp, 0.0),
        "ends_cut": np.where((c.zero >= 3) & ~lora, 6.0 * ends, 0.0),
    }


def activations(c: Columns, *, last: bool = False) -> tuple[Floats, Floats]:
    """What is kept for the backward of every micro-batch in flight on an end stage, and what it works on.

    Under full recomputation only inputs are kept, and the layer being recomputed is worked on.
    """
    layer = layer_activations(c)
    input_bytes = 2 * c.tokens * c.hidden / np.where(c.sp > 0, c.tp, 1.0)
    each = np.where(c.full > 0, input_bytes, layer)
    on_stage = np.ceil(c.layers / (c.pp * c.vpp)) * c.vpp
    first = np.where(c.vpp > 1, c.pp * (1 + (c.pp - 1) / (c.pp * c.vpp)), c.pp)
    end = np.where(c.vpp > 1, c.pp * (1 - (c.pp - 1) / (c.pp * c.vpp)), 1.0)
    flight = np.minimum(end if last else first, c.micro_batches)
    return on_stage * flight * each, np.where(c.full > 0, layer, 0.0)


def layer_activations(c: Columns) -> Floats:
    """Bytes that one layer keeps for the backward of one micro-batch.

    Per token: both norms' inputs and outputs, queries, keys, values, attention's output, the
    feed-forward's input and its activation's input and output; eager stacks keep the gate's product and a
    copy of attention's output besides. Scores are kept only by separate kernels, and not under selective
    recomputation.
    """
    rope = c.rope_dim * (c.latent_rank > 0)
    # Quantised recipes keep the inputs of products in one byte instead of two.
    saved = np.where(c.quantised > 0, 0.5, 1.0)
    norm = 4 * (1 + saved) * c.hidden / np.where(c.sp > 0, c.tp, 1.0)
    heads = c.heads * (c.head_dim + rope) + np.where(c.latent_rank > 0, c.heads, c.kv_heads) * (
        c.head_dim + rope + c.value_dim
    )
    mla = np.where(c.latent_rank > 0, 4 * (c.query_rank + c.latent_rank), 0.0)
    out = c.heads * c.value_dim * np.where(c.eager_saves > 0, 4, 2)
    attention = (2 * heads + out + 4 * c.heads) / c.tp + mla
    # Of a state-space block the projected inputs, the convolution's results and the outputs.
    state_space = c.ssm_layers * 2 * (2 * c.ssm_projected + c.ssm_inner) / c.tp
    attention = (c.attention_layers * attention + state_space) / c.layers
    scores = np.where((c.unfused > 0) & (c.selective == 0), 5 * c.heads * c.seq_len / c.tp, 0.0)
    wide = (c.dense_layers * c.ffn + c.moe_layers * c.shared_ffn) / c.layers / c.tp
    gate = c.gated * np.where(c.eager_saves > 0, 2, 1)
    per_token = norm + attention + scores + 2 * wide * (1 + gate + saved)
    seen, local = expert_tokens(c)
    routed = seen * local * (4 * c.hidden * saved + 2 * c.expert_ffn / c.etp * (1 + gate + saved))
    return c.tokens * per_token + c.moe_layers / c.layers * routed
