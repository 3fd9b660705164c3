"""The numbers that each term of a prediction was worked out from, in the symbols of its formula."""

from __future__ import annotations

from assay.predict.prediction import Prediction
from assay.units import show, show_bytes


def step_inputs(p: Prediction) -> dict[str, str]:
    """For each term of the step: m micro-batches, degrees, sizes, bandwidths; f and b are one micro-batch."""
    one = p.situation
    layout, model, gpu = one.layout, one.workload.model, one.gpu
    tokens = layout.micro_batch * one.workload.seq_len // layout.cp
    layers = model.layers / (layout.pp - 1 + p.stage.last_frac)
    both = show(p.stage.forward_s + p.stage.backward_s, "s")
    memory = f"bandwidth {show(gpu.memory_Bps, 'B/s')}"
    many = f"m={p.micro_batches}, {tokens:,} tokens, {layers:.4g} layers a stage"
    activations = show_bytes(2.0 * tokens * model.hidden)
    peak = gpu.peak(p.peak_dtype)
    fast = "" if peak is None else f", peak {show(peak, 'FLOP/s')}"
    return {
        "gemm": f"{many}, hidden {model.hidden:,}, ffn {model.ffn:,}, tp={layout.tp}{fast}",
        "attention": f"{many}, {model.heads} heads / tp, width {model.head_dim}, "
        f"{one.workload.seq_len:,} keys",
        "elementwise": f"{many}, tp={layout.tp}, {memory}",
        "quantise": f"{many}, precision={layout.precision}, {memory}",
        "head": f"{tokens:,} tokens × hidden {model.hidden:,} × {model.vocab:,} words / tp",
        "recompute": f"recompute={layout.recompute}",
        "host": f"stack {one.stack.id}, {layers:.4g} layers a stage",
        "tp": f"{many}, tp={layout.tp}, {activations} a collective",
        "cp": f"{many}, cp={layout.cp}, {model.kv_heads} heads of keys / tp",
        "ep": f"{many}, ep={layout.ep}, {model.topk} of {model.experts} experts, {activations} a copy, "
        f"imbalance {one.workload.imbalance:g}",
        "pp": f"m={p.micro_batches}, vpp={layout.vpp}, {show_bytes(p.sent.send_bytes)} "
        f"in {show(p.stage.send_s, 's')}",
        "imbalance": f"m={p.micro_batches}, last stage {p.stage.last_frac:.3g} of an inner one's layers "
        f"and a head of {show(p.stage.head_s, 's')}",
        "bubble": f"{layout.pp - 1} other stages, f + b={both}, vpp={layout.vpp}, {layout.schedule}",
        "dp_gradients": f"{show_bytes(p.sent.reduce_bytes)} in {show(p.sent.reduce_s, 's')}, "
        f"dp × cp={layout.dp * layout.cp}, {p.sent.rounds} a step, b={show(p.stage.backward_s, 's')}",
        "dp_weights": f"{show_bytes(p.sent.gather_bytes)} in {show(p.sent.gather_s, 's')}, "
        f"dp × cp={layout.dp * layout.cp}, {p.sent.rounds} a step, f={show(p.stage.forward_s, 's')}",
        "optimizer": f"sharding={layout.sharding}, {memory}",
        "step_host": f"stack {one.stack.id}",
        "input": show(p.breakdown_s["input"], "s"),
        "checkpoint": show(p.breakdown_s["checkpoint"], "s"),
        "jitter": f"{max(layout.ranks // 8, 1):,} nodes of eight GPUs",
    }


def memory_inputs(p: Prediction) -> dict[str, str]:
    """For each term of memory: what it counts, and over how many ranks."""
    one = p.situation
    layout, model = one.layout, one.workload.model
    shared = layout.shard_ranks or layout.dp * layout.cp
    ranks = f"tp × pp={layout.tp * layout.pp}"
    kept = f"{ranks}, sharding={layout.sharding}" + (f" over {shared}" if layout.sharding != "none" else "")
    tokens = layout.micro_batch * one.workload.seq_len // layout.cp
    return {
        "weights": f"{model.parameters:,} weights, {kept}",
        "gradients": f"{one.workload.trained_parameters:,} trained weights, {kept}",
        "optimizer": f"{one.workload.trained_parameters:,} trained weights, {kept}",
        "activations": f"{tokens:,} tokens, {model.layers / layout.pp:.4g} layers a stage, "
        f"up to {min(layout.pp, p.micro_batches)} micro-batches in flight, recompute={layout.recompute}",
        "logits": f"{tokens:,} tokens × {model.vocab:,} words / tp, on the last stage",
        "gathered": kept,
        "reserve": f"capacity {show_bytes(p.capacity_bytes)}",
    }
