"""Fit a cluster's few factors to the readings of a run, and say how well they fit.

Products give one rate factor per dtype, copies of memory one bandwidth factor, collectives a latency and a
bandwidth factor inside a node and between nodes, the training benchmark the host's launch cost. What takes
no part in a fit (other kernels, point-to-point copies, the training step) is predicted and shown beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.calibration import COLLECTIVES, Calibration, Factor, meaning_of
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.predict.calibration import COPY_REACH_FRAC, calibrated_gpu, parts_s
from assay.predict.kernels import gemm_rates, gemm_time_s
from assay.predict.local import predict_training
from assay.predict.network import LinkNetwork, Network
from assay.stats import student_t_quantile

Floats = NDArray[np.float64]

#: dtype of a reading → dtype of the kernel model, the same units.
_DTYPES = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8"}
#: From so many shapes on a table may be one of kernels timed each alone.
_MANY_SHAPES = 8
#: Log errors beyond this count linearly in the fit of the collectives.
_HUBER = 0.1
_ROUNDS = 12
#: No part of a time vanishes altogether.
_LEAST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One measured value, and the model's before and after the fit; `fitted` says whether it took part.

    `before` is None where no datasheet stands behind the model.
    """

    quantity: str
    recipe: Recipe
    unit: str
    measured: float
    before: float | None
    after: float
    fitted: bool

    @property
    def before_error_frac(self) -> float | None:
        """before / measured − 1."""
        return None if self.before is None else self.before / self.measured - 1

    @property
    def after_error_frac(self) -> float:
        """after / measured − 1."""
        return self.after / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityFit:
    """Errors of one quantity: median and largest absolute, and the median signed one."""

    quantity: str
    n: int
    fitted: bool
    before_frac: float | None
    after_frac: float
    worst_frac: float
    bias_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The calibration, every residual, and what could not be fitted, each with its reason."""

    calibration: Calibration
    residuals: tuple[Residual, ...]
    missing: tuple[tuple[str, str], ...]

    @property
    def parameters(self) -> tuple[tuple[Factor, str], ...]:
        """Each factor with what it multiplies."""
        return tuple((factor, meaning_of(factor.name)) for factor in self.calibration.factors)

    @property
    def by_quantity(self) -> tuple[QuantityFit, ...]:
        """The residuals summed up, in the order in which quantities came."""
        found = []
        for quantity in dict.fromkeys(r.quantity for r in self.residuals):
            some = [r for r in self.residuals if r.quantity == quantity]
            before = [abs(r.before_error_frac) for r in some if r.before_error_frac is not None]
            after = np.array([r.after_error_frac for r in some])
            found.append(
                QuantityFit(
                    quantity=quantity,
                    n=len(some),
                    fitted=some[0].fitted,
                    before_frac=float(np.median(before)) if before else None,
                    after_frac=float(np.median(np.abs(after))),
                    worst_frac=float(np.abs(after).max()),
                    bias_frac=float(np.median(after)),
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """The mean over restarts of one quantity, recipe and (the slowest) subject; `logs` are the restarts'."""

    quantity: str
    recipe: Recipe
    unit: str
    value: float
    logs: Floats


def calibrate(readings: Sequence[Reading], cluster: Cluster, *, source: str, datasheet: bool = True) -> Fit:
    """Factors of `cluster` from the readings of a run on it; ranks fill its nodes in order.

    `datasheet` is False where the cluster itself was made from readings, so that there is no "before".
    Raises `InputError` where no reading tells anything that a prediction uses.
    """
    gpu = cluster.node.gpu
    if gpu is None:
        raise InputError(f"the GPU of {cluster.id} is not known", fix="name a shipped system with --base")
    means = _means(readings)
    network = LinkNetwork.of(cluster)
    factors: list[Factor] = []
    missing: list[tuple[str, str]] = []
    factors += _gemm_factors(means, gpu, missing)
    factors += _memory_factor(means, gpu, missing)
    factors += _network_factors(means, cluster, network, missing)
    if not factors:
        raise InputError(
            "nothing here tells of products, memory or collectives",
            where=source,
            fix="measure with: assay measure --only gemm,memory,collectives",
        )
    calibration = Calibration(source=source, factors=tuple(factors))
    residuals = tuple(
        one
        for model in (_gemm_residuals, _memory_residuals, _network_residuals)
        for one in model(means, cluster, calibration, datasheet)
    )
    return Fit(
        calibration=calibration,
        residuals=(*residuals, *_training_residuals(readings)),
        missing=tuple(missing),
    )


def _means(readings: Iterable[Reading]) -> list[_Mean]:
    """One mean for each quantity and recipe: the slowest subject's, after its noise is shrunk away.

    A synchronous step waits for the slowest card. The lowest of many noisy means is too low, so each mean is
    drawn to the median by the part of the spread that restarts explain (James and Stein 1961).
    """
    values: dict[tuple[str, Recipe], dict[Subject, list[float]]] = defaultdict(lambda: defaultdict(list))
    units: dict[tuple[str, Recipe], str] = {}
    for r in readings:
        if r.origin is Origin.MEASURED and r.number is not None and r.number > 0:
            values[r.quantity, r.recipe][r.subject].append(r.number)
            units[r.quantity, r.recipe] = r.unit
    found = []
    for (quantity, recipe), by_subject in values.items():
        logs = [np.log(several) for several in by_subject.values()]
        slow_is = -1.0 if quantity.endswith(("time", "latency")) else 1.0
        at, level = _slowest([slow_is * one for one in logs])
        found.append(
            _Mean(
                quantity=quantity,
                recipe=recipe,
                unit=units[quantity, recipe],
                value=math.exp(slow_is * level),
                logs=logs[at] - logs[at].mean(),
            )
        )
    return found


def _slowest(logs: Sequence[Floats]) -> tuple[int, float]:
    """Index of the subject with the lowest mean, and its mean drawn to the median."""
    means = np.array([one.mean() for one in logs])
    at = int(np.argmin(means))
    if len(logs) < 3:
        return at, float(means[at])
    noise = float(np.mean([one.var(ddof=1) / one.size if one.size > 1 else 0.0 for one in logs]))
    spread = float(means.var(ddof=1))
    keep = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    middle = float(np.median(means))
    return at, middle + keep * (float(means[at]) - middle)


def _loaded(means: Sequence[_Mean], prefix: str, suffix: str) -> list[_Mean]:
    """Readings with all ranks at work where there are any, else those that do not say otherwise."""
    every = [m for m in means if m.quantity.startswith(prefix) and m.quantity.endswith(suffix)]
    together = [m for m in every if m.recipe.get("load") == "all"]
    return together or every


def shape_of(recipe: Recipe) -> tuple[int, int, int] | None:
    """(m, n, k) of a recipe's `shape`, or None."""
    parts = str(recipe.get("shape") or "").split("x")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        return None
    m, n, k = map(int, parts)
    return m, n, k


def _gemms(means: Sequence[_Mean]) -> dict[str, list[_Mean]]:
    """Rates of products whose shape is known, by dtype of the kernel model."""
    by_dtype: dict[str, list[_Mean]] = defaultdict(list)
    for mean in _loaded(means, "gemm.", ".rate"):
        dtype = _DTYPES.get(mean.quantity.split(".")[1])
        if dtype is not None and shape_of(mean.recipe) is not None:
            by_dtype[dtype].append(mean)
    return by_dtype


def _gemm_factors(means: Sequence[_Mean], gpu: Gpu, missing: list[tuple[str, str]]) -> list[Factor]:
    """Rate factors: the scale of the peak under which the model's rates meet the measured ones."""
    found = []
    by_dtype = _gemms(means)
    for dtype, some in by_dtype.items():
        try:
            scale, left, _ = _gemm_fit(some, gpu, dtype)
        except InputError as fault:
            missing.append((f"gemm.{dtype}.rate", fault.what))
            continue
        found.append(_factor(f"gemm.{dtype}.rate", scale, left, some))
    if not by_dtype:
        missing.append(("gemm.bf16.rate", "no rate of a bf16, fp16 or fp8 product with its shape"))
    return found


def _gemm_fit(some: Sequence[_Mean], gpu: Gpu, dtype: str) -> tuple[float, Floats, bool]:
    """Scale, log errors left, and whether the products were timed at work or each alone.

    Tables of many shapes may hold either; the way whose errors are smaller is taken. Few shapes were
    measured in sustained windows.
    """
    ways = (True, False) if len(some) >= _MANY_SHAPES else (True,)
    fits = [(*_scale_of(_gemm_errors(some, gpu, dtype, sustained=way)), way) for way in ways]
    return min(fits, key=lambda fit: float(np.mean(np.abs(fit[1]))))


def _gemm_errors(
    some: Sequence[_Mean], gpu: Gpu, dtype: str, *, sustained: bool
) -> Callable[[float], Floats]:
    """log(measured rate / model's rate) of every shape, by the scale of the peak."""
    shapes = np.array([shape_of(mean.recipe) for mean in some], float).T
    measured = np.array([mean.value for mean in some])

    def errors(scale: float) -> Floats:
        factor = Calibration(source="", factors=(Factor(name=f"gemm.{dtype}.rate", value=scale),))
        scaled = calibrated_gpu(gpu, factor)
        return np.asarray(np.log(measured / _gemm_rate(scaled, dtype, shapes, sustained=sustained)))

    return errors


def _gemm_rate(gpu: Gpu, dtype: str, shapes: Floats, *, sustained: bool) -> Floats:
    m, n, k = shapes
    return np.asarray(2 * m * n * k / gemm_time_s(gemm_rates([gpu], [dtype]), m, n, k, sustained=sustained))


def _scale_of(errors: Callable[[float], Floats]) -> tuple[float, Floats]:
    """The scale at which the median error is nothing, and the errors that are left."""
    scale = 1.0
    left = errors(scale)
    for _ in range(30):
        step = float(np.median(left))
        if abs(step) < 1e-6:
            break
        scale *= math.exp(step)
        left = errors(scale)
    return scale, left


def _factor(name: str, value: float, left: Floats, behind: Sequence[_Mean]) -> Factor:
    """A factor with its 95 % interval: over several recipes from their scatter, else from the restarts'."""
    scatter = left if left.size > 2 else behind[0].logs
    if scatter.size < 2:
        return Factor(name=name, value=value, n=sum(mean.logs.size for mean in behind))
    half = student_t_quantile(0.975, scatter.size - 1) * float(scatter.std(ddof=1)) / math.sqrt(scatter.size)
    return Factor(
        name=name,
        value=value,
        low=value * math.exp(-half),
        high=value * math.exp(half),
        n=sum(mean.logs.size for mean in behind),
    )


def _memory_factor(means: Sequence[_Mean], gpu: Gpu, missing: list[tuple[str, str]]) -> list[Factor]:
    copies = _loaded(means, "memory.", ".bandwidth")
    if not copies:
        missing.append(("memory.bandwidth", "no copy or triad of device memory was measured"))
        return []
    logs = np.log([mean.value / (COPY_REACH_FRAC * gpu.memory_Bps) for mean in copies])
    value = math.exp(float(np.median(logs)))
    return [_factor("memory.bandwidth", value, logs - math.log(value), copies)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """A collective's measured time beside its model's latency and transfer, and whether it crosses nodes."""

    mean: _Mean
    first_s: float
    rest_s: float
    far: bool


def _timed(means: Sequence[_Mean], cluster: Cluster, network: Network) -> list[_Timed]:
    width = len(cluster.node.gpus)
    found = []
    for mean in means:
        parts = mean.quantity.split(".")
        size, ranks = mean.recipe.get("bytes"), mean.recipe.get("ranks")
        usable = parts[0] == "collective" and parts[-1] == "time" and parts[1] in COLLECTIVES
        steady = mean.recipe.get("method") == "pipelined" and mean.recipe.get("statistic") == "mean"
        if not (usable and steady and isinstance(size, int) and isinstance(ranks, int) and ranks > 1):
            continue
        first, rest = parts_s(network, parts[1], float(size), ranks, 1)
        found.append(
            _Timed(
                mean=mean, first_s=first.item(), rest_s=rest.item(), far=ranks > width * cluster.domain_nodes
            )
        )
    return found


def _network_factors(
    means: Sequence[_Mean], cluster: Cluster, network: Network, missing: list[tuple[str, str]]
) -> list[Factor]:
    timed = _timed(means, cluster, network)
    found: list[Factor] = []
    for place, far in (("node", False), ("network", True)):
        here = [one for one in timed if one.far is far]
        if here:
            found += _place_factors(place, here)
        else:
            missing.append((f"{place}.bandwidth", f"no collective {'between' if far else 'inside'} nodes"))
    return found


def _place_factors(place: str, here: Sequence[_Timed]) -> list[Factor]:
    """One latency and each operation's bandwidth by least squares of relative errors, outliers counting less.

    t = a·latency + transfer/b is linear in a and every 1/b. What the sizes do not tell stays as the model has
    it: a factor is free where its part is a fifth or more of some time.
    """
    ops = sorted({one.mean.quantity.split(".")[1] for one in here})
    names = [f"{place}.latency", *(f"{place}.{op}.bandwidth" for op in ops)]
    wanted = np.array([one.mean.value for one in here])
    parts = np.zeros((len(here), len(names)))
    parts[:, 0] = [one.first_s for one in here]
    for row, one in enumerate(here):
        parts[row, 1 + ops.index(one.mean.quantity.split(".")[1])] = one.rest_s
    share = parts / parts.sum(axis=1, keepdims=True)
    free = [at for at in range(len(names)) if share[:, at].max() > 0.2]
    if len(free) > len(here):
        free.remove(0)
    values, spread = _relative_fit(parts / wanted[:, None], free)
    found = []
    for at in free:
        value, low, high = values[at], values[at] - spread[at], values[at] + spread[at]
        told = math.isfinite(low) and low > 0
        if at:
            value, low, high = 1 / value, 1 / high, 1 / low if told else math.nan
        n = int((parts[:, at] > 0).sum())
        ends = {"low": low, "high": high} if told else {}
        found.append(Factor(name=names[at], value=value, n=n, **ends))
    return found


def _relative_fit(parts: Floats, free: Sequence[int]) -> tuple[list[float], list[float]]:
    """Coefficients near which parts·x = 1, and the half-widths of their 95 % intervals (NaN: not known)."""
    count = parts.shape[1]
    values = np.ones(count)
    kept = [at for at in range(count) if at not in free]
    goal = 1 - parts[:, kept].sum(axis=1)
    matrix = parts[:, list(free)]
    weight = np.ones(len(parts))
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)[:, None]
        solution = np.linalg.lstsq(matrix * root, goal * root[:, 0], rcond=None)[0]
        values[list(free)] = np.maximum(solution, _LEAST)
        errors = parts @ values - 1
        weight = _HUBER / np.maximum(np.abs(errors), _HUBER)
    spread = np.full(count, np.nan)
    df = len(parts) - len(free)
    if df > 0:
        gram = matrix.T @ (matrix * weight[:, None])
        variance = float((weight * errors**2).sum()) / df
        deviation = np.sqrt(np.diag(np.linalg.pinv(gram)) * variance)
        spread[list(free)] = student_t_quantile(0.975, df) * deviation
    return values.tolist(), spread.tolist()


def _gemm_residuals(
    means: Sequence[_Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    gpu = cluster.node.gpu
    for dtype, some in _gemms(means).items():
        if gpu is None or calibration.get(f"gemm.{dtype}.rate") is None:
            continue
        sustained = _gemm_fit(some, gpu, dtype)[2]
        shapes = np.array([shape_of(mean.recipe) for mean in some], float).T
        before = _gemm_rate(gpu, dtype, shapes, sustained=sustained)
        after = _gemm_rate(calibrated_gpu(gpu, calibration), dtype, shapes, sustained=sustained)
        for mean, old, new in zip(some, before.tolist(), after.tolist(), strict=True):
            yield _residual(mean, old if datasheet else None, new)


def _memory_residuals(
    means: Sequence[_Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    """Copies, and beside them the memory-bound kernels, which take no part in the fit."""
    gpu = cluster.node.gpu
    if gpu is None or calibration.get("memory.bandwidth") is None:
        return
    for prefix in ("memory.", "kernel."):
        for mean in _loaded(means, prefix, ".bandwidth"):
            before = COPY_REACH_FRAC * gpu.memory_Bps
            after = before * calibration.value("memory.bandwidth")
            yield _residual(mean, before if datasheet else None, after, fitted=prefix == "memory.")


def _network_residuals(
    means: Sequence[_Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    for one in _timed(means, cluster, LinkNetwork.of(cluster)):
        place, op = "network" if one.far else "node", one.mean.quantity.split(".")[1]
        latency, bandwidth = (
            calibration.value(f"{place}.latency"),
            calibration.like(f"{place}.{op}.bandwidth"),
        )
        after = latency * one.first_s + one.rest_s / bandwidth
        yield _residual(one.mean, one.first_s + one.rest_s if datasheet else None, after)


def _training_residuals(readings: Sequence[Reading]) -> list[Residual]:
    """The run's own training benchmark from its parts: it takes no part in any fit."""
    found = []
    for predicted in predict_training(readings):
        values = [
            r.number
            for r in readings
            if r.quantity == predicted.quantity
            and r.recipe == predicted.recipe
            and r.origin is Origin.MEASURED
            and r.number is not None
        ]
        if values and predicted.number is not None:
            found.append(
                Residual(
                    quantity=predicted.quantity,
                    recipe=predicted.recipe,
                    unit=predicted.unit,
                    measured=sum(values) / len(values),
                    before=None,
                    after=predicted.number,
                    fitted=False,
                )
            )
    return found


def _residual(mean: _Mean, before: float | None, after: float, *, fitted: bool = True) -> Residual:
    return Residual(
        quantity=mean.quantity,
        recipe=mean.recipe,
        unit=mean.unit,
        measured=mean.value,
        before=before,
        after=after,
        fitted=fitted,
    )
