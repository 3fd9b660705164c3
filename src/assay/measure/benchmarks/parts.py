"""The parts of a training step, each by itself, from which the step is predicted."""

from __future__ import annotations

from collections.abc import Callable

from assay.measure.benchmarks.training import trained_shape
from assay.measure.context import Context
from assay.measure.registry import benchmark
from assay.measure.timing import cold_windows, windows

#: Parameter, gradient and two moments in fp32: what a step passes over between two visits to one place.
_STATE_BYTES = 16


@benchmark(
    "parts",
    summary="parts of a training step, each by itself",
    yields=("part.<name>.time",),
    wave="card",
)
def parts(context: Context) -> None:
    """Each part of `training`'s model and batch in sustained windows, with all ranks at once.

    On a CPU, whose caches hold a small model, each finds them as cold as a step leaves them: between two
    runs as many bytes are passed over as the model's state has, which does not count.
    """
    from assay.measure import parts as made

    settings = context.settings
    shape = trained_shape(context)
    batch = made.Batch(shape, settings["batch_per_rank"], context.device, settings["dtype"])
    span = {"window_s": settings["window_s"], "warmup_s": settings["warmup_s"], "count": settings["windows"]}
    pass_over = None if context.on_gpu else _passing_over(_STATE_BYTES * made.parameters(shape))
    recipe = {
        "model": str(shape),
        "batch_per_rank": settings["batch_per_rank"],
        "sequence": shape.sequence,
        "dtype": settings["dtype"],
        "load": "all",
        "statistic": "median",
    } | context.host_threads()
    for part in made.parts(batch):
        context.barrier()
        if pass_over:
            result = cold_windows(part.run, pass_over, **span)
        else:
            result = windows(part.run, sync=context.sync_function(), **span)
        context.require_everywhere(part.is_right(), f"the {part.name} result does not match its reference")
        context.record(
            f"part.{part.name}.time",
            result.median_s,
            "s",
            recipe=recipe,
            samples=result.per_iteration_s,
            cpu_share_frac=result.cpu_share_frac,
        )


def _passing_over(size_bytes: int) -> Callable[[], object]:
    """Reads half of that many bytes and writes the other half."""
    import torch

    to, source = (torch.zeros(size_bytes // 8) for _ in range(2))
    return lambda: to.copy_(source)
