"""ECMP: every flow is hashed onto one of its shortest paths, and some cables draw several flows.

A collective waits for its slowest flow, so that the fullest cable decides: its flows over its bandwidth, held
against those of the busiest NIC.
A seed stands for one draw of ports and queue pairs, as a new run of a job makes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.fabric.routes.patterns import Flows
from assay.fabric.topology.tiers import Tiers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collisions:
    """`slowdown` [seed]: time of the fullest cable over that of the busiest NIC, at least 1."""

    slowdown: Floats

    @property
    def expected(self) -> float:
        """The mean over seeds."""
        return float(self.slowdown.mean())

    def tail(self, q_frac: float = 0.99) -> float:
        """A quantile over seeds."""
        return float(np.quantile(self.slowdown, q_frac))


def collisions(
    tiers: Tiers, flows: Flows, seeds: int, *, paths_per_flow: int = 1, first_seed: int = 0
) -> Collisions:
    """Hash the flows that leave their leaf, for `seeds` seeds. `paths_per_flow`: queue pairs of a flow."""
    if seeds < 1 or paths_per_flow < 1:
        raise InputError(f"{seeds} seeds of {paths_per_flow} paths a flow", fix="use 1 or more of both")
    flows = flows.listed()
    source, target = tiers.leaf_of[flows.sender], tiers.leaf_of[flows.receiver]
    sent, received = (
        np.bincount(ends, minlength=len(tiers.adapters)) for ends in (flows.sender, flows.receiver)
    )
    busiest_s = float(
        (np.maximum(sent, received)[tiers.nic_Bps > 0] / tiers.nic_Bps[tiers.nic_Bps > 0]).max(initial=0)
    )
    away = np.flatnonzero((source != target) & (source >= 0) & (target >= 0))
    slowdown = np.ones(seeds)
    if not away.size:
        return Collisions(slowdown=slowdown)
    source, target = np.repeat(source[away], paths_per_flow), np.repeat(target[away], paths_per_flow)
    draw = _Draw(tiers, source, target)
    for seed in range(seeds):
        fullest_s = draw.fullest_s(np.random.default_rng(first_seed + seed)) / paths_per_flow
        slowdown[seed] = max(1.0, fullest_s / busiest_s)
    return Collisions(slowdown=slowdown)


class _Draw:
    """The cables that flows may take, set out once: a bundle's cables have consecutive numbers."""

    def __init__(self, tiers: Tiers, source: Ints, target: Ints) -> None:
        self.tiers, self.source, self.target = tiers, source, target
        self.up_first = _first_of(tiers.up_count)
        self.top_first = _first_of(tiers.top_count)
        self.up_Bps = _each(tiers.up, tiers.up_count)
        self.top_Bps = _each(tiers.top, tiers.top_count)
        near = tiers.up_count[source] * tiers.up_count[target]
        self.over_core = near.sum(axis=1) == 0
        self.near = np.cumsum(np.minimum(tiers.up_count[source], near), axis=1)
        through = tiers.up_count @ (tiers.top_count > 0)
        reach = (tiers.up_count[source] > 0) & ((tiers.top_count > 0) @ (through[target] > 0).T > 0).T
        self.far = np.cumsum(np.where(reach, tiers.up_count[source], 0), axis=1)

    def fullest_s(self, rng: np.random.Generator) -> float:
        """Seconds of a byte of every flow on the fullest cable of one draw."""
        t = self.tiers
        spine = _choose(rng, np.where(self.over_core[:, None], self.far, self.near))
        up = self._cable(rng, self.up_first, t.up_count, self.source, spine)
        loads = [_time_s(up, self.up_Bps)]
        last = spine
        over = np.flatnonzero(self.over_core)
        if over.size:
            core = _choose(rng, np.cumsum(t.top_count[spine[over]], axis=1))
            last = spine.copy()
            options = np.where(t.top_count.T[core] > 0, t.up_count[self.target[over]], 0)
            last[over] = _choose(rng, np.cumsum(options, axis=1))
            for side in (spine[over], last[over]):
                cable = self._cable(rng, self.top_first, t.top_count, side, core)
                loads.append(_time_s(cable, self.top_Bps))
        down = self._cable(rng, self.up_first, t.up_count, self.target, last)
        loads.append(_time_s(down, self.up_Bps))
        return max(loads)

    def _cable(self, rng: np.random.Generator, first: Ints, count: Ints, a: Ints, b: Ints) -> Ints:
        size = np.maximum(count[a, b], 1)
        return np.asarray(first[a, b] + np.minimum((rng.random(a.size) * size).astype(np.int64), size - 1))


def _time_s(cable: Ints, Bps: Floats) -> float:
    return float((np.bincount(cable, minlength=Bps.size) / Bps).max())


def _choose(rng: np.random.Generator, cumulated: Ints) -> Ints:
    """One column for each row, with the odds of the steps of its cumulated counts."""
    drawn = rng.random(len(cumulated)) * cumulated[:, -1]
    return np.asarray((cumulated <= drawn[:, None]).sum(axis=1).clip(max=cumulated.shape[1] - 1))


def _first_of(count: Ints) -> Ints:
    """The number of the first cable of each bundle."""
    flat = count.ravel()
    return np.asarray((np.cumsum(flat) - flat).reshape(count.shape))


def _each(Bps: Floats, count: Ints) -> Floats:
    """The bandwidth of each cable, bundle by bundle."""
    flat = np.divide(Bps, count, out=np.zeros_like(Bps), where=count > 0).ravel()
    return np.repeat(flat, count.ravel())
