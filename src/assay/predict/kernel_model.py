"""Parameters of the kernel models: what each means, and between which values a fit may move it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmFit:
    """How one architecture multiplies matrices of one dtype.

    `rate_frac` of the datasheet's peak is reached inside a full tile of 256×128; a smaller tile loses
    (area/32768)^`small_tile_loss`. `ramp_k` columns of k and `wave_s` are spent filling each wave,
    `launch_s` once. `stream_frac` of the quantisation into whole waves is smoothed away (stream-k).
    `memory_frac` of the datasheet's bandwidth is reached, `l2_ratio` times it inside the L2. Compute and
    memory join as a p-norm with p = `join`. A kernel of t seconds that keeps the units busy slows by
    `throttle`·ln(1 + t/1 ms) (power). `cast_bytes` per input element is what quantising the left input
    in a kernel of its own moves.
    """

    rate_frac: float
    small_tile_loss: float
    ramp_k: float
    launch_s: float
    wave_s: float
    stream_frac: float
    memory_frac: float
    join: float
    throttle: float
    l2_ratio: float
    cast_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionFit:
    """How one architecture runs fused causal attention.

    `rate_frac` of the bf16 peak at width 128, times `ratio_64` or `ratio_256` at those widths (between
    them, log-linear). Each block of `block` queries pays for `ramp` more keys than it sees.
    """

    rate_frac: float
    ratio_64: float
    ratio_256: float
    launch_s: float
    ramp: float
    stream_frac: float
    memory_frac: float
    throttle: float
    block: int
