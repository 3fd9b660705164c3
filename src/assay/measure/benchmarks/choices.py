"""Algorithm and protocol that NCCL takes for each collective and size, and how its buffers are registered.

A process of its own, because the log has a line per call: what is timed elsewhere is not logged. NCCL decides
by operation, size, communicator and registered buffers alone, so that what it takes here it takes there.
"""

from __future__ import annotations

import os

from assay.measure.benchmarks.collectives import obstacle
from assay.measure.context import Context, RecipeParam
from assay.measure.nccl_environment import CHOICES, logs_registration, nccl_log
from assay.measure.operations import OPERATIONS
from assay.measure.registry import benchmark

_NO_CHOICE = "the log tells of no choice: this NCCL logs none, or the call is made of sends and receives"


@benchmark(
    CHOICES,
    summary="algorithm, protocol and registered buffers of NCCL for each collective and size",
    yields=("collective.<op>.choice", "collective.<op>.registration"),
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
    recipe: dict[str, RecipeParam] = {
        "bytes": size,
        "ranks": context.world,
        "dtype": "fp32",
        "transport": context.transport,
    }
    from assay.formats.nccl_calls import chosen_in, registered_in

    log = nccl_log(os.environ)
    lines = (log or [])[before:]
    unread = "NCCL wrote no log that this rank could read" if log is None else None
    unlogged = None if logs_registration(os.environ) else "NCCL_DEBUG_SUBSYS leaves the subsystem REG out"
    for name, value, reason in (
        ("choice", chosen_in(lines), unread or _NO_CHOICE),
        ("registration", None if unread or unlogged else registered_in(lines), unread or unlogged),
    ):
        quantity = f"collective.{op}.{name}"
        if value is None:
            context.missing(quantity, "text", reason or "", recipe=recipe, subject="cluster")
        else:
            context.record(quantity, value, "text", recipe=recipe, subject="cluster", absolute=False)
