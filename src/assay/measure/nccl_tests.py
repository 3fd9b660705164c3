"""Runs nccl-tests' own programs (`all_reduce_perf` and its kind) beside ours, where they are installed."""

from __future__ import annotations

import shutil
import subprocess

from assay.errors import AssayError, MeasurementError
from assay.measure.context import Context, RecipeParam
from assay.measure.node import ranks_on_this_node

PROGRAMS = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "all_to_all": "alltoall_perf",
    "broadcast": "broadcast_perf",
    "send_recv": "sendrecv_perf",
}
#: torch gives these only in place; the result to set beside ours is the one of the same kind.
_IN_PLACE = ("all_reduce", "broadcast")
_TIMEOUT_S = 60.0


def record_busbw(context: Context, op: str, size: int) -> None:
    """Rank 0 runs the program over its node's GPUs and records busbw while the others wait; GPUs only."""
    if not context.on_gpu:
        return
    import torch

    here = len(ranks_on_this_node(context))
    torch.cuda.empty_cache()
    context.barrier()
    if context.rank == 0:
        program = shutil.which(PROGRAMS[op])
        if program is None:
            context.event("program_absent", f"{PROGRAMS[op]} of nccl-tests is not on the PATH")
        else:
            _record(context, op, program, size, here)
    context.barrier()


def _record(context: Context, op: str, program: str, size: int, gpus: int) -> None:
    recipe: dict[str, RecipeParam] = {
        "method": "nccl-tests",
        "bytes": size,
        "ranks": gpus,
        "dtype": "fp32",
        "transport": context.transport,
        "statistic": "mean",
    }
    quantity = f"collective.{op}.busbw"
    subject = "cluster" if gpus == context.world else f"node:{context.host}"
    timeout_s = min(_TIMEOUT_S, context.time_left_s() / 4)
    try:
        busbw_Bps, count = busbw(program, op, size, gpus, timeout_s=timeout_s)
    except MeasurementError as error:
        context.missing(quantity, "B/s", error.what, subject=subject, recipe=recipe)
        return
    context.record(quantity, busbw_Bps, "B/s", subject=subject, recipe=recipe, n=count)


def busbw(program: str, op: str, size: int, gpus: int, *, timeout_s: float) -> tuple[float, int]:
    """busbw in B/s of one message size by the program's own words, and its iterations.

    Raises `MeasurementError` when the program fails, takes too long, or counts wrong values.
    """
    # Imported here because only rank 0 of a GPU node ever reads this text.
    from assay.formats.nccl_tests import parse

    iterations = 20
    command = [program, "-b", str(size), "-e", str(size), "-g", str(gpus), "-n", str(iterations)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"{program} did not end within {timeout_s:.3g} s") from None
    except OSError as error:
        raise MeasurementError(f"{program} does not start: {error.strerror}") from error
    try:
        runs = parse(done.stdout.splitlines(), program, op)
    except AssayError as error:
        raise MeasurementError(f"{program} ended with {done.returncode}: {error.what}") from error
    row = runs[-1].rows[-1]
    result = row.in_place if op in _IN_PLACE else row.out_of_place
    if done.returncode or runs[-1].out_of_bounds or result is None or result.busbw_Bps is None:
        raise MeasurementError(
            f"{program} ended with {done.returncode}, {runs[-1].out_of_bounds} values wrong"
        )
    return result.busbw_Bps, iterations
