"""For each term of a step and of memory: the formula, and where it comes from (docs/models has the rest)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """How a term is computed and the source of the formula or of its parameters."""

    formula: str
    source: str


_TABLES = "fitted on AIConfigurator's measured tables (Apache-2.0), validation/kernels"

STEP: dict[str, Reason] = {
    "gemm": Reason("waves × (2·tile·(k + ramp)/rate + fill), joined with bytes/bandwidth, × power", _TABLES),
    "attention": Reason("blocks × keys seen × 4·width / rate, forward; × a fitted ratio, backward", _TABLES),
    "elementwise": Reason("bytes of norms, activations, residuals, gradient sums / bandwidth", "layers.md"),
    "quantise": Reason("bytes read, written and transposed per quantised element / bandwidth", "layers.md"),
    "head": Reason("three products with the vocabulary, and bytes per logit of the loss", "layers.md"),
    "recompute": Reason("forward of what is recomputed, its traffic included", "Korthikanti 2022"),
    "host": Reason("(device⁴ + host⁴)^¼ − device, and the gap between two kernels", "layers.md"),
    "tp": Reason("2 gathers and 2 scatters (or 2 all-reduces) a layer and way, less overlap",
                 "Narayanan 2021; Korthikanti 2022"),
    "cp": Reason("gather of keys and values; exposed tail", "layers.md"),
    "ep": Reason("2 all-to-alls a layer and way, tokens once per node by stack", "layers.md"),
    "pp": Reason("2·vpp sends a micro-batch, hidden where interleaved", "Narayanan 2021"),
    "imbalance": Reason("m × (busiest − inner stage): uneven layers, output head", "step.md"),
    "bubble": Reason("the other stages' time for one micro-batch / vpp, a send a stage", "Narayanan 2021"),
    "dp_gradients": Reason("reduce-scatter of gradients, less the backward behind it", "ZeRO; step.md"),
    "dp_weights": Reason("all-gather of weights, less the forward that may hide it", "ZeRO; step.md"),
    "optimizer": Reason("34 bytes per weight held / bandwidth (norm of gradients included)", "step.md"),
    "step_host": Reason("host work once a step, by stack", "stacks.md"),
    "input": Reason("what a step waits for data, as given", "input"),
    "checkpoint": Reason("a step's share of a blocking checkpoint, as given", "input"),
    "jitter": Reason("σ·√(2 ln nodes) × the step: expected maximum of normal deviates", "step.md"),
}  # fmt: skip

MEMORY: dict[str, Reason] = {
    "weights": Reason("2 bytes per weight (4 under ZeRO-3), a byte more where fp8 copies exist",
                      "ZeRO; memory.md"),
    "gradients": Reason("2 or 4 bytes per trained weight, over the group from ZeRO-2", "ZeRO; memory.md"),
    "optimizer": Reason("12 bytes per trained weight, sharded from ZeRO-1 (8 under ZeRO-3)", "ZeRO"),
    "activations": Reason("bytes a layer keeps × layers × micro-batches in flight",
                          "Korthikanti 2022; memory.md"),
    "logits": Reason("10 bytes per logit", "memory.md"),
    "gathered": Reason("two whole layers of weights and one of gradients under ZeRO-3", "memory.md"),
    "reserve": Reason("2.5 GiB outside the allocator and 4 % lost to fragments", "memory.md"),
}  # fmt: skip
