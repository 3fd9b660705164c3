"""Which of MPI's algorithms MPICH takes at a size, with ranks of a node first or all at once, and the time.

Sizes are the defaults of MPICH 3.x and 4.x (its MPIR_CVAR_… variables, src/mpi/coll):
BCAST_SHORT_MSG_SIZE 12288, BCAST_LONG 524288, BCAST_MIN_PROCS 8, REDUCE_SHORT 2048, ALLREDUCE_SHORT 2048,
ALLGATHER_SHORT 81920, ALLGATHER_LONG 524288, REDSCAT_COMMUTATIVE_LONG 524288, ALLTOALL_SHORT 256 (per pair,
from 8 ranks).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from assay.errors import unknown_name
from assay.fabric.mpi import ALGORITHMS, Cost, Floats, Wires

#: Operation → those that it is made of where a node has several ranks: (operation, inside the node or not).
_BY_NODE = {
    "all_reduce": (("reduce", True), ("all_reduce", False), ("broadcast", True)),
    "reduce": (("reduce", True), ("reduce", False)),
    "broadcast": (("broadcast", False), ("broadcast", True)),
}

#: From here on MPICH broadcasts over all ranks at once, bytes.
_BROADCAST_LONG = 524288


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What is done up to `limit_bytes`: SMP is node by node and then among leaders, FLAT all ranks alike."""

    limit_bytes: float
    algorithm: str
    protocol: str
    cost: Callable[[Floats], Cost]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Arrays over sizes."""

    time_s: Floats
    algorithm: NDArray[np.str_]
    protocol: NDArray[np.str_]
    bound_by: NDArray[np.str_]


def mpi_times(op: str, wires: Wires, sizes: Floats, algorithm: str | None = None) -> Times:
    """Time of `op` over `sizes` (nccl-tests' size) as MPICH does it, or by one algorithm on all ranks alike.

    A larger message is never done sooner: where a change of algorithm comes late, the better counts earlier.
    Raises `UnknownNameError` for an algorithm that the operation does not have.
    """
    found = [_flat(op, wires, algorithm, np.inf)] if algorithm is not None else ways(op, wires)
    limits = np.array([way.limit_bytes for way in found])
    which = np.minimum(np.searchsorted(limits, sizes), len(found) - 1)
    costs = [way.cost(sizes) for way in found]
    least = np.inf
    totals: list[Floats] = []
    for at in reversed(range(len(found))):
        totals.insert(0, np.minimum(costs[at].total_s, least))
        if at:
            least = min(least, float(found[at].cost(limits[at - 1 : at]).total_s[0]))
    parts = np.choose(which, np.array([np.array(cost).argmax(axis=0) for cost in costs]))
    return Times(
        time_s=np.choose(which, totals),
        algorithm=np.array([way.algorithm for way in found])[which],
        protocol=np.array([way.protocol for way in found])[which],
        bound_by=np.array(["latency", "link", "nic", "adding"])[parts],
    )


def ways(op: str, wires: Wires) -> list[Way]:
    """What MPICH does, from small messages to large; the last has no limit."""
    if op not in _BY_NODE or wires.per_node == 1 or wires.nodes == 1:
        return [_flat(op, wires, name, limit) for limit, name in _changes(op, wires)]
    parts = [ways(part, wires.inside() if near else wires.leaders()) for part, near in _BY_NODE[op]]
    leading = next(at for at, (_, near) in enumerate(_BY_NODE[op]) if not near)
    limits = {way.limit_bytes for part in parts for way in part}
    if op == "broadcast":
        limits.add(_BROADCAST_LONG)
    found = []
    for limit in sorted(limits):
        doing = [next(way for way in part if way.limit_bytes >= limit) for part in parts]
        found.append(
            Way(
                limit_bytes=limit,
                algorithm=doing[leading].algorithm,
                protocol="SMP",
                cost=_one_after_another([way.cost for way in doing]),
            )
        )
    if op != "broadcast" or wires.ranks < 8:
        return found
    short = [way for way in found if way.limit_bytes <= _BROADCAST_LONG]
    return [*short, _flat(op, wires, "SCATTER_RING", np.inf)]


def _one_after_another(costs: list[Callable[[Floats], Cost]]) -> Callable[[Floats], Cost]:
    return lambda sizes: reduce(Cost.then, [cost(sizes) for cost in costs])


def _flat(op: str, wires: Wires, name: str, limit_bytes: float) -> Way:
    known = ALGORITHMS[op]
    if name not in known:
        raise unknown_name(f"algorithm of MPI's {op}", name, known)
    return Way(
        limit_bytes=limit_bytes,
        algorithm=name,
        protocol="FLAT",
        cost=lambda sizes: known[name](wires, sizes),
    )


def _changes(op: str, wires: Wires) -> list[tuple[float, str]]:
    """Up to how many bytes which algorithm, for ranks that are all alike."""
    ranks, even = wires.ranks, wires.is_even
    if op == "broadcast":
        if ranks < 8:
            return [(np.inf, "BINOMIAL")]
        middle = "SCATTER_DOUBLING" if even else "SCATTER_RING"
        return [(12288, "BINOMIAL"), (_BROADCAST_LONG, middle), (np.inf, "SCATTER_RING")]
    if op == "reduce":
        return [(2048, "BINOMIAL"), (np.inf, "RABENSEIFNER")]
    if op == "all_reduce":
        return [(2048, "DOUBLING"), (np.inf, "RABENSEIFNER")]
    if op == "all_gather":
        return [(524288, "DOUBLING") if even else (81920, "BRUCK"), (np.inf, "RING")]
    if op == "reduce_scatter":
        return [(524288, "HALVING"), (np.inf, "PAIRWISE")]
    if op == "all_to_all":
        return [(256.0 * ranks, "BRUCK"), (np.inf, "PAIRWISE")] if ranks >= 8 else [(np.inf, "PAIRWISE")]
    return [(np.inf, "DIRECT")]
