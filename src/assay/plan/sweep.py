"""A grid of clusters × workloads × layouts × assumptions as rows, in pieces that any worker can do alone.

A piece is plain data both ways, so that a process pool, Dask or a later run can take it up; its key is a hash
of what it asks, so that what is done once is never asked again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.errors import InputError

#: Axes of a grid in the order of its rows, and what is taken where one is not given.
AXES: Mapping[str, object] = {
    "cluster": None,
    "nodes": None,
    "workload": None,
    "layout": "best",
    "global_batch": 0,
    "seq_len": 0,
    "task": "pretrain",
    "stack": "megatron",
    "tokens": 0.0,
    "steps": 0.0,
    "failures_per_1000_node_days": 0.0,
    "save_s": 30.0,
}
#: Axes that a grid must name.
NEEDED = tuple(name for name, otherwise in AXES.items() if otherwise is None)

#: Columns of a row beside the axes, in the order in which they are written.
RESULTS = (
    "gpus",
    "chosen_layout",
    "step_time_s",
    "step_low_s",
    "step_high_s",
    "tokens_per_s_per_gpu",
    "mfu_frac",
    "memory_bytes",
    "fits",
    "days",
    "goodput_frac",
    "days_with_failures",
    "error",
)

Point = Mapping[str, object]
Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some points of a grid, done by one worker at a time."""

    key: str
    points: tuple[Point, ...]


def points(grid: Mapping[str, Sequence[object]]) -> list[Point]:
    """Every combination of the axes; `InputError` names one that is missing or empty."""
    for name in NEEDED:
        if not grid.get(name):
            raise InputError(f"a sweep needs at least one {name}", fix=f"add {name}: [...]")
    for name, values in grid.items():
        if not values:
            raise InputError(f"{name} is an empty list", fix=f"give it a value, or leave {name} out")
    axes = {name: list(grid.get(name, [otherwise])) for name, otherwise in AXES.items()}
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def pieces(every: Sequence[Point], size: int) -> list[Piece]:
    """The points in pieces of `size`, each with the hash of what it asks."""
    if size < 1:
        raise InputError(f"pieces of {size} points")
    found = []
    for start in range(0, len(every), size):
        some = tuple(every[start : start + size])
        text = json.dumps(some, sort_keys=True)
        found.append(Piece(key=hashlib.sha256(text.encode()).hexdigest()[:16], points=some))
    return found


def failed(point: Point, reason: str) -> Row:
    """The row of a point that has no answer: what was asked, nothing else, and why."""
    return {**point, **dict.fromkeys(RESULTS), "error": reason}
