"""What a run says of a cluster's hardware beside what the model has for it: a few factors with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.errors import InputError, did_you_mean

#: Factor → what it multiplies.
FACTORS: dict[str, str] = {
    "gemm.<dtype>.rate": "rate of matrix products at the model's shape curve",
    "memory.bandwidth": "bandwidth of device memory",
    "node.latency": "latency of collectives inside a node",
    "node.<op>.bandwidth": "bandwidth of one collective inside a node",
    "network.latency": "latency of collectives between nodes",
    "network.<op>.bandwidth": "bandwidth of one collective between nodes",
    "host.launch": "what the host spends on launching a kernel",
}

GEMM_DTYPES = ("bf16", "fp8", "fp8-block", "nvfp4")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
PLACES = ("node", "network")


def meaning_of(name: str) -> str:
    """What a factor multiplies."""
    first, _, last = name.partition(".")
    template = next(
        known
        for known in FACTORS
        if known.startswith(f"{first}.") and known.endswith(last.rpartition(".")[2])
    )
    return FACTORS[template]


def factor_names() -> tuple[str, ...]:
    """Every name that a factor may have."""
    found = ["memory.bandwidth", "host.launch", *(f"gemm.{dtype}.rate" for dtype in GEMM_DTYPES)]
    for place in PLACES:
        found += [f"{place}.latency", *(f"{place}.{op}.bandwidth" for op in COLLECTIVES)]
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """`value` times the model's own figure; the 95 % interval where `n` readings tell one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        if self.name not in factor_names():
            raise InputError(f"unknown factor {self.name!r}", fix=did_you_mean(self.name, factor_names()))
        if not (math.isfinite(self.value) and self.value > 0):
            raise InputError(f"{self.name} = {self.value:g}; a factor is a positive number")
        if (self.low is None) != (self.high is None):
            raise InputError(f"{self.name}: an interval needs both ends")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise InputError(f"{self.name} = {self.value:g} is not in {self.low:g} … {self.high:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The factors that one run gave, and the run. What was not measured stands at 1."""

    source: str
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        names = [factor.name for factor in self.factors]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"factor {name} stands twice in the calibration")

    def get(self, name: str) -> Factor | None:
        """The factor of this name, or None where it was not measured."""
        return next((factor for factor in self.factors if factor.name == name), None)

    def value(self, name: str) -> float:
        """The factor's value, 1 where it was not measured."""
        found = self.get(name)
        return 1.0 if found is None else found.value

    def like(self, name: str) -> float:
        """The factor's value; of one never measured, the geometric mean of its siblings that were.

        Siblings are the dtypes of one card, which share its clock, and the collectives of one place.
        """
        found = self.get(name)
        if found is not None:
            return found.value
        first, _, last = name.split(".")
        logs = [
            math.log(factor.value)
            for factor in self.factors
            if factor.name.startswith(f"{first}.") and factor.name.endswith(f".{last}")
        ]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0
