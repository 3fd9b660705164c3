"""Shortest ways through a network, and tables that choose one of them for each destination (D-mod-K)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from assay.fabric.routes.tables import Tables
from assay.fabric.topology.network import Network

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FAR = 1 << 20


def distances(tables: Tables) -> Ints:
    """Switch-to-switch hops [switch, switch]; `_FAR` where there is no way."""
    count = len(tables.switches)
    joined = np.zeros((count, count), dtype=np.float32)
    at, port = np.nonzero((tables.far >= 0) & (tables.far < count))
    joined[at, tables.far[at, port]] = 1
    found = np.full((count, count), _FAR)
    np.fill_diagonal(found, 0)
    reached = np.eye(count, dtype=bool)
    for hops in range(1, count):
        beyond = (reached.astype(np.float32) @ joined > 0) & (found == _FAR)
        if not beyond.any():
            break
        found[beyond] = hops
        reached = beyond
    return found


def next_ports(tables: Tables, away: Ints) -> Bools:
    """Whether a port lies on a shortest way [switch, target switch, port]; `away` from `distances`."""
    count = len(tables.switches)
    inner = (tables.far >= 0) & (tables.far < count)
    beyond = np.where(inner, tables.far, 0)
    # away[beyond[switch, port], target] is one less than away[switch, target] on a shortest way.
    nearer = away[beyond].transpose(0, 2, 1) == away[:, :, None] - 1
    return np.asarray(nearer & inner[:, None, :] & (away < _FAR)[:, :, None])


def d_mod_k(network: Network) -> Tables:
    """Tables of D-mod-K: destination d leaves by the (d mod k)-th of the k ports on a shortest way.

    Higher up, d is first divided by what the switches below have decided with it, so that the destinations
    of one cable go round the next ones: E. Zahavi, "Fat-tree routing and node ordering providing contention
    free traffic for MPI global collectives" (2012). Where cables are missing, they go round those left.
    """
    tables = Tables.of(network)
    ports = next_ports(tables, distances(tables))
    count = len(tables.switches)
    tier = np.array([network.devices[name].tier or 1 for name in tables.switches])
    above = _upper_neighbours(tables, tier)
    leaf_ports = max(int((_is_above(tables, tier)[tier == 1]).sum(axis=1).max(initial=1)), 1)
    homes, order = tables.first, _order_on_leaf(tables)
    out = tables.port_out.copy()
    for target in np.unique(homes[(homes >= 0) & (homes < count)]):
        here = np.flatnonzero(homes == target)
        options = ports[:, target, :]
        total = options.sum(axis=1)
        ranked = np.argsort(~options, axis=1, kind="stable")
        for switch in np.flatnonzero(total > 0):
            lower = tables.far[switch, ranked[switch, 0]]
            decided = leaf_ports ** max(int(tier[switch]) - 2, 0)
            if tier[lower] < tier[switch]:
                decided *= above[lower]
            elif tier[switch] > 1:
                decided = leaf_ports
            k = int(total[switch])
            out[switch, here] = ranked[switch, order[here] // max(int(decided), 1) % k]
    _deliver(tables, out)
    return replace(tables, port_out=out)


def _is_above(tables: Tables, tier: Ints) -> Bools:
    """Whether the cable at a port leads to a higher tier [switch, port]."""
    count = len(tables.switches)
    inner = (tables.far >= 0) & (tables.far < count)
    return np.asarray(inner & (tier[np.where(inner, tables.far, 0)] > tier[:, None]))


def _upper_neighbours(tables: Tables, tier: Ints) -> Ints:
    """How many different switches above each switch it is cabled to."""
    up = _is_above(tables, tier)
    return np.array([len(set(far[mask])) for far, mask in zip(tables.far, up, strict=True)])


def _order_on_leaf(tables: Tables) -> Ints:
    """The place of each adapter among all, leaf by leaf and there by port."""
    count = len(tables.switches)
    order = np.zeros(len(tables.adapters), dtype=np.int64)
    at, port = np.nonzero(tables.far >= count)
    order[tables.far[at, port] - count] = np.arange(at.size)
    return order


def _deliver(tables: Tables, out: Ints) -> None:
    """The last hop: the port at which an adapter itself hangs."""
    count = len(tables.switches)
    at, port = np.nonzero(tables.far >= count)
    out[at, tables.far[at, port] - count] = port
