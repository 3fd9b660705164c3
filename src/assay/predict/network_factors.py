"""Latency and bandwidth factors of a cluster's links, from measured times of collectives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.calibration import COLLECTIVES, Factor
from assay.domain.cluster import Cluster
from assay.predict.calibration import parts_s
from assay.predict.network import Network
from assay.predict.run_means import Mean
from assay.stats import student_t_quantile

Floats = NDArray[np.float64]

#: Log errors beyond this count linearly in the fit of the collectives.
_HUBER = 0.1
_ROUNDS = 12
#: No part of a time vanishes altogether.
_LEAST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A collective's measured time beside its model's latency and transfer, and whether it crosses nodes."""

    mean: Mean
    first_s: float
    rest_s: float
    far: bool


def timed_of(means: Sequence[Mean], cluster: Cluster, network: Network) -> list[Timed]:
    """The steady collectives that a step is made of, each beside the model's parts of its time."""
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
            Timed(
                mean=mean, first_s=first.item(), rest_s=rest.item(), far=ranks > width * cluster.domain_nodes
            )
        )
    return found


def network_factors(
    means: Sequence[Mean], cluster: Cluster, network: Network, missing: list[tuple[str, str]]
) -> list[Factor]:
    """Factors of both places; `missing` gets the reason for a place without a reading."""
    timed = timed_of(means, cluster, network)
    found: list[Factor] = []
    for place, far in (("node", False), ("network", True)):
        here = [one for one in timed if one.far is far]
        if here:
            found += _place_factors(place, here)
        else:
            missing.append((f"{place}.bandwidth", f"no collective {'between' if far else 'inside'} nodes"))
    return found


def _place_factors(place: str, here: Sequence[Timed]) -> list[Factor]:
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
