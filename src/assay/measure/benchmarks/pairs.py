"""Every pair of nodes: bandwidth in each direction and in both at once, and latency.

The first rank of each node speaks for it. Pairs are taken in rounds of disjoint pairs, so that n nodes need
n−1 rounds and no node serves two pairs at once.
"""

from __future__ import annotations

from assay.measure.benchmarks.peer import Pair, disjoint_rounds
from assay.measure.context import Context
from assay.measure.registry import benchmark


@benchmark(
    "pairs",
    summary="every pair of nodes: each direction, both at once, latency",
    yields=("peer.bandwidth", "peer.bidirectional_bandwidth", "peer.latency"),
    needs_nodes=True,
    wave="pair",
)
def pairs(context: Context) -> None:
    """Round by round: measure this node's pair, prove every payload of the round, record."""
    firsts = first_ranks(context)
    if len(firsts) == 1:
        for quantity, unit in context.units.items():
            context.missing(
                quantity, unit, "one node has no other", recipe={"span": "nodes"}, subject="cluster"
            )
    for round_ in disjoint_rounds(firsts):
        measure_pair(context, next((pair for pair in round_ if context.rank in pair), None), load="round")


def measure_pair(context: Context, pair: tuple[int, int] | None, *, load: str) -> None:
    """This rank's pair (None where it has none in this round): measure, prove on all ranks, record."""
    measured = None
    if pair:
        names = {rank: context.hosts[rank] for rank in pair}
        measured = Pair(context, *pair, names, recipe={"span": "nodes", "load": load})
    right = measured.measure() if measured else True
    context.require_everywhere(right, "a message between two nodes did not arrive as it was sent")
    if measured:
        measured.record()


def first_ranks(context: Context) -> list[int]:
    """The first rank of each node."""
    return sorted(context.hosts.index(host) for host in set(context.hosts))
