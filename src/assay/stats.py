"""The statistics of judging: intervals, families of tests, outliers. NumPy only, vectorised over subjects.

SciPy serves as the oracle in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

#: Consistency of the median absolute deviation with the normal standard deviation, 1/Φ⁻¹(3/4).
MAD_TO_SIGMA = 1.4826022185056018

#: A p99 needs this many samples: below, fewer than three lie beyond it.
SAMPLES_FOR_P99 = 300


@cache
def _normal_table() -> tuple[Floats, Floats]:
    x = np.linspace(-9.0, 9.0, 18001)
    return x, np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in x])


def normal_cdf(x: ArrayLike) -> Floats:
    """Φ(x), to 2e-8, by linear interpolation in a table of `math.erfc`."""
    grid, table = _normal_table()
    return np.asarray(np.interp(np.asarray(x, dtype=float), grid, table))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta I_x(a, b), by Lentz's continued fraction on the side where it converges."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    tiny = 1e-300
    c, d = 1.0, 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    h = d
    for m in range(1, 1000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / ((1.0 + step * d) or tiny)
            c = (1.0 + step / c) or tiny
            h *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * h / a


def _student_t_tail(t: float, df: float) -> float:
    """P(T > t) for one value."""
    if df > 1e6 or math.isinf(t):
        return 0.5 * math.erfc(t / math.sqrt(2.0))
    square = t * t
    if square < df:  # far from the tail, 1 − x is small and must not be formed by subtraction
        middle = _incomplete_beta(0.5, df / 2, square / (df + square)) / 2
        return 0.5 - middle if t >= 0 else 0.5 + middle
    tail = _incomplete_beta(df / 2, 0.5, df / (df + square)) / 2
    return tail if t >= 0 else 1.0 - tail


def student_t_sf(t: ArrayLike, df: ArrayLike) -> Floats:
    """P(T > t) for Student's t with `df` degrees of freedom; infinite `df` is the normal."""
    t_values, df_values = np.broadcast_arrays(np.asarray(t, dtype=float), np.asarray(df, dtype=float))
    tails = [
        _student_t_tail(a, b)
        for a, b in zip(t_values.ravel().tolist(), df_values.ravel().tolist(), strict=True)
    ]
    return np.array(tails).reshape(t_values.shape)


@cache
def student_t_quantile(p: float, df: float) -> float:
    """The value that Student's t stays under with probability `p` (0.5 ≤ p < 1), by bisection."""
    if not 0.5 <= p < 1 or not df > 0:
        raise ValueError(f"p {p} is not in 0.5 … 1, or df {df} is not positive")
    low, high = 0.0, 1.0
    while _student_t_tail(high, df) > 1 - p:
        low, high = high, high * 4
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_t_tail(middle, df) > 1 - p else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Estimates:
    """Means of a family of subjects with what is known of their noise; arrays of one value per subject.

    `standard_error` is NaN and `df` 0 where a subject has a single value and nothing else tells its noise.
    """

    mean: Floats
    standard_error: Floats
    df: Floats
    n: NDArray[np.int64]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Two-sided intervals, NaN where there are none."""
        known = self.df > 0
        t = np.full(self.mean.shape, np.nan)
        for df in np.unique(self.df[known]):
            t[self.df == df] = student_t_quantile(0.5 + level / 2, float(df))
        half = t * self.standard_error
        return self.mean - half, self.mean + half

    def p_below(self, bound: ArrayLike) -> Floats:
        """P-values for "the true mean is at least `bound`": small when it is shown to lie below."""
        return self._tail(np.asarray(bound, dtype=float) - self.mean)

    def p_above(self, bound: ArrayLike) -> Floats:
        """P-values for "the true mean is at most `bound`": small when it is shown to lie above."""
        return self._tail(self.mean - np.asarray(bound, dtype=float))

    def _tail(self, excess: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.standard_error > 0, excess / self.standard_error, np.inf * np.sign(excess))
        p = student_t_sf(np.where(np.isnan(t), 0.0, t), np.maximum(self.df, 1.0))
        p = np.where((self.standard_error == 0) & (excess == 0), 1.0, p)
        return np.where(self.df > 0, p, np.nan)


def estimate_family(values: Sequence[ArrayLike], *, relative: bool = True) -> Estimates:
    """Means over restarts of every subject of a family, with moderated variances.

    `values` has an array of restarts per subject. With three to five restarts a subject's own variance is
    poorly known, so it is shrunk towards that of its siblings by the empirical-Bayes estimate of Smyth
    (2004, Statistical Applications in Genetics and Molecular Biology 3:1, section 6.2), in units relative
    to the mean; a subject whose noise is truly larger keeps most of its own. Families of fewer than four
    subjects pool their variances. `relative` false compares noise in the values' own unit, which is right
    for values of either sign, such as offsets from zero.
    """
    arrays = [np.asarray(v, dtype=float) for v in values]
    n = np.array([a.size for a in arrays], dtype=np.int64)
    mean, own = _moments(arrays)
    scale = np.where(relative & (mean != 0), np.abs(mean), 1.0)
    own = own / scale**2
    df = (n - 1).astype(float)
    variance, total_df = moderate(own, df)
    with np.errstate(invalid="ignore"):
        error = np.sqrt(variance / n) * scale
    return Estimates(mean, np.where(total_df > 0, error, np.nan), total_df, n)


def _moments(arrays: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean and variance of each array, 0 for the variance of one value; at once where all are as long."""
    sizes = {a.size for a in arrays}
    if len(sizes) == 1 and sizes != {1}:
        table = np.stack(arrays)
        return table.mean(axis=1), table.var(axis=1, ddof=1)
    mean = np.array([a.mean() for a in arrays])
    return mean, np.array([a.var(ddof=1) if a.size > 1 else 0.0 for a in arrays])


def moderate(variance: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Shrunken variances and their degrees of freedom, from each subject's own; see `estimate_family`."""
    known = df > 0
    if known.sum() < 1:
        return variance, df
    pooled = float((variance[known] * df[known]).sum() / df[known].sum())
    if len(variance) < 4 or known.sum() < 4 or pooled == 0:
        return np.full_like(variance, pooled), np.full_like(df, df[known].sum())
    # Work on log s²; exact zeros (a coarse clock) would drag its mean to minus infinity.
    floor = max(pooled * 1e-6, np.finfo(float).tiny)
    e = np.log(np.maximum(variance[known], floor)) - _digamma(df[known] / 2) + np.log(df[known] / 2)
    excess = float(e.var(ddof=1) - _trigamma(df[known] / 2).mean())
    if excess <= 0:
        return np.full_like(variance, pooled), np.full_like(df, df[known].sum())
    prior_df = 2 * _trigamma_inverse(excess)
    prior = math.exp(float(e.mean()) + float(_digamma(np.array([prior_df / 2]))[0]) - math.log(prior_df / 2))
    total = df + prior_df
    return (prior_df * prior + df * variance) / total, total


def _digamma(x: Floats) -> Floats:
    """ψ(x) for x > 0: recurrence up to 6, then the asymptotic series."""
    x = np.array(x, dtype=float)
    shift = np.zeros_like(x)
    while np.any(x < 6):
        small = x < 6
        shift[small] -= 1 / x[small]
        x[small] += 1
    inverse = 1 / x**2
    return np.asarray(
        shift
        + np.log(x)
        - 0.5 / x
        - inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse / 240)))
    )


def _trigamma(x: Floats) -> Floats:
    """ψ′(x) for x > 0, the same way."""
    x = np.array(x, dtype=float)
    shift = np.zeros_like(x)
    while np.any(x < 6):
        small = x < 6
        shift[small] += 1 / x[small] ** 2
        x[small] += 1
    inverse = 1 / x**2
    return np.asarray(
        shift
        + 1 / x
        + inverse / 2
        + inverse / x * (1 / 6 - inverse * (1 / 30 - inverse * (1 / 42 - inverse / 30)))
    )


def _trigamma_inverse(y: float) -> float:
    """x with ψ′(x) = y, by bisection on log x: ψ′ falls monotonically."""
    low, high = -20.0, 20.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _trigamma(np.array([math.exp(middle)]))[0] > y else (low, middle)
    return math.exp((low + high) / 2)


def holm(p: ArrayLike, alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses of a family are rejected at family-wise error `alpha` (Holm 1979, step-down).

    NaN counts as a hypothesis that cannot be rejected.
    """
    values = np.where(np.isnan(np.asarray(p, dtype=float)), 1.0, np.asarray(p, dtype=float))
    order = np.argsort(values, kind="stable")
    allowed = alpha / np.arange(len(values), 0, -1)
    held = values[order] <= allowed
    stop = len(held) if held.all() else int(np.argmin(held))
    rejected = np.zeros(len(values), dtype=np.bool_)
    rejected[order[:stop]] = True
    return rejected


@cache
def studentized_range_quantile(level: float, subjects: int, df: float) -> float:
    """The value that the range of `subjects` means stays under, in standard errors (Tukey's q).

    The distribution integrates the range of normal means over the chi distribution of the error
    estimate, each by a fixed grid; the quantile is found by bisection, to about 1e-4.
    """
    z = np.linspace(-8.0, 8.0, 801)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    if df > 1e5:
        s, weight = np.array([1.0]), np.array([1.0])
    else:
        width = 6.0 / math.sqrt(2 * df)
        s = np.linspace(max(1e-4, 1 - width), 1 + width + (3.0 if df < 4 else 0.0), 401)
        log_density = (df - 1) * np.log(s) - df * s**2 / 2
        weight = np.exp(log_density - log_density.max())
        weight /= weight.sum()
    cdf_z = normal_cdf(z)

    def below(q: float) -> float:
        inner = np.maximum(cdf_z[None, :] - normal_cdf(z[None, :] - q * s[:, None]), 0.0) ** (subjects - 1)
        return float((weight * (subjects * (inner * density).sum(axis=1) * (z[1] - z[0]))).sum())

    low, high = 0.0, 8.0
    while below(high) < level and high < 1e4:
        low, high = high, high * 2
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2


@cache
def expected_range(subjects: int) -> float:
    """Mean range of that many standard normal values: what chance alone spreads (d₂ of control charts)."""
    x = np.linspace(-9.0, 9.0, 9001)
    cdf = normal_cdf(x)
    return float((1 - cdf**subjects - (1 - cdf) ** subjects).sum() * (x[1] - x[0]))


def mad_sigma(values: ArrayLike) -> float:
    """A robust standard deviation: the median absolute deviation from the median, scaled for the normal."""
    array = np.asarray(values, dtype=float)
    return float(MAD_TO_SIGMA * np.median(np.abs(array - np.median(array))))


def confidence_sequence(
    values: ArrayLike, level: float = 0.95, prior_n: float = 1.0
) -> tuple[float, float] | None:
    """An interval of the mean that holds at every sample size at once, so that peeking does not decide.

    The t-statistic's scale-invariant mixture likelihood ratio with a normal prior on the effect size
    (worth `prior_n` samples) is an e-process, and the interval holds the means whose e-value stays under
    1/(1−level): Lai (1976, Annals of Statistics 4:265); Wang and Ramdas (2024, arXiv 2310.03722, theorem
    4.9). None while the interval is unbounded, which it is for the first few values.
    """
    array = np.asarray(values, dtype=float)
    n = array.size
    if n < 2:
        return None
    ratio = prior_n / (n + prior_n)
    bound = ((1 / (1 - level)) / math.sqrt(ratio)) ** (2 / n)
    if bound * ratio >= 1:
        return None
    t_square = (n - 1) * (bound - 1) / (1 - bound * ratio)
    half = math.sqrt(t_square * float(array.var(ddof=1)) / n)
    return float(array.mean()) - half, float(array.mean()) + half


def restarts_to_decide(
    mean: float, sigma: float, bound: float, have: int, level: float = 0.95, most: int = 1000
) -> int | None:
    """How many more restarts would probably put the bound outside the interval, if mean and noise stay.

    None when `most` would not do.
    """
    gap = abs(mean - bound)
    if sigma == 0:
        return 0 if gap > 0 else None

    def decides(n: int) -> bool:
        return student_t_quantile(0.5 + level / 2, n - 1) * sigma / math.sqrt(n) < gap

    low, high = max(have + 1, 2), have + most
    if gap == 0 or not decides(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return low - have
