"""Fitting the collective model: non-negative least squares of relative errors, reweighted against outliers.

The model is a sum of counts times parameters, so that a fit is a convex problem with the physical limits of
the parameters as its bounds; no starting point and no hidden state.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.fabric.collective import collective_terms
from assay.fabric.cost import carrier
from assay.fabric.parameters import (
    LARGE_BYTES,
    PRIOR,
    SMALL_BYTES,
    Parameters,
    class_name,
    family,
    least,
    place_of,
    stem,
)
from assay.fabric.placement import Placement
from assay.fabric.published import PublishedRow

Floats = NDArray[np.float64]

_ROUNDS = 16
#: What links usually reach, as the inverse: 370 of 450 GB/s over NVLink (NVIDIA/nccl-tests#212), NICs all.
_USUAL = {"wire": 450 / 370, "net": 1.0}
#: Relative errors beyond this count less and less.
_OUTLIER_FRAC = 0.25
#: Rows of one source together weigh as this power of their number, so that long tables do not drown curves.
_SOURCE_POWER = 0.5
#: How firmly a member is held to its family, in rows: latencies firmly, as few rows tell them apart.
_FAMILY_TRUST = {"launch": 20.0, "hop": 10.0, "net-hop": 50.0, "net-start/rdma": 10.0, "net-start": 1.0}
_OTHER_TRUST = 0.5
#: How firmly a family is held to NCCL's own figures, in rows: hops of the network most of all, as a curve of
#: one size of cluster cannot tell them from the start.
_PRIOR_TRUST = {"hop": 10.0, "net-hop": 50.0}
#: Beyond this deviation from the family the pull no longer grows.
_FAMILY_FRAC = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured row as the fit sees it: counts by parameter, seconds, and where it came from.

    `least` are the counts of a single byte.
    """

    counts: Mapping[str, float]
    least: Mapping[str, float] = field(default_factory=dict)
    measured_s: float
    source: str
    bytes: float
    inter: bool


def samples_of(rows: Sequence[PublishedRow]) -> list[Sample | None]:
    """The sample of each row; None for one that cannot be predicted."""
    found: list[Sample | None] = [None] * len(rows)
    for indices in alike(rows):
        first = rows[indices[0]]
        if first.cluster is None:
            continue
        sizes = np.array([1.0, *(rows[at].bytes for at in indices)])
        placement = Placement.of(first.per_node, first.nodes)
        counts = collective_terms(first.cluster, first.op, sizes, placement, options=first.options)
        each = [{name: float(c[at]) for name, c in counts.items() if c[at]} for at in range(sizes.size)]
        for place, at in enumerate(indices, start=1):
            row = rows[at]
            if row.measured_s is not None:
                found[at] = Sample(
                    counts=each[place],
                    least=each[0],
                    measured_s=row.measured_s,
                    source=row.source,
                    bytes=row.bytes,
                    inter=row.nodes > first.cluster.domain_nodes,
                )
    return found


def alike(rows: Sequence[PublishedRow]) -> list[list[int]]:
    """Indices of rows that differ only in size, so that they are asked together."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        key = (id(row.cluster), row.op, row.per_node, row.nodes, row.options)
        groups[key].append(at)
    return list(groups.values())


def fit(samples: Sequence[Sample], fixed: Mapping[str, float]) -> dict[str, float]:
    """Parameter → value for all that the samples count; `fixed` ones (launchers) are passed through."""
    return Problem.of(samples).solved(np.ones(len(samples), dtype=bool), fixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """All samples as one matrix, so that it is built once for the many fits that leave a source out.

    Unknowns are the members (a link's, a transport's, a generation's own) and their families. A member is
    drawn to its family and a family to its prior, so that a family is what is usual among its members and
    not what most rows are of; what was never measured takes it.
    """

    names: tuple[str, ...]
    counts: Floats  # samples × names
    measured_s: Floats
    sources: tuple[str, ...]

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Problem:
        """The matrix of relative counts: of the sides that run at the same time only the slower one."""
        carried = [_carrying(s.counts) for s in samples]
        members = sorted({name for counts in carried for name, count in counts.items() if count})
        names = (*members, *sorted({stem(name) for name in members} - set(members)))
        index = {name: at for at, name in enumerate(names)}
        matrix = np.zeros((len(samples), len(names)))
        for row, counts in enumerate(carried):
            for name, count in counts.items():
                if count:
                    matrix[row, index[name]] = count
        return cls(
            names=names,
            counts=matrix,
            measured_s=np.array([s.measured_s for s in samples]),
            sources=tuple(s.source for s in samples),
        )

    def solved(self, use: NDArray[np.bool_], fixed: Mapping[str, float]) -> dict[str, float]:
        """Values of least relative error over the rows in `use`, for the members that these count."""
        scaled = self.counts[use] / self.measured_s[use, None]
        seen = np.asarray(scaled.any(axis=0))
        families = {stem(name) for name, one in zip(self.names, seen, strict=True) if one}
        wanted = [at for at, name in enumerate(self.names) if seen[at] or name in families]
        names = [self.names[at] for at in wanted]
        sources = [source for source, one in zip(self.sources, use, strict=True) if one]
        many = Counter(sources)
        weight = np.array([many[source] ** (_SOURCE_POWER - 1) for source in sources])
        values = _solve(scaled[:, wanted], weight / weight.mean(), names)
        return {**{name: float(v) for name, v in zip(names, values, strict=True)}, **fixed}


def _carrying(counts: Mapping[str, float]) -> dict[str, float]:
    """Counts without the side of the links that is faster at the rates that are usually reached."""
    sides = [0.0, 0.0]
    for name, count in counts.items():
        if family(name) in _USUAL and (side := carrier(name)) is not None:
            sides[side] += count * max(_USUAL[family(name)], least(name))
    faster = int(np.argmin(sides))
    return {name: count for name, count in counts.items() if carrier(name) != faster}


def _solve(rows: Floats, weight: Floats, names: Sequence[str]) -> Floats:
    """Values by iteratively reweighted non-negative least squares: rows · values = 1, and the ties."""
    limits = np.array([least(name) for name in names])
    scale = np.abs(rows).max(axis=0)
    for at, name in enumerate(names):  # a family counts like its members
        if not scale[at]:
            scale[at] = min(scale[other] for other, n in enumerate(names) if stem(n) == name and scale[other])
    usual = np.maximum(0.1 / scale, limits)
    values = np.array([PRIOR.get(name, value) for name, value in zip(names, usual, strict=True)])
    goal = 1 - rows @ limits
    trust, solution = weight, np.zeros(len(names))
    for at in range(_ROUNDS):
        ties, wanted, firm = _ties(names, values, scale, at == 0)
        root = np.sqrt(trust)
        matrix = np.vstack([rows * root[:, None], ties * np.sqrt(firm)[:, None]]) / scale
        right = np.concatenate([goal * root, (wanted - ties @ limits) * np.sqrt(firm)])
        solution = nonnegative(matrix, right, start=solution > 0)
        values = solution / scale + limits
        error = np.abs(rows @ values - 1)
        trust = weight / np.maximum(error, 0.02)
        if at > _ROUNDS // 3:
            trust = trust / (1 + (error / _OUTLIER_FRAC) ** 2)
    return values


def _ties(names: Sequence[str], values: Floats, scale: Floats, first: bool) -> tuple[Floats, Floats, Floats]:
    """Rows that draw members to their family and families to their prior, what they want, and how firmly.

    A family's unit is the median of its members: its own value would let it grow to make deviations small.
    """
    index = {name: at for at, name in enumerate(names)}
    members: dict[int, list[int]] = defaultdict(list)
    for name, at in index.items():
        members[index.get(stem(name), at)].append(at)
    rows, wanted, firm = [], [], []

    def tie(row: Floats, goal: float, trust: float) -> None:
        away = abs(float(row @ values) - goal)
        rows.append(row)
        wanted.append(goal)
        firm.append(trust / (1.0 if first else max(away / _FAMILY_FRAC, 1.0)))

    for over, own in members.items():
        others = [at for at in own if at != over]
        unit = max(float(np.median(values[others or own])), 1e-3 / scale[over])
        for at in others:
            row = np.zeros(len(names))
            row[at], row[over] = 1 / unit, -1 / unit
            tie(row, 0.0, _family_trust(names[at]))
        for at in own:
            if names[at] in PRIOR:
                row = np.zeros(len(names))
                row[at] = 1 / PRIOR[names[at]]
                tie(row, 1.0, _PRIOR_TRUST.get(family(names[at]), _OTHER_TRUST))
    return np.array(rows), np.array(wanted), np.array(firm)


def _family_trust(name: str) -> float:
    return _FAMILY_TRUST.get(stem(name), _FAMILY_TRUST.get(family(name), _OTHER_TRUST))


def nonnegative(matrix: Floats, goal: Floats, start: NDArray[np.bool_] | None = None) -> Floats:
    """argmin ‖matrix·x − goal‖ with x ≥ 0 (Lawson, Hanson: Solving Least Squares Problems, 1974, ch. 23).

    `start` says which unknowns are expected to be positive; it saves time and changes nothing.
    """
    gram, right = matrix.T @ matrix, matrix.T @ goal
    unit = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    gram, right = gram * unit * unit[:, None], right * unit
    passive = np.zeros(right.size, dtype=bool) if start is None else start.copy()
    x = np.maximum(_among(gram, right, passive), 0.0)
    # What enters and leaves again at once is noise of the arithmetic: it waits until something else moves.
    waits = np.zeros(right.size, dtype=bool)
    tolerance = 1e-8 * max(1.0, float(np.abs(right).max()))
    for _ in range(10 * right.size):
        x, passive = _settled(gram, right, x, passive)
        gradient = np.where(passive | waits, -np.inf, right - gram @ x)
        enter = int(np.argmax(gradient))
        if gradient[enter] <= tolerance:
            break
        passive[enter] = True
        x, passive = _settled(gram, right, x, passive)
        waits = waits & ~passive[enter]
        waits[enter] = not passive[enter]
    return x * unit


def _settled(
    gram: Floats, right: Floats, x: Floats, passive: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """The least squares solution among the passive unknowns, less those that would have to be negative."""
    passive = passive.copy()
    while passive.any():
        trial = _among(gram, right, passive)
        below = np.flatnonzero(passive & (trial <= 0))
        if not below.size:
            return trial, passive
        step = float(np.min(x[below] / np.maximum(x[below] - trial[below], 1e-300)))
        x = x + step * (trial - x)
        passive[below[x[below] <= 1e-14 * max(1.0, float(x.max()))]] = False
        passive[below[np.argmin(x[below])]] = False
        x = np.where(passive, x, 0.0)
    return np.zeros_like(x), passive


def _among(gram: Floats, right: Floats, passive: NDArray[np.bool_]) -> Floats:
    """The least squares solution with all but the passive unknowns at zero."""
    x = np.zeros(right.size)
    at = np.flatnonzero(passive)
    if at.size:
        block = gram[np.ix_(at, at)]
        x[at] = np.linalg.solve(block + 1e-12 * np.eye(at.size), right[at])
    return x


def priced_s(counts: Mapping[str, float], parameters: Parameters) -> float:
    """What the parameters say for counts: a sample's own, or its `least`."""
    beside, sides = 0.0, [0.0, 0.0]
    for name, count in counts.items():
        price, side = count * parameters.value(name), carrier(name)
        if side is None:
            beside += price
        else:
            sides[side] += price
    return beside + max(sides)


def ranges_of(
    samples: Sequence[Sample], predictions: Sequence[float], level: float = 0.8
) -> dict[str, tuple[float, float]]:
    """Per class, the factors around a prediction that hold `level` of the measured.

    The wider of two: all rows alike, and all sources alike, so that the range holds for long tables and for a
    source that was not seen.
    """
    ratios = np.array([s.measured_s / p for s, p in zip(samples, predictions, strict=True)])
    found: dict[str, tuple[float, float]] = {}
    places = [place_of(s.counts) for s in samples]
    for place in sorted(set(places)):
        for size_class in range(3):
            here = [
                at
                for at, s in enumerate(samples)
                if places[at] == place and int(np.digitize(s.bytes, [SMALL_BYTES, LARGE_BYTES])) == size_class
            ]
            if len(here) < 10:
                continue
            many = Counter(samples[at].source for at in here)
            ends = [
                _quantiles(ratios[here], np.array(weights), ((1 - level) / 2, (1 + level) / 2))
                for weights in ([1.0] * len(here), [1 / many[samples[at].source] for at in here])
            ]
            low, high = min(e[0] for e in ends), max(e[1] for e in ends)
            found[class_name(size_class, place)] = (min(low, 0.98), max(high, 1.02))
    return found


def _quantiles(values: Floats, weights: Floats, levels: tuple[float, float]) -> tuple[float, float]:
    """Quantiles of weighted values, between the middles of their weights."""
    order = np.argsort(values)
    middle = np.cumsum(weights[order]) - weights[order] / 2
    low, high = np.interp(levels, middle / weights.sum(), values[order])
    return float(low), float(high)
