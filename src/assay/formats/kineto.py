"""Traces of the torch profiler (Kineto, Chrome trace format), reduced to where each step's time went.

`ts` and `dur` are microseconds. A collective is known by its kernel's name: `ncclKernel…` (NCCL up to
2.18), `ncclDevKernel…`, `ncclSymDevKernel…`, RCCL's and HCCL's. Its duration includes waiting for peers.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

COMMUNICATION = re.compile(
    r"^(?:nccl\w*Kernel|rccl|ncclKernel|hccl|hcom_|mscclKernel|mscclpp)", re.IGNORECASE
)
_LOADER = re.compile(
    r"enumerate\(DataLoader\)|DataLoader.*__next__|dataloader_next|get_batch|next_batch", re.IGNORECASE
)
_CHECKPOINT = re.compile(r"save_checkpoint|torch\.save|checkpoint.*save|dcp\.save", re.IGNORECASE)
GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One rank's trace: seconds by kind over all its steps.

    `compute_s` and `communication_s` are times in which at least one such kernel ran; `exposed_s` is
    communication under which no computing went on; `loader_s` and `checkpoint_s` are the host waiting
    while the GPU had nothing to do. `collectives_s` holds the seconds of each collective, in order of start.
    """

    file: str
    line: int
    rank: int | None
    world: int | None
    steps: int
    span_s: float
    compute_s: float
    communication_s: float
    exposed_s: float
    loader_s: float
    checkpoint_s: float
    collectives_s: array[float]
    step_name: str
    loader_name: str


Interval = tuple[float, float]


def is_trace(document: object) -> bool:
    """Whether a decoded JSON document is a Chrome trace."""
    return isinstance(document, dict) and isinstance(document.get("traceEvents"), list)


def read(document: Mapping[str, object], file: str) -> Trace:
    """Reduce a decoded trace; events without a time, a duration or a name are passed over."""
    events = document.get("traceEvents")
    return _reduce(document, file, *_sorted(events if isinstance(events, list) else []))


_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


def read_text(text: str, file: str) -> Trace | None:
    """Reduce the text of a trace event by event, so that no more than one is decoded at a time.

    None where the text has no events, or is no JSON as far as they go.
    """
    found = _EVENTS.search(text)
    if found is None:
        return None
    decoded = _Decoded(text, found.end())
    try:
        kinds, names = _sorted(decoded)
        rest = json.loads(f'{text[: found.start()]}"traceEvents": []{text[decoded.end + 1 :]}')
    except (ValueError, IndexError, RecursionError, StopIteration):
        return None
    return _reduce(rest, file, kinds, names) if isinstance(rest, dict) else None


class _Decoded:
    """The elements of a JSON array that begins at `end`, which is its closing bracket at last."""

    def __init__(self, text: str, end: int) -> None:
        self.text, self.end = text, end

    def __iter__(self) -> Iterator[object]:
        text, decode, between, end = self.text, json.JSONDecoder().raw_decode, _BETWEEN.match, self.end
        while True:
            gap = between(text, end)
            end = gap.end() if gap else end
            if text[end] == "]":
                self.end = end
                return
            event, end = decode(text, end)
            yield event


def _sorted(events: Iterable[object]) -> tuple[dict[str, list[Interval]], dict[str, str]]:
    """Intervals in seconds by kind, and the names of the steps and of the loader."""
    kinds: dict[str, list[Interval]] = {"step": [], "compute": [], "comm": [], "loader": [], "save": []}
    names = {"step": "", "loader": ""}
    kind_of: dict[tuple[object, str], str] = {}
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        ts, dur, name, category = event.get("ts"), event.get("dur"), event.get("name"), event.get("cat")
        if not isinstance(ts, int | float) or not isinstance(dur, int | float) or not isinstance(name, str):
            continue
        key = (category, name) if isinstance(category, str) else (None, name)
        kind = kind_of.get(key)
        if kind is None:
            kind = kind_of[key] = _kind(*key)
        if not kind or not (-1e18 < ts < 1e18 and 0 <= dur < 1e15):
            continue
        start = ts / 1e6
        kinds[kind].append((start, start + dur / 1e6))
        if kind in names and not names[kind]:
            names[kind] = name
    return kinds, names


def _kind(category: str | None, name: str) -> str:
    """`compute`, `comm`, `step`, `loader`, `save`, or nothing where an event tells nothing."""
    if category in GPU_WORK:
        return "comm" if COMMUNICATION.match(name) else "compute" if category == "kernel" else ""
    if name.startswith("ProfilerStep"):
        return "step"
    return "loader" if _LOADER.search(name) else "save" if _CHECKPOINT.search(name) else ""


def _reduce(
    document: Mapping[str, object],
    file: str,
    kinds: Mapping[str, list[Interval]],
    names: Mapping[str, str],
) -> Trace:
    busy, comm = merged(kinds["compute"]), merged(kinds["comm"])
    steps = merged(kinds["step"])
    everything = steps or merged(busy + comm + merged(kinds["loader"]))
    info = document.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    rank, world = info.get("rank"), info.get("world_size")
    return Trace(
        file=file,
        line=1,
        rank=rank if isinstance(rank, int) else None,
        world=world if isinstance(world, int) else None,
        steps=len(kinds["step"]),
        span_s=length(everything),
        compute_s=length(busy),
        communication_s=length(comm),
        exposed_s=length(comm) - overlap(comm, busy),
        step_name=names["step"],
        loader_name=names["loader"],
        loader_s=_idle(kinds["loader"], busy),
        checkpoint_s=_idle(kinds["save"], busy),
        collectives_s=array("d", [end - start for start, end in sorted(kinds["comm"])]),
    )


def _idle(waits: Iterable[Interval], busy: list[Interval]) -> float:
    whole = merged(list(waits))
    return length(whole) - overlap(whole, busy)


def merged(intervals: list[Interval]) -> list[Interval]:
    """The union of intervals, ascending and apart from one another."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            if end > union[-1][1]:
                union[-1] = (union[-1][0], end)
        else:
            union.append((start, end))
    return union


def length(intervals: Iterable[Interval]) -> float:
    """The sum of the lengths."""
    return sum(end - start for start, end in intervals)


def overlap(first: list[Interval], second: list[Interval]) -> float:
    """Seconds that two unions have in common."""
    total, i, j = 0.0, 0, 0
    while i < len(first) and j < len(second):
        start, end = first[i]
        other_start, other_end = second[j]
        low = start if start > other_start else other_start
        if end < other_end:
            high = end
            i += 1
        else:
            high = other_end
            j += 1
        if high > low:
            total += high - low
    return total
