"""Fit a cluster's few factors to the readings of a run, and say how well they fit.

Products give one rate factor per dtype, copies of memory one bandwidth factor, collectives one latency
factor and a bandwidth factor each, inside a node and between nodes, launches one factor of the host. What
takes no part in a fit (other kernels, clocks under load, the training step) is predicted and shown beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.calibration import Calibration, Factor, meaning_of
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.errors import InputError
from assay.predict.calibration import COPY_REACH_FRAC, calibrated_gpu
from assay.predict.kernels import gemm_rates, gemm_time_s
from assay.predict.local import predict_training
from assay.predict.network import LinkNetwork
from assay.predict.network_factors import network_factors, timed_of
from assay.predict.run_means import Mean, loaded, means_of, shape_of
from assay.stats import student_t_quantile

Floats = NDArray[np.float64]

#: dtype of a reading → dtype of the kernel model, the same units.
_DTYPES = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8"}
#: What one bare launch from PyTorch takes on the hosts behind the model's stacks; assumed, about 4 to 6 µs.
_LAUNCH_S = 5e-6
#: From so many shapes on a table may be one of kernels timed each alone.
_MANY_SHAPES = 8


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


def calibrate(readings: Sequence[Reading], cluster: Cluster, *, source: str, datasheet: bool = True) -> Fit:
    """Factors of `cluster` from the readings of a run on it; ranks fill its nodes in order.

    `datasheet` is False where the cluster itself was made from readings, so that there is no "before".
    Raises `InputError` where no reading tells anything that a prediction uses.
    """
    gpu = cluster.node.gpu
    if gpu is None:
        raise InputError(f"the GPU of {cluster.id} is not known", fix="name a shipped system with --base")
    means = means_of(readings)
    network = LinkNetwork.of(cluster)
    factors: list[Factor] = []
    missing: list[tuple[str, str]] = []
    factors += _gemm_factors(means, gpu, missing)
    factors += _memory_factor(means, gpu, missing)
    factors += network_factors(means, cluster, network, missing)
    factors += _launch_factor(means, missing)
    if not factors:
        raise InputError(
            "nothing here tells of products, memory or collectives",
            where=source,
            fix="measure with: assay measure --only gemm,memory,collectives",
        )
    calibration = Calibration(source=source, factors=tuple(factors))
    residuals = tuple(
        one
        for model in (
            _gemm_residuals,
            _clock_residuals,
            _memory_residuals,
            _network_residuals,
            _launch_residuals,
        )
        for one in model(means, cluster, calibration, datasheet)
    )
    return Fit(
        calibration=calibration,
        residuals=(*residuals, *_training_residuals(readings)),
        missing=tuple(missing),
    )


def _gemms(means: Sequence[Mean]) -> dict[str, list[Mean]]:
    """Rates of products whose shape is known, by dtype of the kernel model."""
    by_dtype: dict[str, list[Mean]] = defaultdict(list)
    for mean in loaded(means, "gemm.", ".rate"):
        dtype = _DTYPES.get(mean.quantity.split(".")[1])
        if dtype is not None and shape_of(mean.recipe) is not None:
            by_dtype[dtype].append(mean)
    return by_dtype


def _gemm_factors(means: Sequence[Mean], gpu: Gpu, missing: list[tuple[str, str]]) -> list[Factor]:
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


def _gemm_fit(some: Sequence[Mean], gpu: Gpu, dtype: str) -> tuple[float, Floats, bool]:
    """Scale, log errors left, and whether the products were timed at work or each alone.

    Tables of many shapes may hold either; the way whose errors are smaller is taken. Few shapes were
    measured in sustained windows.
    """
    ways = (True, False) if len(some) >= _MANY_SHAPES else (True,)
    fits = [(*_scale_of(_gemm_errors(some, gpu, dtype, sustained=way)), way) for way in ways]
    return min(fits, key=lambda fit: float(np.mean(np.abs(fit[1]))))


def _gemm_errors(some: Sequence[Mean], gpu: Gpu, dtype: str, *, sustained: bool) -> Callable[[float], Floats]:
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


def _factor(name: str, value: float, left: Floats, behind: Sequence[Mean]) -> Factor:
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


def _memory_factor(means: Sequence[Mean], gpu: Gpu, missing: list[tuple[str, str]]) -> list[Factor]:
    copies = loaded(means, "memory.", ".bandwidth")
    if not copies:
        missing.append(("memory.bandwidth", "no copy or triad of device memory was measured"))
        return []
    logs = np.log([mean.value / (COPY_REACH_FRAC * gpu.memory_Bps) for mean in copies])
    value = math.exp(float(np.median(logs)))
    return [_factor("memory.bandwidth", value, logs - math.log(value), copies)]


def _launches(means: Sequence[Mean]) -> list[Mean]:
    """Times of a launch from a host to its GPU; an operation on the host itself is none."""
    return [mean for mean in loaded(means, "kernel.launch.", "time") if mean.recipe.get("on") == "gpu"]


def _launch_factor(means: Sequence[Mean], missing: list[tuple[str, str]]) -> list[Factor]:
    """The host's time for one launch over that of the hosts behind the model."""
    some = _launches(means)
    if not some:
        missing.append(("host.launch", "no time of a launch from a host to its GPU was measured"))
        return []
    logs = np.log([mean.value / _LAUNCH_S for mean in some])
    value = math.exp(float(np.median(logs)))
    return [_factor("host.launch", value, logs - math.log(value), some)]


def _launch_residuals(
    means: Sequence[Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    if calibration.get("host.launch") is None:
        return
    for mean in _launches(means):
        after_s = _LAUNCH_S * calibration.value("host.launch")
        yield _residual(mean, _LAUNCH_S if datasheet else None, after_s)


def _gemm_residuals(
    means: Sequence[Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
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


def _clock_residuals(
    means: Sequence[Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    """The clock under load, against the datasheet's times the rate factor: what of it the clock explains."""
    gpu, rate = cluster.node.gpu, calibration.get("gemm.bf16.rate")
    clock_Hz = None if gpu is None else gpu.tensor_clock_Hz or gpu.boost_clock_Hz
    if rate is None or clock_Hz is None or not datasheet:
        return
    for mean in loaded(means, "gpu.sm_clock", ""):
        yield _residual(mean, clock_Hz, clock_Hz * rate.value, fitted=False)


def _memory_residuals(
    means: Sequence[Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    """Copies, and beside them the memory-bound kernels, which take no part in the fit."""
    gpu = cluster.node.gpu
    if gpu is None or calibration.get("memory.bandwidth") is None:
        return
    for prefix in ("memory.", "kernel."):
        for mean in loaded(means, prefix, ".bandwidth"):
            before = COPY_REACH_FRAC * gpu.memory_Bps
            after = before * calibration.value("memory.bandwidth")
            yield _residual(mean, before if datasheet else None, after, fitted=prefix == "memory.")


def _network_residuals(
    means: Sequence[Mean], cluster: Cluster, calibration: Calibration, datasheet: bool
) -> Iterable[Residual]:
    for one in timed_of(means, cluster, LinkNetwork.of(cluster)):
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


def _residual(mean: Mean, before: float | None, after: float, *, fitted: bool = True) -> Residual:
    return Residual(
        quantity=mean.quantity,
        recipe=mean.recipe,
        unit=mean.unit,
        measured=mean.value,
        before=before,
        after=after,
        fitted=fitted,
    )
