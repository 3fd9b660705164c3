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


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Numbers of paths, weighed by bandwidth so that a slow cable draws less; worked out once for a fabric.

    `near`, `far` [leaf, leaf] count those over a spine and over a core.
    """

    up: Floats
    top: Floats
    through: Floats
    near: Floats
    far: Floats
    back: Floats

    @classmethod
    def of(cls, tiers: Tiers) -> Paths:
        """The paths of one plane."""
        unit = max(float(tiers.nic_Bps.max(initial=0.0)), 1.0)
        up, top = tiers.up / unit, tiers.top / unit
        through = up @ top
        return cls(
            up=up, top=top, through=through, near=up @ up.T, far=through @ through.T, back=through @ top.T
        )


def demand(tiers: Tiers, flows: Flows) -> tuple[Floats, Floats, Floats, float]:
    """Flows between leaves [leaf, leaf], out of and into each adapter, and those of unplugged adapters."""
    count, adapters = len(tiers.leaves), len(tiers.adapters)
    source, target = tiers.leaf_of[flows.sender], tiers.leaf_of[flows.receiver]
    live = (source >= 0) & (target >= 0)
    between = np.bincount(source[live] * count + target[live], minlength=count * count).astype(float)
    between = between.reshape(count, count)
    out = np.bincount(flows.sender[live], minlength=adapters).astype(float)
    into = np.bincount(flows.receiver[live], minlength=adapters).astype(float)
    lost = float(flows.sender.size - live.sum())
    for group in flows.groups:
        members = group[tiers.leaf_of[group] >= 0]
        on_leaf = np.bincount(tiers.leaf_of[members], minlength=count).astype(float)
        between += np.outer(on_leaf, on_leaf) - np.diag(on_leaf)
        out[members] += members.size - 1
        into[members] += members.size - 1
        lost += group.size * (group.size - 1) - members.size * (members.size - 1)
    return between, out, into, lost


def spread(tiers: Tiers, flows: Flows, paths: Paths | None = None) -> Loads:
    """The load of every bundle when routing adapts; `paths` where they are known already."""
    p = paths or Paths.of(tiers)
    between, out, into, unplugged = demand(tiers, flows)
    away = between * ~np.eye(len(between), dtype=bool)
    over_spine = np.divide(away, p.near, out=np.zeros_like(away), where=p.near > 0)
    over_core = np.divide(away, p.far, out=np.zeros_like(away), where=(p.near == 0) & (p.far > 0))
    up, down = over_spine @ p.up, over_spine.T @ p.up
    top_up, top_down = np.zeros_like(p.top), np.zeros_like(p.top)
    if over_core.any():
        up, down = up + over_core @ p.back, down + over_core.T @ p.back
        top_up = p.top * (p.up.T @ (over_core @ p.through))
        top_down = p.top * (p.up.T @ (over_core.T @ p.through))
    return Loads(
        nic_out=out,
        nic_in=into,
        up=p.up * up,
        down=p.up * down,
        top_up=top_up,
        top_down=top_down,
        stranded=unplugged + float(away[(p.near == 0) & (p.far == 0)].sum()),
    )
