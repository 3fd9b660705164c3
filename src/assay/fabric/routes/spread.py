"""Adaptive routing as a fluid: a pair's traffic spreads over all its shortest paths, by their cables.

With U the cables from leaves to spines and V those from spines to cores, leaves i and j have Σₛ U_is·U_js
paths over a spine, and where there is none (U V Vᵀ Uᵀ)_ij over a core. Every path of a pair carries the same
share, so that the load of all links is a few matrix products, whatever is missing or slow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.fabric.routes.patterns import Flows
from assay.fabric.topology.tiers import Tiers

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Traffic on each bundle in units of one flow; `stranded` is that of pairs without any path.

    `nic_out`, `nic_in` [adapter]; `up`, `down` [leaf, spine]; `top_up`, `top_down` [spine, core].
    """

    nic_out: Floats
    nic_in: Floats
    up: Floats
    down: Floats
    top_up: Floats
    top_down: Floats
    stranded: float

    def seconds_per_byte(self, tiers: Tiers) -> dict[str, Floats]:
        """Time of a byte of every flow on each bundle: its load over its bandwidth, 0 where it has none."""
        pairs = {
            "nic": (np.maximum(self.nic_out, self.nic_in), tiers.nic_Bps),
            "leaf-spine": (np.maximum(self.up, self.down), tiers.up),
            "spine-core": (np.maximum(self.top_up, self.top_down), tiers.top),
        }
        return {
            name: np.divide(load, rate, out=np.zeros_like(load), where=rate > 0)
            for name, (load, rate) in pairs.items()
        }

    def worst(self, tiers: Tiers) -> tuple[float, str]:
        """Seconds of a byte of every flow on the fullest bundle, and its level; 0 where nothing flows."""
        found = {name: float(s.max(initial=0.0)) for name, s in self.seconds_per_byte(tiers).items()}
        level = max(found, key=lambda name: found[name])
        return found[level], level


def demand(tiers: Tiers, flows: Flows) -> tuple[Floats, Floats, Floats, float]:
    """Flows between leaves [leaf, leaf], out of and into each adapter, and those of unplugged adapters."""
    source, target = tiers.leaf_of[flows.sender], tiers.leaf_of[flows.receiver]
    live = (source >= 0) & (target >= 0)
    count, adapters = len(tiers.leaves), len(tiers.adapters)
    between = np.bincount(source[live] * count + target[live], minlength=count * count).astype(float)
    out = np.bincount(flows.sender[live], minlength=adapters).astype(float)
    into = np.bincount(flows.receiver[live], minlength=adapters).astype(float)
    return between.reshape(count, count), out, into, float(flows.count - live.sum())


def spread(tiers: Tiers, flows: Flows) -> Loads:
    """The load of every bundle when routing adapts."""
    between, out, into, unplugged = demand(tiers, flows)
    return _spread(tiers, between, out, into, unplugged)


def _spread(tiers: Tiers, between: Floats, out: Floats, into: Floats, unplugged: float) -> Loads:
    # Paths are weighed by bandwidth relative to a whole cable, so that a slow cable draws less.
    unit = max(float(tiers.nic_Bps.max(initial=0.0)), 1.0)
    up, top = tiers.up / unit, tiers.top / unit
    away = between * ~np.eye(len(between), dtype=bool)
    near = up @ up.T
    over_spine = np.divide(away, near, out=np.zeros_like(away), where=near > 0)
    through = up @ top
    far = through @ through.T
    over_core = np.divide(away, far, out=np.zeros_like(away), where=(near == 0) & (far > 0))
    back = top @ through.T
    return Loads(
        nic_out=out,
        nic_in=into,
        up=up * (over_spine @ up + over_core @ back.T),
        down=up * (over_spine.T @ up + over_core.T @ back.T),
        top_up=top * (up.T @ over_core @ through),
        top_down=top * (up.T @ over_core.T @ through),
        stranded=unplugged + float(away[(near == 0) & (far == 0)].sum()),
    )
