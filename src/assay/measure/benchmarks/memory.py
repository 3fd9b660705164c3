"""Device memory bandwidth: copy and triad over arrays larger than the caches, alone and all at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.measure.context import Context
from assay.measure.node import memory_available_bytes, turns_in_node
from assay.measure.registry import benchmark
from assay.measure.timing import Windows, windows

_ITEM_BYTES = 4
_SCALE = 3.0
#: Whole numbers this small stay exact in single precision, also after the triad.
_LARGEST = 1000
#: The arrays may take this share of the memory that is free.
_MEMORY_SHARE = 0.5
_UNIT = 1 << 20
#: Arrays that a pattern passes over: STREAM's count, without the read that a write may cost.
_ARRAYS = {"copy": 2, "triad": 3}


@benchmark(
    "memory",
    summary="device memory bandwidth: copy and triad",
    yields=("memory.<pattern>.bandwidth",),
    wave="card",
)
def memory(context: Context) -> None:
    """Copy (a = b) and triad (a = b + s·c) in single precision: bytes of the arrays passed over a second."""
    array_bytes = _array_bytes(context)
    if reason := _does_not_fit(context, array_bytes):
        for pattern in _ARRAYS:
            context.missing(f"memory.{pattern}.bandwidth", "B/s", reason)
        return
    arrays = _Arrays(context, array_bytes)
    window_s = context.settings["window_s"]
    recipe = {"bytes": array_bytes, "statistic": "median", "window_s": window_s} | context.host_threads()
    for pattern in _ARRAYS:
        for turn in range(turns_in_node(context)):
            context.barrier()
            if turn == context.local_rank:
                alone = arrays.time(context, pattern, share=0.5)
        context.barrier()
        together = arrays.time(context, pattern, share=1.0)
        context.require_everywhere(arrays.are_right(pattern), f"the {pattern} left wrong elements")
        for load, result in (("alone", alone), ("all", together)):
            context.record(
                f"memory.{pattern}.bandwidth",
                _ARRAYS[pattern] * array_bytes / result.median_s,
                "B/s",
                recipe=recipe | {"load": load},
                samples=result.per_iteration_s,
                cpu_share_frac=result.cpu_share_frac,
                absolute=load == "all",
            )


class _Arrays:
    """Three arrays of whole numbers, so that every element of a result can be checked exactly."""

    def __init__(self, context: Context, array_bytes: int) -> None:
        import torch

        generator = torch.Generator(device=context.device).manual_seed(context.seed + context.rank)

        def numbers() -> Any:
            block = torch.empty(_UNIT // _ITEM_BYTES, device=context.device)
            return block.random_(0, _LARGEST, generator=generator).repeat(array_bytes // _UNIT)

        self.b, self.c = numbers(), numbers()
        self.a = torch.empty_like(self.b)

    def time(self, context: Context, pattern: str, *, share: float) -> Windows:
        """Sustained windows into a target that held no numbers; `share` of the suite's number of them."""
        self.a.fill_(math.nan)
        return windows(
            self._work(pattern),
            window_s=context.settings["window_s"],
            count=max(2, round(context.settings["windows"] * share)),
            warmup_s=context.settings["warmup_s"],
            sync=context.sync_function(),
        )

    def are_right(self, pattern: str) -> bool:
        """Whether every element of the target is what arithmetic says."""
        import torch

        expected = self.b if pattern == "copy" else self.b + self.c * _SCALE
        return bool(torch.equal(self.a, expected))

    def _work(self, pattern: str) -> Callable[[], Any]:
        import torch

        if pattern == "copy":
            return lambda: self.a.copy_(self.b)
        return lambda: torch.add(self.b, self.c, alpha=_SCALE, out=self.a)


def _array_bytes(context: Context) -> int:
    """The suite's array, or a larger one, so that the two of a copy exceed the host's last-level caches."""
    wanted_bytes = float(context.settings["bytes"])
    if not context.on_gpu:
        cache_bytes = context.settings.get("cache_bytes")
        if cache_bytes is None:
            cache_bytes = _last_level_cache_bytes()
        wanted_bytes = context.agree(max(wanted_bytes, cache_bytes / 2))
    return math.ceil(wanted_bytes / _UNIT) * _UNIT


def _last_level_cache_bytes() -> int:
    """The last-level caches of all CPUs together, each counted once; 0 where the kernel shows none."""
    found: dict[tuple[int, str], int] = {}
    for index in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*"):
        try:
            level = int((index / "level").read_text())
            shared_by = (index / "shared_cpu_list").read_text().strip()
            size = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if size.endswith("K") and size[:-1].isdecimal():
            found[level, shared_by] = int(size[:-1]) << 10
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last)


def _does_not_fit(context: Context, array_bytes: int) -> str | None:
    """Why the arrays of all ranks do not fit, or None; the same answer on every rank."""
    need = (max(_ARRAYS.values()) + 1) * array_bytes  # the check makes one more
    short = need - context.agree(_MEMORY_SHARE * memory_available_bytes(context), "min")
    if short <= 0:
        return None
    return f"arrays that exceed the caches ({array_bytes >> 20} MiB each) need {short / 2**20:.0f} MiB more"
