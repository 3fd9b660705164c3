"""Bytes that calls must move at the least: out of a node, and over NVLink between the cards of one.

M is a call's size as nccl-tests prints it, n its ranks, g those on this node. Without the algorithm the
bounds are those of any algorithm, one that sums in the network included: each element of a sum leaves a node
at least once, as its contribution or as the result. Rings and trees move more, by their definition;
protocols with flags (LL, LL128) and packet headers only add.
"""

from __future__ import annotations

from assay.domain.attestation import Calls

_RING, _TREE = "RING", "TREE"
#: Algorithms that sum over NVLink first and then go out.
_NVLINK_FIRST = ("NVLS", "NVLS_TREE", "COLLNET_DIRECT", "COLLNET_CHAIN")


def algorithm_of(choice: str | None) -> str | None:
    """`RING/LL + RING/SIMPLE` → RING; None where several algorithms or none are told."""
    named = {word.partition("/")[0] for word in choice.split(" + ")} if choice else set()
    return named.pop() if len(named) == 1 else None


def least_leaving_bytes(calls: Calls, algorithm: str | None = None) -> float:
    """Bytes that these calls send out of this node at the least; 0 where all ranks are on it."""
    size, n, g = float(calls.bytes), calls.ranks, calls.here
    if calls.nodes == 1:
        return 0.0
    ring = algorithm == _RING
    each = {
        "all_reduce": 2 * size * (n - 1) / n if ring else size,
        "all_gather": size * (n - 1) / n if ring else size * g / n,
        "reduce_scatter": size * (n - 1) / n if ring else size * (n - g) / n,
        "all_to_all": size * g * (n - g) / n,
        "send_recv": size,
        "send": size,
    }
    return calls.count * each.get(calls.op, 0.0)


def least_nvlink_bytes(calls: Calls, algorithm: str | None = None) -> float | None:
    """Bytes that this node's cards send each other at the least in these calls; None without a bound.

    With several nodes the bound needs the algorithm: cards could as well send all they have to the network.
    """
    if calls.here == 1:
        return 0.0
    each = _within(calls, algorithm) if calls.nodes == 1 else _beside(calls, algorithm)
    return None if each is None else calls.count * each


def _within(calls: Calls, algorithm: str | None) -> float | None:
    """One call among the cards of one node."""
    size, g = float(calls.bytes), calls.here
    passed_on = algorithm in (_RING, _TREE)
    each = {
        # A ring passes 2(g-1)/g of M from each card, a tree M up and down each of g-1 links.
        "all_reduce": 2 * (g - 1) * size if passed_on else g * size,
        "all_gather": (g - 1) * size if passed_on else size,
        "reduce_scatter": (g - 1) * size,
        "all_to_all": (g - 1) * size,
        "broadcast": (g - 1) * size if passed_on else size,
        "send_recv": g * size,
        "send": size,
    }
    return each.get(calls.op)


def _beside(calls: Calls, algorithm: str | None) -> float | None:
    """One call over several nodes: what stays on this one."""
    size, n, g = float(calls.bytes), calls.ranks, calls.here
    if calls.op == "all_to_all":
        return size * g * (g - 1) / n
    if algorithm == _RING:
        passed = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}.get(calls.op)
        return None if passed is None else passed * (g - 1) * size * (n - 1) / n
    if calls.op == "all_reduce" and algorithm == _TREE:
        return 2 * (g - 1) * size
    return g * size if calls.op == "all_reduce" and algorithm in _NVLINK_FIRST else None
