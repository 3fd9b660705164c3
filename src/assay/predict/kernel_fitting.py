"""Fitting the GEMM model on measured products: robust Levenberg–Marquardt on log errors, NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assay.domain.device import Gpu
from assay.predict.kernel_fits import DATASHEET_FIT
from assay.predict.kernel_model import TILES, GemmFit
from assay.predict.kernels import CAST_DTYPES, GemmRates, gemm_rates, gemm_time_s

Floats = NDArray[np.float64]

#: Parameter → lowest and highest value a fit may take.
RANGES = {
    "rate_frac": (0.2, 1.0),
    "small_tile_loss": (1e-3, 1.0),
    "ramp_k": (1.0, 800.0),
    "launch_s": (5e-7, 2e-5),
    "wave_s": (1e-8, 1e-5),
    "split_s": (1e-7, 1e-3),
    "stream_frac": (1e-3, 1.0),
    "memory_frac": (0.3, 1.0),
    "join": (1.0, 8.0),
    "throttle": (1e-4, 0.6),
    "l2_ratio": (1.0, 20.0),
    "l2_bytes": (1e6, 3e8),
    "unpaired": (1.0, 4.0),
    "cast_bytes": (1e-2, 15.0),
    "cast_row_s": (1e-11, 1e-7),
}

#: A log error beyond this counts linearly, not squared.
_HUBER = 0.1
_DIFFERENCE = 1e-3
_ROUNDS = 40
#: Numbers stay this far from the ends of their ranges, in logits.
_FAR = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """One device's measured products of one dtype; arrays of shape (rows,)."""

    gpu: Gpu
    m: Floats
    n: Floats
    k: Floats
    measured_s: Floats

    def where(self, kept: NDArray[np.bool_]) -> Products:
        """The rows of a mask."""
        m, n, k, measured_s = (side[kept] for side in (self.m, self.n, self.k, self.measured_s))
        return Products(gpu=self.gpu, m=m, n=n, k=k, measured_s=measured_s)

    def every(self, step: int) -> Products:
        """Every `step`-th row."""
        return self.where(np.arange(self.m.size) % step == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Parameters, the rate of each device against the first, and the log errors of all rows in order."""

    fit: GemmFit
    ratios: tuple[float, ...]
    errors: tuple[Floats, ...]

    @property
    def loss(self) -> float:
        """Mean over devices of mean absolute plus half the root mean square error, each row's at most 0.5."""
        sizes = [np.minimum(np.abs(e), 0.5) for e in self.errors]
        return float(np.mean([e.mean() + 0.5 * np.sqrt(np.mean(e**2)) for e in sizes]))


def errors_of(fit: GemmFit, some: Products, dtype: str, ratio: float = 1.0) -> Floats:
    """log(predicted / measured) of kernels timed alone."""
    rates = _rates(some.gpu, dtype, fit.tiles, {name: getattr(fit, name) for name in RANGES}, ratio)
    cast = dtype in CAST_DTYPES
    predicted_s = gemm_time_s(rates, some.m, some.n, some.k, sustained=False, cast=cast)
    return np.asarray(np.log(predicted_s / some.measured_s))


def fit_products(
    tables: Sequence[Products], dtype: str, *, tiles: Sequence[str] = tuple(TILES), ratios: bool = True
) -> Fitted:
    """The fit with the smallest loss among families of `tiles`; `ratios` fits one per further device."""
    fits = [_fit(tables, dtype, family, free=len(tables) - 1 if ratios else 0) for family in tiles]
    return min(fits, key=lambda one: one.loss)


def _fit(tables: Sequence[Products], dtype: str, tiles: str, *, free: int) -> Fitted:
    """The better of two descents: from the datasheet's neutral values, and from the middle of every range."""
    names = [
        name
        for name in RANGES
        if (dtype in CAST_DTYPES or not name.startswith("cast"))
        and (name != "unpaired" or tiles != "library")
    ]
    low, high = np.log(np.array([RANGES[name] for name in names])).T

    def at(z: Floats) -> Fitted:
        values = np.exp(low + (high - low) / (1 + np.exp(-z[: len(names)])))
        some = dict(zip(names, map(float, values), strict=True))
        none = {name: 1.0 if name == "unpaired" else 0.0 for name in RANGES if name not in some}
        fit = GemmFit(tiles=tiles, **(none | some))
        speeds = (1.0, *np.exp(z[len(names) :]), *np.ones(len(tables) - 1 - free))
        errors = tuple(errors_of(fit, t, dtype, float(s)) for t, s in zip(tables, speeds, strict=True))
        return Fitted(fit=fit, ratios=speeds[1:], errors=errors)

    neutral = np.log([max(float(getattr(DATASHEET_FIT, name)), 1e-12) for name in names])
    part = np.clip((neutral - low) / (high - low), 0.1, 0.9)
    starts = (np.log(part / (1 - part)), np.zeros(len(names)))
    found = [at(_descend(at, np.concatenate([start, np.zeros(free)]))) for start in starts]
    return min(found, key=lambda one: one.loss)


def _descend(at: Callable[[Floats], Fitted], z: Floats) -> Floats:
    """Levenberg–Marquardt on Huber's loss, every device counting the same."""

    def residual_of(z: Floats) -> Floats:
        return np.concatenate([e / np.sqrt(e.size) for e in at(z).errors])

    sizes = np.concatenate([np.full(e.size, 1 / np.sqrt(e.size)) for e in at(z).errors])

    def loss(residual: Floats) -> float:
        size, edge = np.abs(residual), _HUBER * sizes
        return float(np.where(size < edge, 0.5 * size**2, edge * (size - 0.5 * edge)).sum())

    residual, damping = residual_of(z), 1e-2
    for _ in range(_ROUNDS):
        moved = [residual_of(z + step) for step in np.eye(len(z)) * _DIFFERENCE]
        jacobian = np.stack([(one - residual) / _DIFFERENCE for one in moved], axis=1)
        robust = _HUBER * sizes / np.maximum(np.abs(residual), _HUBER * sizes)
        normal, gradient = jacobian.T @ (jacobian * robust[:, None]), jacobian.T @ (residual * robust)
        while damping < 1e4:
            damped = normal + damping * np.diag(np.diag(normal) + 1e-6)
            trial = np.clip(z - np.linalg.solve(damped, gradient), -_FAR, _FAR)
            if loss(after := residual_of(trial)) < loss(residual) * (1 - 1e-5):
                z, residual, damping = trial, after, damping / 4
                break
            damping *= 4
        else:
            break
    return z


def _rates(gpu: Gpu, dtype: str, tiles: str, values: dict[str, float], ratio: float) -> GemmRates:
    """The datasheet's rates of a device under other parameters than those of its table."""
    datasheet = gemm_rates([gpu], [dtype], fit=DATASHEET_FIT)
    named = {name: np.array([value]) for name, value in values.items()}
    peak = datasheet.peak_flop_per_s * ratio
    return replace(datasheet, tiles=np.array([TILES[tiles]], float), peak_flop_per_s=peak, **named)
