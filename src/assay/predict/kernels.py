"""Time of single kernels on one GPU: matrix products, fused attention, and memory traffic.

All functions take arrays and broadcast: shapes (kernels, layouts) against rates of shape (layouts,).
The GEMM picks the fastest of a few tiles, as a library's heuristic does, counts waves over the SMs, and
joins compute with compulsory memory traffic. Formulas and limits: docs/models/kernels.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.domain.device import Gpu
from assay.errors import InputError
from assay.predict.kernel_fits import ATTENTION_FITS, DEVICE_RATIO, GEMM_ERRORS, GEMM_FITS
from assay.predict.kernel_model import AttentionFit, GemmFit

Floats = NDArray[np.float64]

#: Tile rows, tile columns, and into how many parts k is split.
_TILES = (
    (256, 128, 1),
    (128, 256, 1),
    (128, 128, 1),
    (128, 64, 1),
    (64, 128, 1),
    (64, 64, 1),
    (128, 128, 2),
    (128, 128, 4),
    (128, 128, 8),
    (128, 64, 4),
    (64, 64, 8),
)

#: A chip that works without pause throttles as one kernel of this length does.
SUSTAINED_S = 10e-3

#: GEMM dtype → key of the datasheet's peak, bytes of an input element. Outputs are bf16.
_DTYPES = {"bf16": ("bf16", 2.0), "fp8": ("fp8", 1.0), "fp8-block": ("fp8", 1.0), "nvfp4": ("fp4", 0.5625)}

#: Devices without a table of their own take their architecture's fit; without one, these neutral values.
_DEFAULT = GemmFit(
    rate_frac=0.75,
    small_tile_loss=0.1,
    ramp_k=100.0,
    launch_s=3e-6,
    wave_s=1e-6,
    stream_frac=0.5,
    memory_frac=0.8,
    join=3.0,
    throttle=0.06,
    l2_ratio=5.0,
    cast_bytes=4.0,
)
_DEFAULT_ATTENTION = AttentionFit(
    rate_frac=0.5,
    ratio_64=0.75,
    ratio_256=1.0,
    launch_s=2e-5,
    ramp=300.0,
    stream_frac=0.3,
    memory_frac=0.5,
    throttle=0.02,
    block=128,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRates:
    """What a GEMM of one dtype meets on each of N devices; every field has shape (N,)."""

    peak_flop_per_s: Floats
    memory_Bps: Floats
    sm_count: Floats
    input_bytes: Floats
    rate_frac: Floats
    small_tile_loss: Floats
    ramp_k: Floats
    launch_s: Floats
    wave_s: Floats
    stream_frac: Floats
    memory_frac: Floats
    join: Floats
    throttle: Floats
    l2_ratio: Floats
    cast_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionRates:
    """What fused attention meets on each of N devices; every field has shape (N,)."""

    peak_flop_per_s: Floats
    memory_Bps: Floats
    sm_count: Floats
    rate_frac: Floats
    ratio_64: Floats
    ratio_256: Floats
    launch_s: Floats
    ramp: Floats
    stream_frac: Floats
    memory_frac: Floats
    throttle: Floats
    block: Floats


def gemm_rates(gpus: Sequence[Gpu], dtypes: Sequence[str]) -> GemmRates:
    """Rates for each pair of device and dtype; raises `InputError` where the device has no such unit."""
    rows: list[dict[str, float]] = []
    for gpu, dtype in zip(gpus, dtypes, strict=True):
        key, size = _DTYPES[dtype]
        # fp16 runs on the same units at the same rate; older cards have it alone.
        peak = gpu.peak(key) or (gpu.peak("fp16") if key == "bf16" else None)
        if peak is None:
            raise InputError(
                f"{gpu.id} has no {key} rate: {gpu.why_no_peak(key)}", fix="use another precision"
            )
        fit = GEMM_FITS.get((_family(gpu), dtype), _DEFAULT)
        row = {entry.name: getattr(fit, entry.name) for entry in fields(GemmFit)}
        row |= {
            "peak_flop_per_s": peak * DEVICE_RATIO.get((gpu.id, dtype), 1.0),
            "memory_Bps": gpu.memory_Bps,
            "sm_count": _sms(gpu),
            "input_bytes": size,
        }
        rows.append(row)
    return GemmRates(**{name: np.array([row[name] for row in rows], float) for name in rows[0]})


def attention_rates(gpus: Sequence[Gpu], dtype: str = "bf16") -> AttentionRates:
    """Rates of fused attention for each device."""
    rows: list[dict[str, float]] = []
    for gpu in gpus:
        peak = gpu.peak("bf16") or gpu.peak_flop_per_s["fp16"]
        fit = ATTENTION_FITS.get((_family(gpu), dtype), _DEFAULT_ATTENTION)
        row = {entry.name: float(getattr(fit, entry.name)) for entry in fields(AttentionFit)}
        row |= {"peak_flop_per_s": peak, "memory_Bps": gpu.memory_Bps, "sm_count": _sms(gpu)}
        rows.append(row)
    return AttentionRates(**{name: np.array([row[name] for row in rows], float) for name in rows[0]})


def fit_error(gpu: Gpu, dtype: str) -> tuple[float, float]:
    """Median and 90th percentile of the GEMM fit's absolute error; wider where no table covers the device."""
    if (gpu.id, dtype) in GEMM_ERRORS:
        return GEMM_ERRORS[gpu.id, dtype]
    return (0.1, 0.25) if (_family(gpu), dtype) in GEMM_FITS else (0.2, 0.5)


def gemm_time_s(
    rates: GemmRates, m: ArrayLike, n: ArrayLike, k: ArrayLike, *, sustained: bool = True, cast: bool = False
) -> Floats:
    """Seconds of an (m × k)·(k × n) product; 0 where a side is 0.

    `sustained` takes the clocks of a chip that never rests, else those of a kernel timed alone with its
    launch. `cast` adds the quantisation of the left input from bf16 in a kernel of its own.
    """
    m, n, k = (np.asarray(side, float) for side in (m, n, k))
    core = np.full(np.broadcast_shapes(m.shape, n.shape, k.shape, rates.sm_count.shape), np.inf)
    l2_Bps = rates.memory_Bps * rates.l2_ratio
    per_flop = rates.sm_count / (rates.peak_flop_per_s * rates.rate_frac)
    for rows, columns, split in _TILES:
        area = rows * columns
        tiles = np.ceil(m / rows) * np.ceil(n / columns)
        waves = tiles * (split / rates.sm_count)
        whole = np.ceil(waves)
        waves = whole + rates.stream_frac * (np.maximum(waves, 1.0) - whole)
        slower = (32768 / area) ** rates.small_tile_loss if area < 32768 else 1.0
        tile_s = (2 * area * per_flop * slower) * (k / split + rates.ramp_k) + rates.wave_s
        time = waves * tile_s
        if split > 1:
            time = time + m * n * (8 * split / l2_Bps)
        moved = tiles * k * ((rows + columns) * rates.input_bytes / l2_Bps)
        np.minimum(core, np.maximum(time, moved), out=core)
    memory = ((m * k + k * n) * rates.input_bytes + 2 * m * n) / (rates.memory_Bps * rates.memory_frac)
    time = (core**rates.join + memory**rates.join) ** (1 / rates.join)
    flop = 2 * m * n * k
    time = _throttled(time, flop / rates.peak_flop_per_s, rates.throttle, sustained=sustained)
    time = time + (0.0 if sustained else rates.launch_s)
    if cast:
        time = time + m * k * rates.cast_bytes / rates.memory_Bps
    return np.where(flop > 0, time, 0.0)


def attention_time_s(
    rates: AttentionRates,
    batch: ArrayLike,
    queries: ArrayLike,
    heads: ArrayLike,
    kv_heads: ArrayLike,
    width: ArrayLike,
    *,
    value_width: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    sustained: bool = True,
) -> Floats:
    """Seconds of fused causal attention, forward: `queries` rows against as many keys, half of them masked.

    `keys` is the mean number of keys that a query sees where that is not (queries + 1) / 2: context
    parallelism, windows and packed documents change it.
    """
    batch, queries, heads, kv_heads, width = (
        np.asarray(side, float) for side in (batch, queries, heads, kv_heads, width)
    )
    value = width if value_width is None else np.asarray(value_width, float)
    seen = queries / 2 if keys is None else np.asarray(keys, float)
    log_width = np.log2(np.clip(width, 64, 256)) - 7
    ratio = np.where(log_width < 0, rates.ratio_64**-log_width, rates.ratio_256**log_width)
    waves = batch * heads * np.ceil(queries / rates.block) / rates.sm_count
    whole = np.ceil(waves)
    waves = whole + rates.stream_frac * (np.maximum(waves, 1.0) - whole)
    pairs = rates.block * (seen + rates.block / 2 + rates.ramp)
    flop_per_s = rates.peak_flop_per_s * rates.rate_frac * ratio
    compute = waves * pairs * 2 * (width + value) * rates.sm_count / flop_per_s
    moved = batch * queries * 2 * (heads + kv_heads) * (width + value)
    time = np.hypot(compute, moved / (rates.memory_Bps * rates.memory_frac))
    ideal = 2 * batch * heads * queries * seen * (width + value) / rates.peak_flop_per_s
    time = _throttled(time, ideal, rates.throttle, sustained=sustained)
    return time + (0.0 if sustained else rates.launch_s)


def _throttled(time: Floats, ideal: Floats, throttle: Floats, *, sustained: bool) -> Floats:
    """Time under the power limit: a busy chip slows with the logarithm of how long it has been busy."""
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = np.where(time > 0, ideal / time, 0.0)
    held = np.log1p(SUSTAINED_S / 1e-3) if sustained else np.log1p(time / 1e-3)
    return time * (1 + throttle * held * busy)


def _family(gpu: Gpu) -> str:
    return gpu.architecture


def _sms(gpu: Gpu) -> float:
    """Streaming multiprocessors; where no document counts them, as many as the peak implies on Blackwell."""
    if gpu.sm_count is not None:
        return float(gpu.sm_count)
    return float(round(gpu.peak_flop_per_s["fp16"] / 16.4e12))
