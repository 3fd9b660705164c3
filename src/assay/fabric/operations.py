"""The collective operations and nccl-tests' definitions of size, algbw and busbw.

Source: nccl-tests, doc/PERFORMANCE.md. "Size" of all_gather and reduce_scatter is the whole buffer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.errors import unknown_name

Floats = NDArray[np.float64]

OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
)

#: How programs and files spell them.
_SPELLINGS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "p2p": "send_recv",
}


def operation(name: str, *, where: str | None = None) -> str:
    """The operation that `name` means, in the spelling used here."""
    said = name.strip().lower().replace("-", "_")
    found = _SPELLINGS.get(said.replace("_", ""), said)
    if found not in OPERATIONS:
        raise unknown_name("collective", name, OPERATIONS, where=where)
    return found


def busbw_factor(op: str, ranks: ArrayLike) -> Floats:
    """busbw over algbw: 2(n−1)/n all_reduce; (n−1)/n where a rank keeps its own block; 1 elsewhere."""
    n = np.asarray(ranks, dtype=float)
    if op == "all_reduce":
        return np.asarray(2 * (n - 1) / n)
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return np.asarray((n - 1) / n)
    return np.ones_like(n)
