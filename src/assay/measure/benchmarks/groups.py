"""The nodes below one leaf switch among themselves: all leaves side by side, then each alone.

What is slow alone is the leaf's own; what is slow only while the others talk shares something with them.
Which node is below which leaf is told by the settings; without any record of it nodes are taken in blocks of
consecutive ones, which the source of the facts says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from assay.domain.subject import leaf_group
from assay.measure.benchmarks.collectives import Pipelined, pipelined
from assay.measure.context import Context, RecipeParam
from assay.measure.operations import ITEM_BYTES, AllReduce
from assay.measure.registry import benchmark

QUANTITY = "leaf.all_reduce.busbw"


@benchmark(
    "groups",
    summary="all_reduce among the nodes below each leaf: side by side, then each alone",
    yields=(QUANTITY,),
    needs_nodes=True,
    wave="group",
)
def groups(context: Context) -> None:
    """Every size: all groups at once, then group by group while the others wait."""
    leaves: Mapping[str, str] = context.settings["leaves"]
    _record_leaves(context, leaves)
    every = ranks_by_leaf(context, leaves)
    if len(every) < 2:
        reason = "fewer than two leaves have two nodes or more that take part"
        if context.rank == 0:
            context.missing(QUANTITY, "B/s", reason, subject="cluster")
        return
    own, within = _own_group(context, every)
    for size in context.settings["sizes"]:
        _measure(context, within if own else None, size, load="side_by_side")
        for leaf in every:
            _measure(context, within if own == leaf else None, size, load="alone")


def ranks_by_leaf(context: Context, leaves: Mapping[str, str]) -> dict[str, list[int]]:
    """The ranks below each leaf that has two nodes or more, in the order of their ranks."""
    found: dict[str, list[int]] = {}
    for rank, host in enumerate(context.hosts):
        if host in leaves:
            found.setdefault(leaves[host], []).append(rank)
    return {leaf: ranks for leaf, ranks in found.items() if len({context.hosts[r] for r in ranks}) > 1}


def _own_group(context: Context, every: Mapping[str, list[int]]) -> tuple[str, Context | None]:
    """This rank's leaf and its place in it; every rank makes every group, in the same order."""
    import torch.distributed as dist

    own: str = ""
    within: Context | None = None
    for leaf, ranks in every.items():
        group = dist.new_group(ranks)
        if context.rank in ranks:
            own = leaf
            within = dataclasses.replace(
                context,
                rank=ranks.index(context.rank),
                numbers=tuple(context.numbers[r] for r in ranks),
                hosts=tuple(context.hosts[r] for r in ranks),
                group=group,
            )
    return own, within


def _measure(context: Context, within: Context | None, size: int, *, load: str) -> None:
    """The group's all_reduce (None: this rank waits), proved on all ranks, recorded by its first."""
    context.barrier()
    measured: Pipelined | None = None
    right = True
    if within is not None:
        operation = AllReduce(within, size // ITEM_BYTES * ITEM_BYTES)
        operation.fill()
        measured = pipelined(within, operation)
        operation.fill()
        operation.run()
        right = operation.is_right()
    context.require_everywhere(right, f"all_reduce of {size} B below one leaf gave a wrong result")
    if within is None or measured is None or within.rank:
        return
    recipe: dict[str, RecipeParam] = {
        "bytes": size,
        "ranks": within.world,
        "dtype": "fp32",
        "transport": context.transport,
        "method": "pipelined",
        "statistic": "mean",
        "load": load,
    }
    leaf = leaf_group(context.settings["leaves"][context.host])
    busbw_Bps = operation.message_bytes / measured.mean_s * operation.factor
    context.record(QUANTITY, busbw_Bps, "B/s", recipe=recipe, subject=str(leaf), n=measured.count)


def _record_leaves(context: Context, leaves: Mapping[str, str]) -> None:
    """By each node's first rank, below which leaf it is and who says so."""
    if context.hosts.index(context.host) != context.rank or context.replicate:
        return
    source = context.settings["leaves_source"]
    key = "leaf" if context.settings["leaves_known"] else "group.block"
    reason = None if context.host in leaves else f"{source} does not name it"
    context.fact(key, f"node:{context.host}", leaves.get(context.host), "text", reason=reason, source=source)
