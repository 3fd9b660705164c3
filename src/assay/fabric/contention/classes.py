"""Flow classes of a fabric whose routing adapts: flows between the same two leaves are alike.

Flows share a class when they go from one leaf to another, or stay on one; links share one when they join the
same leaf to spines that are wired alike. So 16 million flows of an all-to-all become some thousand classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.fabric.contention.fair import Crossings
from assay.fabric.contention.fold import folded_shares
from assay.fabric.routes.patterns import Flows
from assay.fabric.routes.spread import demand
from assay.fabric.topology.tiers import Tiers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Rate of one flow of each class, in B/s, with the leaves it goes between and how many flows it has."""

    source: Ints
    target: Ints
    flows: Ints
    rate_Bps: Floats

    @property
    def slowest_Bps(self) -> float:
        """The share of the slowest flow, which a collective waits for."""
        return float(self.rate_Bps.min(initial=np.inf))

    def slowest_of_Bps(self, tiers: Tiers, job: Flows) -> float:
        """The share of the slowest flow of one of the jobs."""
        between, *_ = demand(tiers, job)
        return float(self.rate_Bps[between[self.source, self.target] > 0].min(initial=np.inf))


def shares(tiers: Tiers, jobs: Sequence[Flows]) -> Shares:
    """Max-min fair shares of all flows of some jobs that run at once on an adaptively routed plane.

    Within a leaf's NICs flows are taken as evenly spread over the leaf's senders and receivers.
    Raises `InputError` where a pair has no path.
    """
    source, target, counts, senders, receivers = _classes(tiers, jobs)
    entries = list(_entries(tiers, source, target, counts, senders, receivers))
    flow = np.concatenate([e[0] for e in entries])
    link = np.concatenate([e[1] for e in entries])
    weight = np.concatenate([e[2] for e in entries])
    capacity = np.concatenate([e[3] for e in entries])
    used, link_at = np.unique(link, return_inverse=True)
    first = np.full(used.size, -1)
    first[link_at[::-1]] = np.arange(link_at.size)[::-1]
    crossings = Crossings(
        flow=flow, link=link_at, weight=weight, capacity_Bps=capacity[first], flows=int(source.size)
    )
    return Shares(source=source, target=target, flows=counts, rate_Bps=folded_shares(crossings))


def _classes(tiers: Tiers, jobs: Sequence[Flows]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Leaf pairs of the flows, the flows of each, and the NICs on each leaf that send and receive."""
    count = len(tiers.leaves)
    pairs = np.zeros(count * count, np.int64)
    sends, receives = (np.zeros(len(tiers.adapters), dtype=bool) for _ in range(2))
    for job in jobs:
        between, out, into, unplugged = demand(tiers, job)
        if unplugged:
            raise InputError("an adapter of the job hangs on no leaf", fix="leave its node out of the job")
        pairs += between.ravel().astype(np.int64)
        sends |= out > 0
        receives |= into > 0
    found = np.flatnonzero(pairs)
    per_leaf = [
        np.bincount(tiers.leaf_of[which & (tiers.leaf_of >= 0)], minlength=count)
        for which in (sends, receives)
    ]
    return found // count, found % count, pairs[found], per_leaf[0], per_leaf[1]


_Entries = tuple[Ints, Ints, Floats, Floats]


def _entries(
    tiers: Tiers, source: Ints, target: Ints, counts: Ints, senders: Ints, receivers: Ints
) -> Iterator[_Entries]:
    """(class, link, weight, link's bandwidth) of each tier. A link's number says which one it is."""
    leaves = len(tiers.leaves)
    at = np.arange(source.size)
    rates = np.zeros(leaves)
    plugged = tiers.leaf_of >= 0
    rates[tiers.leaf_of[plugged]] = tiers.nic_Bps[plugged]
    yield at, source, counts / senders[source], rates[source]
    yield at, leaves + target, counts / receivers[target], rates[target]
    groups, up, top = _alike(tiers)
    near, *over_core = _paths(up, top, groups, source, target)
    cut = np.flatnonzero((source != target) & (near.sum(axis=1) + over_core[0].sum(axis=1) == 0))
    if cut.size:
        raise InputError(f"no path from {tiers.leaves[source[cut[0]]]} to {tiers.leaves[target[cut[0]]]}")
    kinds = up.shape[1]
    first = 2 * leaves
    for direction, leaf in ((0, source), (1, target)):
        share = near + over_core[direction]
        where, kind = np.nonzero(share)
        link = first + direction * leaves * kinds + leaf[where] * kinds + kind
        yield where, link, counts[where] * share[where, kind], up[leaf[where], kind] * groups[kind]
    first += 2 * leaves * kinds
    for direction in (0, 1):
        where, kind = np.nonzero(over_core[direction])
        link = first + direction * kinds + kind
        weight = counts[where] * over_core[direction][where, kind]
        yield where, link, weight, top[kind].sum(axis=1) * groups[kind]


def _alike(tiers: Tiers) -> tuple[Floats, Floats, Floats]:
    """Spines of one kind (same cables to every leaf and core) as one column: [kind] how many, [leaf, kind]
    one spine's cables to each leaf, [kind, core] to each core.
    """
    columns = np.concatenate((tiers.up.T, tiers.top), axis=1)
    kinds, number = np.unique(columns, axis=0, return_counts=True)
    leaves = len(tiers.leaves)
    return number.astype(float), kinds[:, :leaves].T, kinds[:, leaves:]


def _paths(
    up: Floats, top: Floats, groups: Floats, source: Ints, target: Ints
) -> tuple[Floats, Floats, Floats]:
    """The part of each class's traffic over each kind of spine [class, kind]: over one spine, and of that
    over a core the first and the second spine. A class within a leaf has none.
    """
    away = source != target
    near = _normed(up[source] * up[target] * groups, away)
    rest = away & (near.sum(axis=1) == 0)
    joined = top @ top.T * np.outer(groups, groups)
    onward, back = up[target] @ joined.T, up[source] @ joined
    return near, _normed(up[source] * onward, rest), _normed(up[target] * back, rest)


def _normed(share: Floats, which: NDArray[np.bool_]) -> Floats:
    """Rows that add up to 1, for some classes; the others, and rows of nothing, are 0."""
    total = share.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(share, total, out=np.zeros_like(share), where=which[:, None] & (total > 0)))
