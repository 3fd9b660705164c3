"""The search over a space of layouts: memory and time of every point, the fastest, and the Pareto front.

A point is evaluated by the predictor's own columns, thousands at a time; what one point gives is what
`assay predict` gives for that layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from assay.domain.layout import PRECISIONS, RECOMPUTES, SCHEDULES, SHARDINGS, Layout
from assay.errors import InputError
from assay.plan.space import AXES, Grid, Ints, Space, grid
from assay.predict.memory import memory
from assay.predict.network import Network
from assay.predict.physics import FITTED, Physics
from assay.predict.situation import Columns, Situation, columns
from assay.predict.step import step_times

Floats = NDArray[np.float64]

#: Points evaluated at once: enough to hide NumPy's calls, few enough to stay in the cache.
CHUNK = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search saw. `points` are those that fit, fastest first, with their times and bytes, shape (N,).

    `evaluated` counts the points whose memory, and where that fits time, was computed; `pruned` counts the
    others by reason. `least_bytes` is the smallest need of any point.
    """

    space: Space
    points: Grid
    time_s: Floats
    total_bytes: Floats
    evaluated: int
    pruned: Mapping[str, int]
    not_fitting: int
    least_bytes: float
    smallest: Layout | None

    @property
    def best(self) -> Layout:
        """The fastest layout that fits."""
        return self.points.layout(0)

    def first_of(self, axis: str) -> dict[int, int]:
        """For each value of an axis the place of its fastest point."""
        values, places = np.unique(self.points.axes[axis], return_index=True)
        return dict(zip(values.tolist(), places.tolist(), strict=True))

    def front(self) -> Ints:
        """Places of the layouts that no other beats in both time and memory, fastest first."""
        lowest = np.minimum.accumulate(self.total_bytes)
        before = np.concatenate([[np.inf], lowest[:-1]])
        return np.flatnonzero(self.total_bytes < before)


def search(
    base: Situation,
    space: Space,
    network: Network,
    *,
    physics: Physics = FITTED,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Evaluate the whole space for `base`'s job; its own layout is not used.

    Ties go to less memory, then to the smaller degrees. `progress` is told points done and in all.
    """
    points = grid(space, base)
    if not len(points):
        raise _nothing(space, points)
    time_s, total, capacity = np.empty(len(points)), np.empty(len(points)), base.gpu.memory_bytes
    done = 0
    for part, c in _columns(base, points):
        held = np.broadcast_to(memory(c).total_bytes, part.shape)
        total[part], time_s[part] = held, np.inf
        fits = held <= capacity
        if fits.any():
            time_s[part[fits]] = step_times(_some(c, fits), network, physics).time_s
        done += len(part)
        if progress:
            progress(done, len(points))
    ranked = np.lexsort((*reversed([points.axes[name] for name in points.axes]), total, time_s))
    ranked = ranked[np.isfinite(time_s[ranked])]
    smallest = int(np.argmin(total))
    return Found(
        space=space,
        points=points.take(ranked),
        time_s=time_s[ranked],
        total_bytes=total[ranked],
        evaluated=len(points),
        pruned=points.pruned,
        not_fitting=len(points) - len(ranked),
        least_bytes=float(total[smallest]),
        smallest=points.layout(smallest),
    )


def _nothing(space: Space, points: Grid) -> InputError:
    most = max(points.pruned, key=lambda reason: points.pruned[reason], default="")
    numbers = [axis for axis in AXES if isinstance(getattr(space, axis)[0], int)]
    said = ", ".join(
        f"{axis} = {getattr(space, axis)[0]}" for axis in numbers if len(getattr(space, axis)) == 1
    )
    return InputError(
        f"no layout of {space.gpus} GPUs with global batch {space.global_batch} is left"
        + (f" with {said}" if said else "")
        + f"; most points fall because: {most.replace('_', ' ')}",
        fix="take a global batch that more degrees divide, or fix fewer degrees",
    )


def _columns(base: Situation, points: Grid) -> Iterator[tuple[Ints, Columns]]:
    """Chunks of places with their columns; a chunk has one precision, whose rates it shares."""
    for kind in np.unique(points.axes["precision"]):
        layout = Layout(precision=PRECISIONS[int(kind)])
        shared = columns([replace(base, layout=layout, global_batch=base.global_batch)])
        where = np.flatnonzero(points.axes["precision"] == kind)
        for start in range(0, len(where), CHUNK):
            part = where[start : start + CHUNK]
            yield part, _with(shared, _degrees({n: v[part] for n, v in points.axes.items()}, base))


def _degrees(axes: Mapping[str, Ints], base: Situation) -> dict[str, Floats]:
    """The columns that a layout decides; `tests/plan` holds them against the predictor's own."""
    f = {name: values.astype(float) for name, values in axes.items()}

    def are(name: str, words: tuple[str, ...], word: str) -> Floats:
        return np.asarray(axes[name] == words.index(word), float)

    return {
        **{name: f[name] for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch")},
        "sp": (axes["tp"] > 1).astype(float),
        "shard_ranks": np.where(f["shard_ranks"] > 0, f["shard_ranks"], f["dp"] * f["cp"]),
        "zero": sum(stage * are("sharding", SHARDINGS, f"zero{stage}") for stage in (1, 2, 3)),
        "micro_batches": base.global_batch / (f["dp"] * f["micro_batch"]),
        "selective": are("recompute", RECOMPUTES, "selective"),
        "full": are("recompute", RECOMPUTES, "full"),
        "zero_bubble": are("schedule", SCHEDULES, "zero-bubble"),
    }


def _some(c: Columns, keep: NDArray[np.bool_]) -> Columns:
    """Some of the situations; what all share stays as it is."""
    picked: dict[str, Floats] = {}
    for entry in fields(Columns):
        value = getattr(c, entry.name)
        if isinstance(value, np.ndarray) and value.shape == keep.shape:
            picked[entry.name] = value[keep]
    return _with(c, picked)


def _with(c: Columns, arrays: Mapping[str, Floats]) -> Columns:
    """The columns with some of their arrays exchanged."""
    return replace(c, **arrays)  # type: ignore[arg-type]
