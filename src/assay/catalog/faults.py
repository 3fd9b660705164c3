"""How often training stops: published fleets and causes, as rates with a range, scaled by nodes."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assay.catalog.tables import read_records, shipped_text
from assay.errors import InputError, unknown_name

_FILE = "faults.toml"
_NODE_GPUS = 8
_DAY_S = 86400.0

#: A top-of-rack switch has a critical error in 0.051 % of months (Alibaba HPN, SIGCOMM 2024): faults that
#: take the nodes of one leaf at once.
LEAF_FAULTS_PER_S = 0.00051 / (30 * _DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One published fleet; either its counts or its printed rate."""

    id: str
    name: str
    source: str
    gpus: int | None = None
    days: float | None = None
    failures: float | None = None
    per_1000_node_days: float | None = None

    def __post_init__(self) -> None:
        if self.per_1000_node_days is None and None in (self.gpus, self.days, self.failures):
            raise InputError(f"fleet {self.id}: neither a rate nor gpus, days and failures")

    @property
    def node_failures_per_s(self) -> float:
        """Failures of one eight-GPU node a second."""
        if self.per_1000_node_days is not None:
            return self.per_1000_node_days / 1000 / _DAY_S
        failures, days, gpus = self.failures or 0.0, self.days or 1.0, self.gpus or 1
        return failures / (days * _DAY_S * gpus / _NODE_GPUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause: how often it was seen, and whether it grows with GPUs or with nodes."""

    id: str
    name: str
    count: int
    per: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """Failures of one node a second with a range, and the part of each cause; `source` says whose."""

    value_per_s: float
    low_per_s: float
    high_per_s: float
    causes: Mapping[str, float]
    source: str


@functools.cache
def fleets() -> Mapping[str, Fleet]:
    """Every published fleet."""
    return read_records(shipped_text(_FILE), file=_FILE, table="fleet", kind=Fleet)


@functools.cache
def causes() -> Mapping[str, Cause]:
    """Every cause with its count."""
    return read_records(shipped_text(_FILE), file=_FILE, table="cause", kind=Cause)


def failure_rate(gpus_per_node: int = _NODE_GPUS, *, fleet: str | None = None) -> FailureRate:
    """The rate for nodes of so many GPUs: the median of the fleets, from their 10th to their 90th percentile.

    With `fleet`, that fleet's own rate stands in the middle. Causes that grow with GPUs are scaled by them.
    """
    known = fleets()
    if fleet is not None and fleet not in known:
        raise unknown_name("fleet", fleet, known)
    rates = np.log([one.node_failures_per_s for one in known.values()])
    low, middle, high = (math.exp(float(np.quantile(rates, q))) for q in (0.1, 0.5, 0.9))
    if fleet is not None:
        middle = known[fleet].node_failures_per_s
    total = sum(cause.count for cause in causes().values())
    scaled = {
        name: cause.count / total * (gpus_per_node / _NODE_GPUS if cause.per == "gpu" else 1.0)
        for name, cause in causes().items()
    }
    factor = sum(scaled.values())
    return FailureRate(
        value_per_s=middle * factor,
        low_per_s=min(low, middle) * factor,
        high_per_s=max(high, middle) * factor,
        causes={name: part / factor for name, part in scaled.items()},
        source=known[fleet].source if fleet else f"median of {len(known)} published fleets",
    )
