"""Which algorithm and protocol NCCL takes for each collective and size, as its own log tells.

A process of its own, because the log has a line per call: what is timed elsewhere is not logged. NCCL decides
by operation, size and communicator alone, so that what it takes here it takes there.
"""

from __future__ import annotations

import os

from assay.measure.benchmarks.collectives import obstacle
from assay.measure.context import Context, RecipeParam
from assay.measure.nccl_environment import CHOICES, nccl_log
from assay.measure.operations import OPERATIONS
from assay.measure.registry import benchmark


@benchmark(
    CHOICES,
    summary="algorithm and protocol that NCCL takes for each collective and size",
    yields=("collective.<op>.choice",),
    once=True,
    needs_gpu=True,
)
def choices(context: Context) -> None:
    """One call of each operation at each size; rank 0 reads the log."""
    for op in context.settings["ops"] if context.world > 1 else ():
        for size in context.settings["sizes"]:
            if obstacle(context, op, size, call_s=0.0):
                continue
            before = len(nccl_log(os.environ) or ())
            operation = OPERATIONS[op](context, size)
            operation.fill()
            operation.run()
            context.sync_function()()
            context.barrier()
            if context.rank == 0:
                _record(context, op, size, before)


def _record(context: Context, op: str, size: int, before: int) -> None:
    quantity = f"collective.{op}.choice"
    recipe: dict[str, RecipeParam] = {
        "bytes": size,
        "ranks": context.world,
        "dtype": "fp32",
        "transport": context.transport,
    }
    log = nccl_log(os.environ)
    if chosen := chosen_in((log or [])[before:]):
        context.record(quantity, chosen, "text", recipe=recipe, subject="cluster", absolute=False)
        return
    reason = "NCCL wrote no log that this rank could read"
    if log is not None:
        reason = "the log tells of no choice: this NCCL logs none, or the call is made of sends and receives"
    context.missing(quantity, "text", reason, recipe=recipe, subject="cluster")


def chosen_in(lines: list[str]) -> str | None:
    """`RING/SIMPLE` where the lines tell of one choice, `RING/LL + RING/SIMPLE` of two; None of none."""
    from assay.formats.nccl_log import read_choice

    found = {f"{c.algorithm}/{c.protocol}" for c in map(read_choice, lines) if c}
    return " + ".join(sorted(found)) or None
