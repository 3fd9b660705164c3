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
    def total_Bps(self) -> float:
        """All flows together."""
        return float((self.rate_Bps * self.flows).sum())

    @property
    def slowest_Bps(self) -> float:
        """The share of the slowest flow, which a collective waits for."""
        return float(self.rate_Bps.min(initial=np.inf))


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
    kept, flow_at = np.unique(flow, return_inverse=True)
    if kept.size != source.size:
        lone = int(np.setdiff1d(np.arange(source.size), kept)[0])
        raise InputError(f"no path from {tiers.leaves[source[lone]]} to {tiers.leaves[target[lone]]}")
    used, link_at = np.unique(link, return_inverse=True)
    first = np.full(used.size, -1)
    first[link_at[::-1]] = np.arange(link_at.size)[::-1]
    crossings = Crossings(
        flow=flow_at, link=link_at, weight=weight, capacity_Bps=capacity[first], flows=int(source.size)
    )
    return Shares(source=source, target=target, flows=counts, rate_Bps=folded_shares(crossings))


def _classes(tiers: Tiers, jobs: Sequence[Flows]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Leaf pairs of the flows, the flows of each, and the NICs on each leaf that send and receive."""
    count = len(tiers.leaves)
    pairs = np.zeros(count * count, np.int64)
    sends, receives = (np.zeros(len(tiers.adapters), dtype=bool) for _ in range(2))
    for job in jobs:
        source, target = tiers.leaf_of[job.sender], tiers.leaf_of[job.receiver]
        if source.size and min(source.min(), target.min()) < 0:
            raise InputError("an adapter of the job hangs on no leaf", fix="leave its node out of the job")
        pairs += np.bincount(source * count + target, minlength=count * count)
        sends[job.sender], receives[job.receiver] = True, True
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
    near, over_core = _paths(up, top, groups, source, target)
    kinds = up.shape[1]
    first = 2 * leaves
    for direction, leaf in ((0, source), (1, target)):
        share = near + over_core.sum(axis=2 - direction)
        where, kind = np.nonzero(share)
        link = first + direction * leaves * kinds + leaf[where] * kinds + kind
        yield where, link, counts[where] * share[where, kind], up[leaf[where], kind] * groups[kind]
    if not len(tiers.cores):
        return
    first += 2 * leaves * kinds
    for direction in (0, 1):
        share = over_core.sum(axis=2 - direction)
        where, kind = np.nonzero(share)
        link = first + direction * kinds + kind
        yield where, link, counts[where] * share[where, kind], top[kind].sum(axis=1) * groups[kind]


def _alike(tiers: Tiers) -> tuple[Floats, Floats, Floats]:
    """Spines of one kind (same cables to every leaf and core) as one column: [kind] how many, [leaf, kind]
    one spine's cables to each leaf, [kind, core] to each core.
    """
    columns = np.concatenate((tiers.up.T, tiers.top), axis=1)
    kinds, number = np.unique(columns, axis=0, return_counts=True)
    leaves = len(tiers.leaves)
    return number.astype(float), kinds[:, :leaves].T, kinds[:, leaves:]


def _paths(up: Floats, top: Floats, groups: Floats, source: Ints, target: Ints) -> tuple[Floats, Floats]:
    """The part of each class's traffic over each kind of spine [class, kind], and [class, kind, kind]
    of that over two spines and a core. A class within a leaf has none.
    """
    away = (source != target)[:, None]
    near = np.where(away, up[source] * up[target] * groups, 0.0)
    total = near.sum(axis=1)
    near = np.divide(near, total[:, None], out=np.zeros_like(near), where=total[:, None] > 0)
    kinds = up.shape[1]
    far = np.zeros((source.size, kinds, kinds if top.shape[1] else 1))
    rest = np.flatnonzero((source != target) & (total == 0))
    if rest.size and top.shape[1]:
        joined = top @ top.T * np.outer(groups, groups)
        paths = up[source[rest]][:, :, None] * joined[None] * up[target[rest]][:, None, :]
        whole = paths.sum(axis=(1, 2))
        far[rest] = np.divide(
            paths, whole[:, None, None], out=np.zeros_like(paths), where=whole[:, None, None] > 0
        )
    return near, far
