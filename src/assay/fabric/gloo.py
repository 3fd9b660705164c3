"""Gloo on CPUs over TCP: rings of ranks, as PyTorch uses it where there is no GPU.

Two parameters, both properties of the machine: the latency and the bandwidth between two nodes, which the
cluster's fabric gives as measured. Ranks of a node share its wire and its cores' copies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay.domain.cluster import Cluster

Floats = NDArray[np.float64]

#: Between two ranks of one machine through loopback, where nothing is known: s and B/s.
_LOOPBACK_S, _LOOPBACK_Bps = 40e-6, 2e9


def gloo_time_s(cluster: Cluster, op: str, sizes: Floats, per_node: int, nodes: int) -> Floats:
    """Steps times latency plus ring bytes over the slowest hop's bandwidth."""
    n = per_node * nodes
    fabric = cluster.fabric
    latency, rate = _LOOPBACK_S, _LOOPBACK_Bps
    if nodes > 1 and fabric is not None:
        latency = fabric.latency_s if fabric.latency_s is not None else 60e-6
        rate = min(fabric.node_Bps or cluster.node.nic_Bps, rate)
    steps = 2 * (n - 1) if op == "all_reduce" else n - 1
    load = (
        2 * (n - 1) / n
        if op == "all_reduce"
        else 1.0
        if op in ("broadcast", "reduce", "send_recv")
        else (n - 1) / n
    )
    if op == "all_to_all" and nodes > 1:
        load *= per_node
    return np.asarray(steps * latency + load * sizes / rate)
