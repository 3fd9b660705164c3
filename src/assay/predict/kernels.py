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
from assay.predict.kernel_model import TILES, AttentionFit, GemmFit

Floats = NDArray[np.float64]

#: A chip that works without pause throttles as one kernel of this length does.
SUSTAINED_S = 10e-3

#: GEMM dtype → key of the datasheet's peak, bytes of an element of the left and of the right input. Outputs
#: are bf16. In int8-weights and int4-weights the right input alone is narrow; in int8 (SmoothQuant) both are.
_DTYPES = {
    "bf16": ("bf16", 2.0, 2.0),
    "fp8": ("fp8", 1.0, 1.0),
    "fp8-block": ("fp8", 1.0, 1.0),
    "nvfp4": ("fp4", 0.5625, 0.5625),
    "int8": ("int8", 1.0, 1.0),
    "int8-weights": ("bf16", 2.0, 1.0),
    "int4-weights": ("bf16", 2.0, 0.5),
}

#: Devices without a table of their own take their architecture's fit; without one, these neutral values.
_DEFAULT = GemmFit(
    tiles="library",
    rate_frac=0.75,
    small_tile_loss=0.1,
    ramp_k=100.0,
    launch_s=3e-6,
    wave_s=1e-6,
    split_s=2e-6,
    stream_frac=0.5,
    memory_frac=0.8,
    join=3.0,
    throttle=0.06,
    l2_ratio=5.0,
    l2_bytes=1e6,
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
    """What a GEMM of one dtype meets on each of N devices: fields of shape (N,), `tiles` of (N, ways, 3)."""

    peak_flop_per_s: Floats
    memory_Bps: Floats
    sm_count: Floats
    left_bytes: Floats
    right_bytes: Floats
    tiles: Floats
    rate_frac: Floats
    small_tile_loss: Floats
    ramp_k: Floats
    launch_s: Floats
    wave_s: Floats
    split_s: Floats
    stream_frac: Floats
    memory_frac: Floats
    join: Floats
    throttle: Floats
    l2_ratio: Floats
    l2_bytes: Floats
    unpaired: Floats
    cast_bytes: Floats
    cast_row_s: Floats


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
    rows: list[dict[str, float | NDArray[np.float64]]] = []
    for gpu, dtype in zip(gpus, dtypes, strict=True):
        key, left, right = _DTYPES[dtype]
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
            "left_bytes": left,
            "right_bytes": right,
            "tiles": np.array(TILES[fit.tiles], float),
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
    l2_Bps = rates.memory_Bps * rates.l2_ratio
    core = _tiled_time_s(rates, m, n, k, l2_Bps)
    moved = m * k * rates.left_bytes + k * n * rates.right_bytes + 2 * m * n
    memory = moved * _seconds_per_byte(rates, moved, l2_Bps, cold=sustained)
    time = (core**rates.join + memory**rates.join) ** (1 / rates.join)
    flop = 2 * m * n * k
    time = _throttled(time, flop / rates.peak_flop_per_s, rates.throttle, sustained=sustained)
    time = time + (0.0 if sustained else rates.launch_s)
    if cast:
        seconds = _seconds_per_byte(rates, m * k * (2 + rates.left_bytes), l2_Bps, cold=sustained)
        time = time + m * (k * rates.cast_bytes * seconds + rates.cast_row_s)
    return np.where(flop > 0, time, 0.0)


def _tiled_time_s(rates: GemmRates, m: Floats, n: Floats, k: Floats, l2_Bps: Floats) -> Floats:
    """Seconds that the units and the L2 take, cut in the fastest way of the device's family of tiles."""
    core = np.full(np.broadcast_shapes(m.shape, n.shape, k.shape, rates.sm_count.shape), np.inf)
    per_flop = rates.sm_count / (rates.peak_flop_per_s * rates.rate_frac)
    largest = (rates.tiles[:, :, 0] * rates.tiles[:, :, 1]).max(axis=1)
    for rows, columns, split in rates.tiles.transpose(1, 2, 0):
        area = rows * columns
        tile_rows = np.ceil(m / rows)
        tiles = tile_rows * np.ceil(n / columns)
        waves = tiles * (split / rates.sm_count)
        whole = np.ceil(waves)
        waves = whole + rates.stream_frac * (np.maximum(waves, 1.0) - whole)
        column_s = 2 * area * per_flop * (largest / area) ** rates.small_tile_loss
        time = waves * (column_s * (k / split + rates.ramp_k) + rates.wave_s)
        if np.any(split > 1):
            parts = np.where(split > 1, split, 0.0)
            time = time + m * n * (8 * parts / l2_Bps) + np.where(split > 1, rates.split_s, 0.0)
        moved = tiles * k * ((rows * rates.left_bytes + columns * rates.right_bytes) / l2_Bps)
        if np.any(rates.unpaired > 1):
            moved = moved * np.where(tile_rows % 2 == 1, rates.unpaired, 1.0)
        np.minimum(core, np.maximum(time, moved), out=core)
    return core


def _seconds_per_byte(rates: GemmRates, moved: Floats, l2_Bps: Floats, *, cold: bool) -> Floats:
    """Seconds per byte moved: from memory, or from the L2 where a kernel timed again and again leaves it.

    The part found in the L2 is 1 / (1 + (moved / l2_bytes)²): a steep but not a sharp edge.
    """
    far = 1 / (rates.memory_Bps * rates.memory_frac)
    if cold:
        return far
    found = 1 / (1 + (moved / rates.l2_bytes) ** 2)
    return np.asarray(far + found * (1 / l2_Bps - far))


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
