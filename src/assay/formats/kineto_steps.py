"""The training steps in a trace of the torch profiler: when the device computed, and every collective's size.

Kernels on a GPU (`cat` kernel, gpu_memcpy, gpu_memset), NCCL's with the arguments that torch 2.1 and newer
write. Without a GPU, operators on the threads that run no collective, and Gloo's annotations, whose sizes
need `record_shapes=True`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.errors import InputError
from assay.formats.kineto import COMMUNICATION, GPU_WORK, Interval, merged

_GLOO = re.compile(r"gloo:(\w+)")
_STEP, _OPTIMIZER = "ProfilerStep#", "Optimizer.step#"
_LAUNCH = re.compile(r"(?:cuda|hip|cu)LaunchKernel")

#: Words in a kernel's or collective's name → operation, the more telling first.
_OPS = (
    ("reduce_scatter", "reduce_scatter"),
    ("reducescatter", "reduce_scatter"),
    ("all_gather", "all_gather"),
    ("allgather", "all_gather"),
    ("all_to_all", "all_to_all"),
    ("alltoall", "all_to_all"),
    ("all_reduce", "all_reduce"),
    ("allreduce", "all_reduce"),
    ("sendrecv", "send_recv"),
    ("send", "send_recv"),
    ("recv", "send_recv"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
)
_ELEMENT_BYTES = {
    "float": 4, "half": 2, "bfloat16": 2, "double": 8, "byte": 1, "char": 1, "int": 4, "long": 8, "bool": 1,
    "c10::half": 2, "c10::bfloat16": 2, "unsigned char": 1, "long int": 8, "signed char": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One collective: nccl-tests' size in bytes (None: the trace does not say), and the ranks of its group.

    `members` is empty where the trace does not list them; `stream` tells calls that wait for one another.
    """

    op: str
    bytes: float | None
    ranks: int
    members: tuple[int, ...]
    stream: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSteps:
    """Some whole steps of one rank, from `start_s` to `end_s`.

    `busy` are the times in which the device computed, ascending and apart; `optimizer_s` the starts of
    optimizer steps; `launch_s` the median time from one kernel launch to the next, None without a GPU.
    """

    file: str
    rank: int | None
    world: int
    steps: int
    start_s: float
    end_s: float
    busy: tuple[Interval, ...]
    calls: tuple[Call, ...]
    optimizer_s: tuple[float, ...]
    launch_s: float | None

    @property
    def step_s(self) -> float:
        """One step, as it was measured."""
        return (self.end_s - self.start_s) / self.steps


def read_steps(document: Mapping[str, object], file: str) -> TracedSteps:
    """The steps of a decoded trace; `InputError` where it has none, or says nothing of the device."""
    events = [event for event in map(_event, _listed(document)) if event is not None]
    marks = [e for e in events if e.name.startswith(_STEP)]
    updates = [e for e in events if e.name.startswith(_OPTIMIZER)]
    steps = len({e.name for e in marks}) or len({e.start_s for e in updates})
    if not steps:
        raise InputError(
            "the trace marks no step",
            where=file,
            fix="call step() of torch.profiler.profile in the loop, with a schedule",
        )
    on_gpu = any(e.category in GPU_WORK for e in events)
    calls, busy = _on_gpu(events, document, file) if on_gpu else _on_cpu(events, document)
    if not busy:
        raise InputError(
            "the trace holds no kernel and no operator",
            where=file,
            fix="profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
        )
    ends = [(e.start_s, e.end_s) for e in marks] or [(busy[0][0], busy[-1][1])]
    first = min(start for start, _ in ends)
    last = max(*(end for _, end in ends), busy[-1][1] if on_gpu else first, *(c.end_s for c in calls), first)
    inside = [(max(s, first), min(e, last)) for s, e in busy if s < last and e > first]
    return TracedSteps(
        file=file,
        rank=_whole(_info(document).get("rank")),
        world=_whole(_info(document).get("world_size")) or max((c.ranks for c in calls), default=1),
        steps=steps,
        start_s=first,
        end_s=last,
        busy=tuple(inside),
        calls=tuple(
            c for c in sorted(calls, key=lambda c: c.start_s) if first <= c.start_s < min(c.end_s, last)
        ),
        optimizer_s=_optimizer_starts(updates, on_gpu=on_gpu),
        launch_s=_launch_s(events) if on_gpu else None,
    )


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    category: str
    start_s: float
    end_s: float
    thread: str
    args: Mapping[str, object]


def _listed(document: Mapping[str, object]) -> Iterable[object]:
    events = document.get("traceEvents")
    return events if isinstance(events, list) else []


def _event(raw: object) -> _Event | None:
    """A complete event with a time, a duration and a name; anything else tells nothing here."""
    if not isinstance(raw, dict) or raw.get("ph") != "X":
        return None
    ts, dur, name, category = raw.get("ts"), raw.get("dur"), raw.get("name"), raw.get("cat")
    if not isinstance(ts, int | float) or not isinstance(dur, int | float) or not isinstance(name, str):
        return None
    if not (math.isfinite(ts) and 0 <= dur < 1e15):
        return None
    args = raw.get("args")
    return _Event(
        name=name,
        category=category if isinstance(category, str) else "",
        start_s=ts / 1e6,
        end_s=(ts + dur) / 1e6,
        thread=f"{raw.get('pid')}/{raw.get('tid')}",
        args=args if isinstance(args, dict) else {},
    )


def _on_gpu(
    events: Sequence[_Event], document: Mapping[str, object], file: str
) -> tuple[list[Call], list[Interval]]:
    work = [e for e in events if e.category in GPU_WORK]
    kernels = [e for e in work if COMMUNICATION.match(e.name)]
    calls = [_call(e, document, _nccl_bytes(e.args)) for e in kernels]
    return calls, merged([(e.start_s, e.end_s) for e in work if not COMMUNICATION.match(e.name)])


def _on_cpu(events: Sequence[_Event], document: Mapping[str, object]) -> tuple[list[Call], list[Interval]]:
    gloo = [e for e in events if _GLOO.match(e.name)]
    threads = {e.thread for e in gloo}
    world = _whole(_info(document).get("world_size")) or 1
    calls = [_call(e, document, _gloo_bytes(e, world)) for e in gloo]
    busy = [(e.start_s, e.end_s) for e in events if e.category == "cpu_op" and e.thread not in threads]
    return calls, merged(busy)


def _call(event: _Event, document: Mapping[str, object], size: float | None) -> Call:
    said = event.args.get("Collective name")
    world = _whole(_info(document).get("world_size")) or 1
    members = _members(event.args.get("Process Group Ranks"))
    ranks = _whole(event.args.get("Group size")) or len(members) or world
    return Call(
        op=_operation(said if isinstance(said, str) else event.name),
        bytes=size,
        ranks=ranks,
        members=members if len(members) == ranks else (),
        stream=event.thread,
        start_s=event.start_s,
        end_s=event.end_s,
    )


def _operation(name: str) -> str:
    folded = name.lower()
    return next((op for word, op in _OPS if word in folded), "other")


def _nccl_bytes(args: Mapping[str, object]) -> float | None:
    """The larger of what goes in and what comes out, as nccl-tests counts a collective's size."""
    counts = [value for key in ("In msg nelems", "Out msg nelems") if (value := _whole(args.get(key)))]
    element = _ELEMENT_BYTES.get(str(args.get("dtype", "")).lower())
    return float(max(counts) * element) if counts and element else None


def _gloo_bytes(event: _Event, world: int) -> float | None:
    shapes, kinds = event.args.get("Input Dims"), event.args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(kinds, list):
        return None
    total = 0.0
    for shape, kind in zip(shapes, kinds, strict=False):
        element = _ELEMENT_BYTES.get(str(kind).lower())
        if isinstance(shape, list) and element and all(isinstance(side, int) for side in shape):
            total += math.prod(shape) * element
    if _operation(event.name) == "all_gather":
        total *= world
    return total or None


def _members(value: object) -> tuple[int, ...]:
    """Ranks of a group; a list that the profiler cut short is none."""
    if isinstance(value, str) and "..." not in value:
        return tuple(map(int, re.findall(r"\d+", value)))
    return ()


def _optimizer_starts(updates: Sequence[_Event], *, on_gpu: bool) -> tuple[float, ...]:
    """Starts of optimizer steps on the device's own time line; the host's run ahead of it."""
    own = [e for e in updates if (e.category == "gpu_user_annotation") is on_gpu]
    return tuple(sorted(e.start_s for e in own))


def _launch_s(events: Sequence[_Event]) -> float | None:
    """Median time between two launches of one thread, pauses of a millisecond and more left out."""
    by_thread: dict[str, list[float]] = {}
    for e in events:
        if e.category == "cuda_runtime" and _LAUNCH.match(e.name):
            by_thread.setdefault(e.thread, []).append(e.start_s)
    apart = sorted(
        later - earlier
        for starts in by_thread.values()
        for earlier, later in zip(sorted(starts), sorted(starts)[1:], strict=False)
        if later - earlier < 1e-3
    )
    return apart[len(apart) // 2] if len(apart) >= 20 else None


def _info(document: Mapping[str, object]) -> Mapping[str, object]:
    info = document.get("distributedInfo")
    return info if isinstance(info, dict) else {}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
