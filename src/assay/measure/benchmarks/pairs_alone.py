"""Suspected pairs of nodes again, one after another, with nothing else on the network."""

from __future__ import annotations

from assay.measure.benchmarks.pairs import first_ranks, measure_pair
from assay.measure.context import Context
from assay.measure.registry import benchmark


@benchmark(
    "pairs_alone",
    summary="suspected pairs of nodes again, each alone",
    yields=("peer.bandwidth", "peer.bidirectional_bandwidth", "peer.latency"),
    needs_nodes=True,
    wave="pair",
    apart=True,
)
def pairs_alone(context: Context) -> None:
    """Pair by pair, while all others wait."""
    first_of = {context.hosts[rank]: rank for rank in first_ranks(context)}
    for one, other in context.settings["pairs"]:
        if one in first_of and other in first_of:
            pair = sorted((first_of[one], first_of[other]))
            measure_pair(context, (pair[0], pair[1]) if context.rank in pair else None, load="alone")
