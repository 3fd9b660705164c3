"""Pinned host memory to the GPU and back, timed by CUDA events, alone and all at once."""

from __future__ import annotations

from typing import Any

from assay.measure.context import Context
from assay.measure.node import turns_in_node
from assay.measure.registry import benchmark
from assay.measure.timing import Windows, event_windows

_DIRECTIONS = ("h2d", "d2h")


@benchmark(
    "host_device",
    summary="pinned host memory to the GPU and back",
    yields=tuple(f"host_device.{direction}.bandwidth" for direction in _DIRECTIONS),
    needs_gpu=True,
    wave="card",
)
def host_device(context: Context) -> None:
    """Each direction by itself, each rank of a node in turn and then all ranks at once."""
    if not context.on_gpu:
        for direction in _DIRECTIONS:
            context.missing(f"host_device.{direction}.bandwidth", "B/s", "no GPU")
        return
    buffers = _Buffers(context)
    for direction in _DIRECTIONS:
        for turn in range(turns_in_node(context)):
            context.barrier()
            if turn == context.local_rank:
                alone = buffers.time(context, direction, share=0.5)
        context.barrier()
        together = buffers.time(context, direction, share=1.0)
        context.require_everywhere(buffers.arrived(direction), f"the {direction} copy did not arrive whole")
        for load, result in (("alone", alone), ("all", together)):
            context.record(
                f"host_device.{direction}.bandwidth",
                context.settings["bytes"] / result.median_s,
                "B/s",
                recipe={
                    "bytes": context.settings["bytes"],
                    "pinned": True,
                    "load": load,
                    "statistic": "median",
                    "window_s": context.settings["window_s"],
                },
                samples=result.per_iteration_s,
                cpu_share_frac=result.cpu_share_frac,
                absolute=load == "all",
            )


class _Buffers:
    """Random bytes at both ends, and a target for them at the other, which starts as zeros."""

    def __init__(self, context: Context) -> None:
        import torch

        count = context.settings["bytes"]

        def noise(device: str) -> Any:
            generator = torch.Generator(device=device).manual_seed(context.seed + context.rank)
            return torch.empty(count, dtype=torch.uint8, device=device).random_(0, 256, generator=generator)

        zeros = torch.zeros(count, dtype=torch.uint8)
        #: Source and target of each direction.
        self._ends = {
            "h2d": (noise("cpu").pin_memory(), zeros.to(context.device)),
            "d2h": (noise(context.device), zeros.pin_memory()),
        }

    def time(self, context: Context, direction: str, *, share: float) -> Windows:
        """Sustained windows; `share` of the suite's number of them."""
        source, target = self._ends[direction]
        return event_windows(
            lambda: target.copy_(source, non_blocking=True),
            window_s=context.settings["window_s"],
            count=max(2, round(context.settings["windows"] * share)),
            warmup_s=context.settings["warmup_s"],
            sync=context.sync_function(),
            device=context.device,
        )

    def arrived(self, direction: str) -> bool:
        """Whether both ends hold the same bytes, brought together through pageable memory."""
        import torch

        source, target = self._ends[direction]
        return bool(torch.equal(source.cpu(), target.cpu()))
