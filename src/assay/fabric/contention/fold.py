"""Exact folding of what is alike, by refining colours until flows of a colour see links of equal colours.

Two flows have a colour when they put the same weights on links of the same colours, two links when they have
the same bandwidth and carry the same weights of flows of the same colours: an equitable partition of the
bipartite graph of flows and links. Filling treats flows of a colour alike in every round, so that one of
each, times its number, gives the same shares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.fabric.contention.fair import Crossings, fair_shares

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def folded_shares(crossings: Crossings) -> Floats:
    """`fair_shares`, solved for one flow and one link of each colour, and unfolded."""
    flow_colour, link_colour = colours(crossings)
    return np.asarray(fair_shares(quotient(crossings, flow_colour, link_colour))[flow_colour])


def colours(crossings: Crossings) -> tuple[Ints, Ints]:
    """The coarsest equitable colours of flows and of links, each counted from 0."""
    c = crossings
    _, weight = np.unique(c.weight, return_inverse=True)
    _, link_colour = np.unique(c.capacity_Bps, return_inverse=True)
    flow_colour = np.zeros(c.flows, dtype=np.int64)
    known = (0, 0)
    while True:
        flow_colour = _refined(flow_colour, c.flow, _pair(link_colour[c.link], weight))
        link_colour = _refined(link_colour, c.link, _pair(flow_colour[c.flow], weight))
        now = (int(flow_colour.max(initial=-1)), int(link_colour.max(initial=-1)))
        if now == known:
            return flow_colour, link_colour
        known = now


def quotient(crossings: Crossings, flow_colour: Ints, link_colour: Ints) -> Crossings:
    """One flow and one link of each colour; an entry's weight is that of all flows of the colour."""
    c = crossings
    flows, links = int(flow_colour.max()) + 1, int(link_colour.max()) + 1
    stands_for = np.full(links, -1)
    stands_for[link_colour[::-1]] = np.arange(c.capacity_Bps.size)[::-1]
    kept = stands_for[link_colour[c.link]] == c.link
    key = link_colour[c.link[kept]] * flows + flow_colour[c.flow[kept]]
    pairs, where = np.unique(key, return_inverse=True)
    return Crossings(
        flow=pairs % flows,
        link=pairs // flows,
        weight=np.asarray(np.bincount(where, weights=c.weight[kept], minlength=pairs.size), dtype=float),
        capacity_Bps=c.capacity_Bps[stands_for],
        flows=flows,
    )


def _refined(colour: Ints, owner: Ints, seen: Ints) -> Ints:
    """Colours split by the multiset of what each owner sees, through two independent random sums."""
    _, seen = np.unique(seen, return_inverse=True)
    # Sums of random 62-bit words stand for multisets: that two differ and agree has odds of about n²/2⁶².
    rng = np.random.default_rng(1)
    words = rng.integers(1, 1 << 62, size=int(seen.max(initial=0)) + 1, dtype=np.uint64)
    total = np.zeros(colour.size, dtype=np.uint64)
    np.add.at(total, owner, words[seen])
    _, dense = np.unique(total, return_inverse=True)
    return np.asarray(np.unique(_pair(colour, dense), return_inverse=True)[1].astype(np.int64))


def _pair(first: Ints, second: Ints) -> Ints:
    """One number for two."""
    return np.asarray(first.astype(np.int64) * (int(second.max(initial=0)) + 1) + second)
