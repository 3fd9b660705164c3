"""How much to measure: restarts, budgets, sizes and shapes per benchmark, for a CPU or a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay.errors import unknown_name

Settings = dict[str, Any]

KiB, MiB, GiB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named amount of measuring.

    `restarts` is how many fresh sets of processes each benchmark gets: the replicate is the restart.
    `settings` has the numbers for each benchmark; `deadline_s` is when its workers are killed. `chosen` are
    the benchmarks that it runs where none are named; None is all that are not apart.
    """

    name: str
    restarts: int
    settings: dict[str, Settings]
    deadline_s: dict[str, float] = field(default_factory=dict)
    chosen: tuple[str, ...] | None = None

    def deadline_of(self, benchmark: str) -> float:
        """Seconds that one restart of the benchmark may take."""
        return self.deadline_s.get(benchmark, 60.0)


#: How long the soak suite takes where nothing else is asked for: a night.
SOAK_S = 8 * 3600.0
_SLICE_MOST_S = 600.0
#: Slices of a soak at least, so that there is a course of time to look at.
_SLICES_LEAST = 6


def suite(name: str, *, on_gpu: bool, soak_s: float | None = None) -> Suite:
    """`quick`, `standard`, `full`, with shapes and sizes that suit the device; or `soak` for a time."""
    if name == "soak":
        return _soak(on_gpu, SOAK_S if soak_s is None else soak_s)
    if name not in _RESTARTS:
        raise unknown_name("suite", name, [*_RESTARTS, "soak"])
    level = list(_RESTARTS).index(name)
    settings = {benchmark: _at(level, table) for benchmark, table in (_GPU if on_gpu else _CPU).items()}
    return Suite(
        name=name,
        restarts=_RESTARTS[name],
        settings=settings,
        deadline_s=dict.fromkeys(settings, _DEADLINE_S[name]),
    )


def _soak(on_gpu: bool, soak_s: float) -> Suite:
    """Slices of ten minutes, shorter where there would be few; each with its inventory beside it once."""
    slice_s = min(_SLICE_MOST_S, soak_s / _SLICES_LEAST)
    load = {"dtypes": ["bf16", "fp32"], "shape": [8192] * 3, "bytes": 256 * MiB, "burst_s": 2.0}
    if not on_gpu:
        load = {"dtypes": ["fp32"], "shape": [512] * 3, "bytes": 4 * MiB, "burst_s": min(0.3, slice_s / 4)}
    return Suite(
        name="soak",
        restarts=max(1, round(soak_s / slice_s)),
        settings={"environment": {}, "soak": load | {"slice_s": slice_s}},
        deadline_s={"soak": slice_s + 120.0},
        chosen=("environment", "soak"),
    )


_RESTARTS = {"quick": 3, "standard": 5, "full": 7}
_DEADLINE_S = {"quick": 60.0, "standard": 240.0, "full": 1200.0}


class _Levels(tuple[Any, Any, Any]):
    """A setting for the quick, the standard and the full suite."""


def _at(level: int, table: Settings) -> Settings:
    return {name: value[level] if isinstance(value, _Levels) else value for name, value in table.items()}


def _levels(quick: Any, standard: Any, full: Any) -> _Levels:
    return _Levels((quick, standard, full))


_OPS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]

#: What `training` trains and `parts` takes apart.
_TRAINED_ON_CPU: Settings = {
    "layers": 2,
    "hidden": 256,
    "heads": 4,
    "vocabulary": 4096,
    "sequence": 128,
    "batch_per_rank": 4,
    "dtype": "fp32",
}
_TRAINED_ON_GPU: Settings = {
    "layers": _levels(4, 8, 8),
    "hidden": 4096,
    "heads": 32,
    "vocabulary": 32768,
    "sequence": 2048,
    "batch_per_rank": 2,
    "dtype": "bf16",
}

_CPU: dict[str, Settings] = {
    "environment": {},
    "gemm": {
        "dtypes": ["fp32", "bf16"],
        "shape": [1024, 1024, 1024],
        "search": _levels(
            [], [[512] * 3, [1024] * 3, [2048] * 3], [[512] * 3, [1024] * 3, [2048] * 3, [3072] * 3]
        ),
        "window_s": 0.3,
        "windows": _levels(3, 8, 30),
        "warmup_s": _levels(0.2, 1.0, 5.0),
    },
    "bitwise": {"dtypes": ["fp32", "bf16"], "shape": [1024, 1024, 1024], "repeats": _levels(4, 20, 100)},
    "memory": {
        "bytes": 256 * MiB,
        "window_s": 0.3,
        "windows": _levels(2, 8, 20),
        "warmup_s": _levels(0.1, 0.2, 0.5),
    },
    "kernels": {
        "tokens": 512,
        "hidden": 1024,
        "vocabulary": 8192,
        "window_s": _levels(0.2, 0.3, 0.3),
        "windows": _levels(2, 6, 15),
        "warmup_s": _levels(0.1, 0.2, 0.5),
    },
    "parts": _TRAINED_ON_CPU
    | {"window_s": _levels(0.2, 0.4, 0.4), "windows": _levels(2, 5, 15), "warmup_s": _levels(0.1, 0.3, 0.5)},
    "host_device": {},
    "peer": {
        "bytes": 4 * MiB,
        "iterations": _levels(16, 60, 200),
        "pings": _levels(100, 400, 1000),
        "budget_s": _levels(0.4, 1.0, 3.0),
    },
    "pairs": {
        "bytes": 4 * MiB,
        "iterations": _levels(16, 60, 200),
        "pings": _levels(100, 400, 1000),
        "budget_s": _levels(0.4, 1.0, 3.0),
    },
    "groups": {"sizes": [4 * MiB], "budget_s": _levels(0.3, 1.0, 3.0)},
    "collectives": {
        "ops": _OPS,
        "sizes": _levels(
            [8, 64 * KiB, 16 * MiB],
            [8, 1 * KiB, 64 * KiB, 1 * MiB, 16 * MiB, 64 * MiB],
            [8, 64, 1 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 1 * MiB, 4 * MiB, 16 * MiB, 64 * MiB, 256 * MiB],
        ),
        "budget_s": _levels(0.12, 0.6, 2.0),
        "latency_op": "all_reduce",
        "latency_bytes": 64 * KiB,
        "latency_iterations": _levels(320, 1000, 5000),
    },
    "clock": {"exchanges": _levels(300, 1000, 3000), "drift_s": _levels(1.0, 5.0, 30.0)},
    "storage": {
        "file_bytes": _levels(256 * MiB, 2 * GiB, 16 * GiB),
        "runtime_s": _levels(0.5, 5.0, 30.0),
        "iodepth": 32,
    },
    "checkpoint": {"bytes_per_rank": _levels(32 * MiB, 256 * MiB, 1 * GiB)},
    "training": _TRAINED_ON_CPU | {"steps": _levels(10, 40, 200), "warmup_steps": _levels(2, 8, 20)},
}

_GPU_SIZES = _levels(
    [8, 64 * KiB, 1 * MiB, 16 * MiB, 256 * MiB, 1 * GiB],
    [8 * 4**i for i in range(14)] + [1 * GiB, 4 * GiB, 8 * GiB],
    [8 * 2**i for i in range(31)] + [16 * GiB],
)

_GPU: dict[str, Settings] = {
    "environment": {},
    "gemm": {
        "dtypes": ["fp32", "tf32", "fp16", "bf16", "fp8"],
        "shape": [8192, 8192, 8192],
        "search": _levels(
            [],
            [[4096] * 3, [8192] * 3, [16384, 8192, 8192], [8192, 16384, 4096], [16384] * 3],
            [
                [m, n, k]
                for m in (4096, 8192, 16384)
                for n in (4096, 8192, 16384)
                for k in (4096, 8192, 16384)
            ],
        ),
        "window_s": 0.5,
        "windows": _levels(6, 40, 120),
        "warmup_s": _levels(3.0, 20.0, 60.0),
    },
    "bitwise": {
        "dtypes": ["fp32", "tf32", "bf16", "fp8"],
        "shape": [8192, 8192, 8192],
        "repeats": _levels(20, 200, 2000),
    },
    "memory": {"bytes": 4 * GiB, "window_s": 0.3, "windows": _levels(3, 10, 30), "warmup_s": 0.5},
    "kernels": {
        "tokens": 8192,
        "hidden": 8192,
        "vocabulary": 32768,
        "window_s": 0.3,
        "windows": _levels(3, 10, 30),
        "warmup_s": 0.5,
    },
    "parts": _TRAINED_ON_GPU | {"window_s": 0.3, "windows": _levels(3, 10, 30), "warmup_s": 0.5},
    "host_device": {"bytes": 1 * GiB, "window_s": 0.3, "windows": _levels(3, 10, 30), "warmup_s": 0.3},
    "peer": {
        "bytes": 256 * MiB,
        "iterations": _levels(20, 60, 200),
        "pings": _levels(200, 1000, 3000),
        "budget_s": _levels(0.4, 1.0, 3.0),
    },
    "pairs": {
        "bytes": 256 * MiB,
        "iterations": _levels(20, 60, 200),
        "pings": _levels(200, 1000, 3000),
        "budget_s": _levels(0.4, 1.0, 3.0),
    },
    "groups": {
        "sizes": _levels([256 * MiB], [256 * MiB, 1 * GiB], [1 * MiB, 256 * MiB, 1 * GiB]),
        "budget_s": _levels(0.4, 1.0, 3.0),
    },
    "choices": {"ops": _OPS, "sizes": _GPU_SIZES, "budget_s": 0.1},
    "collectives": {
        "ops": _OPS,
        "sizes": _GPU_SIZES,
        "budget_s": _levels(0.3, 1.0, 4.0),
        "latency_op": "all_reduce",
        "latency_bytes": 64 * KiB,
        "latency_iterations": _levels(400, 2000, 20000),
    },
    "clock": {"exchanges": _levels(300, 1000, 3000), "drift_s": _levels(1.0, 10.0, 60.0)},
    "storage": {
        "file_bytes": _levels(2 * GiB, 16 * GiB, 128 * GiB),
        "runtime_s": _levels(3.0, 20.0, 60.0),
        "iodepth": 64,
    },
    "checkpoint": {"bytes_per_rank": _levels(256 * MiB, 4 * GiB, 16 * GiB)},
    "training": _TRAINED_ON_GPU | {"steps": _levels(20, 60, 300), "warmup_steps": _levels(5, 10, 20)},
}
