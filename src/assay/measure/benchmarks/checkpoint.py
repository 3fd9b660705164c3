"""Checkpoint save and load through torch.distributed.checkpoint, each rank with its own part."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.errors import MeasurementError
from assay.measure.context import Context, RecipeParam
from assay.measure.disk import emptied, filesystem_of, place, require_room
from assay.measure.registry import benchmark

_ITEM_BYTES = 4
#: Tensors of a rank: a checkpoint is never one tensor.
_TENSORS = 8
_DIRECTIONS = ("save", "load")


@benchmark(
    "checkpoint",
    summary="checkpoint save and load",
    yields=("checkpoint.<direction>.time", "checkpoint.<direction>.bandwidth"),
)
def checkpoint(context: Context) -> None:
    """Save until every file is synced to storage; load after the files were dropped from the page cache.

    Times are from a common start until the slowest rank is done. On several nodes the place must be shared.
    """
    folder = place(context, "checkpoint")
    reason: str | None = None
    if importlib.util.find_spec("numpy") is None:
        reason = "torch.distributed.checkpoint needs NumPy, which is not installed"
    with emptied(folder) if context.rank == 0 else contextlib.nullcontext():
        total_bytes = context.world * _TENSORS * _items(context) * _ITEM_BYTES
        if context.rank == 0 and reason is None:
            reason = _no_room(folder, total_bytes)
        context.barrier()
        if context.agree(float(folder.is_dir()), "min") == 0.0 and reason is None and context.rank == 0:
            reason = "the nodes see no folder in common: let --out lie on storage that all of them share"
        if context.agree(float(reason is not None)):
            _not_measured(context, reason)
            return
        seconds = _save_and_load(context, folder)
        filesystem = filesystem_of(folder)
        context.barrier()
    if context.rank == 0:
        recipe: dict[str, RecipeParam] = {
            "bytes": total_bytes,
            "ranks": context.world,
            "filesystem": filesystem,
        }
        for direction in _DIRECTIONS:
            context.record(
                f"checkpoint.{direction}.time", seconds[direction], "s", subject="cluster", recipe=recipe, n=1
            )
            context.record(
                f"checkpoint.{direction}.bandwidth",
                total_bytes / seconds[direction],
                "B/s",
                subject="cluster",
                recipe=recipe,
                n=1,
            )


def _not_measured(context: Context, reason: str | None) -> None:
    """Rank 0 speaks for the cluster; another rank only where it alone has something to say."""
    if reason is None:
        return
    subject = "cluster" if context.rank == 0 else None
    for direction in _DIRECTIONS:
        context.missing(f"checkpoint.{direction}.time", "s", reason, subject=subject)
        context.missing(f"checkpoint.{direction}.bandwidth", "B/s", reason, subject=subject)


def _no_room(folder: Path, total_bytes: int) -> str | None:
    try:
        require_room(folder, total_bytes)
    except MeasurementError as error:
        return error.what
    return None


def _save_and_load(context: Context, folder: Path) -> dict[str, float]:
    """Seconds of the save and of the load, which must bring back every element."""
    importlib.import_module("torch.distributed.checkpoint")  # takes seconds, which are no part of the save
    state = _state(context)

    def save() -> None:
        _save(state, folder)
        _sync(context, folder)

    save_s = _timed(context, save)
    _drop_from_cache(folder)
    for tensor in state.values():
        tensor.fill_(math.nan)
    load_s = _timed(context, lambda: _load(state, folder))
    saved = _state(context)
    right = all(bool((state[name] == tensor).all()) for name, tensor in saved.items())
    context.require_everywhere(right, "the loaded tensors differ from the saved ones")
    return {"save": save_s, "load": load_s}


def _timed(context: Context, work: Callable[[], object]) -> float:
    """Seconds until the slowest rank has done the work; torch's warnings stay out of it."""
    sync = context.sync_function()
    sync()
    context.barrier()
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()
    sync()
    return context.agree(time.perf_counter() - begin)


def _items(context: Context) -> int:
    return max(1, int(context.settings["bytes_per_rank"]) // (_TENSORS * _ITEM_BYTES))


def _state(context: Context) -> dict[str, Any]:
    """This rank's part, named so that no other rank has it; the same numbers at each call."""
    import torch

    generator = torch.Generator(device=context.device).manual_seed(context.seed + context.rank)
    return {
        f"rank{context.rank}.part{i}": torch.randn(
            _items(context), device=context.device, generator=generator
        )
        for i in range(_TENSORS)
    }


def _save(state: dict[str, Any], folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    writer = dcp.FileSystemWriter(str(folder))
    if hasattr(dcp, "save"):
        dcp.save(state, storage_writer=writer)
    else:  # torch 2.1
        dcp.save_state_dict(state, writer)


def _load(state: dict[str, Any], folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    reader = dcp.FileSystemReader(str(folder))
    if hasattr(dcp, "load"):
        dcp.load(state, storage_reader=reader)
    else:  # torch 2.1
        dcp.load_state_dict(state, reader)


def _sync(context: Context, folder: Path) -> None:
    """Wait until this rank's files are on storage; rank 0 also for the metadata and the folder itself."""
    mine = list(folder.glob(f"__{context.rank}_*"))
    if context.rank == 0:
        mine += [*folder.glob(".metadata*"), folder]
    for path in mine:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _drop_from_cache(folder: Path) -> None:
    """Ask the kernel to forget the files, so that loading reads the storage; advice, where there is any."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
