"""Max-min fair shares by progressive filling: all rates rise together until a link is full, and so on.

A max-min fair share is the one in which nobody can have more without somebody having less who has no more
already (Bertsekas, Gallager, Data Networks, 1992, section 6.5.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A link counts as full when what is left of it is this part of its bandwidth.
_FULL = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """Which flow crosses which link, entry by entry: flow `flow[e]` puts `weight[e]` of its rate on
    `link[e]` (1 for a whole flow, less where it spreads, more for a class of several alike).

    `capacity_Bps` [link]. A flow without entries is bound by nothing, and refused.
    """

    flow: Ints
    link: Ints
    weight: Floats
    capacity_Bps: Floats
    flows: int

    def __post_init__(self) -> None:
        if self.flow.size and (self.flow.max() >= self.flows or self.link.max() >= self.capacity_Bps.size):
            raise InputError("a crossing names a flow or link that is not there")
        if self.capacity_Bps.size and self.capacity_Bps.min() <= 0:
            raise InputError(f"a link of {self.capacity_Bps.min():g} B/s carries nothing", fix="leave it out")
        if np.unique(self.flow[self.weight > 0]).size != self.flows:
            raise InputError("a flow crosses no link", fix="leave flows within one device out")


def fair_shares(crossings: Crossings) -> Floats:
    """The rate of every flow, in B/s [flow]."""
    c = crossings
    rate = np.zeros(c.flows)
    open_flow = np.ones(c.flows, dtype=bool)
    left = c.capacity_Bps.astype(float)
    links = c.capacity_Bps.size
    while open_flow.any():
        live = open_flow[c.flow]
        drawn = np.bincount(c.link[live], weights=c.weight[live], minlength=links)
        used = drawn > 0
        step = float((left[used] / drawn[used]).min())
        rate[open_flow] += step
        left = left - step * drawn
        full = used & (left <= _FULL * c.capacity_Bps)
        if not full.any():
            # Rounding kept the link that was to be full just above nothing.
            full = used & (left <= left[used].min())
        open_flow[c.flow[live & full[c.link]]] = False
    return rate
