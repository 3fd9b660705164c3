"""Silence: nodes that do not answer, and sources that say nothing. What is missing never reads as healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import CLUSTER, Subject
from assay.watch.registry import TICK, detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised, seen

#: Metrics whose subjects stay; those of ranks come and go with their jobs.
LASTING = (
    "gpu_temperature_degC",
    "gpu_throttled_thermal",
    "port_up",
    "clock_synchronized",
    "storage_latency_s",
    "node_tcp_segments_total",
)


@detector(
    "node-down",
    reads=("node_up", "node_down", "node_back", TICK),
    codes=("NODE_DOWN",),
    false_alarms_per_subject_day=1e-3,
)
class NodeDown:
    """A node whose exporter has not answered for `down_s`, or that the scheduler has set down.

    Assumes that a healthy exporter misses several scrapes in a row no more than once in three years. The
    scheduler has waited by itself (SlurmdTimeout), so its word counts at once.
    """

    def __init__(self, settings: Settings) -> None:
        self._down_s = settings.down_s
        self._since_s: dict[Subject, float] = {}
        self._on: set[Subject] = set()
        self._set_down: set[Subject] = set()

    def feed(self, item: Item) -> Iterator[Signal]:
        """Which nodes answer, what the scheduler says, or a second that has passed."""
        if isinstance(item, Samples):
            up = item.values > 0.5
            for at in np.flatnonzero(~up):
                self._since_s.setdefault(item.subjects[at], item.time_s)
            for subject in [s for s in self._since_s if self._answers(s, item, up)]:
                del self._since_s[subject]
                yield from self._maybe_over(subject, item.time_s)
        elif item.kind == "node_down":
            self._set_down.add(item.subject)
            if item.subject not in self._on:
                self._on.add(item.subject)
                yield raised(
                    "NODE_DOWN",
                    item.subject,
                    item.time_s,
                    "node_set_down",
                    proof=seen(item),
                    reason=item.text,
                )
        elif item.kind == "node_back":
            self._set_down.discard(item.subject)
            yield from self._maybe_over(item.subject, item.time_s)
        for subject, since_s in self._since_s.items():
            if item.time_s - since_s >= self._down_s and subject not in self._on:
                self._on.add(subject)
                yield raised("NODE_DOWN", subject, item.time_s, "node_down", silent_s=item.time_s - since_s)

    def _maybe_over(self, subject: Subject, time_s: float) -> Iterator[Signal]:
        """It is over when neither the exporter nor the scheduler calls it down."""
        if subject in self._on and subject not in self._since_s and subject not in self._set_down:
            self._on.discard(subject)
            yield over("NODE_DOWN", subject, time_s)

    @staticmethod
    def _answers(subject: Subject, item: Samples, up: np.ndarray) -> bool:
        return any(s == subject and up[at] for at, s in enumerate(item.subjects))


@detector(
    "node-drained",
    reads=("node_drained", "node_undrained"),
    codes=("NODE_DRAINED",),
    false_alarms_per_subject_day=0.0,
)
class NodeDrained:
    """A node that somebody keeps from new jobs. A state, told by the scheduler: it has no noise."""

    def __init__(self, settings: Settings) -> None:
        self._on: set[Subject] = set()

    def feed(self, item: Item) -> Iterator[Signal]:
        """Drained, or taken back."""
        if not isinstance(item, Event) or (item.kind == "node_drained") == (item.subject in self._on):
            return
        if item.kind == "node_drained":
            self._on.add(item.subject)
            yield raised(
                "NODE_DRAINED", item.subject, item.time_s, "node_drained", proof=seen(item), reason=item.text
            )
        else:
            self._on.discard(item.subject)
            yield over("NODE_DRAINED", item.subject, item.time_s)


@dataclass(slots=True)
class _Stream:
    last_s: float
    interval_s: float | None = None
    subjects: tuple[Subject, ...] = ()
    nodes: frozenset[str] = frozenset()
    silent: bool = False
    missing_s: dict[str, float] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


@detector(
    "silence",
    reads=(*LASTING, "source_failed", "source_back", TICK),
    codes=("SOURCE_SILENT",),
    false_alarms_per_subject_day=1e-3,
)
class Silence:
    """A source that failed, a metric that no longer comes, or a node that is missing from one.

    A metric is silent after `silent_ratio` of its usual intervals and at least `silent_least_s`; a node is
    missing from a metric after as long. Assumes that healthy sources skip four in a row no more than
    once in three years.
    """

    def __init__(self, settings: Settings) -> None:
        self._ratio, self._least_s = settings.silent_ratio, settings.silent_least_s
        self._streams: dict[str, _Stream] = {}
        self._failed: set[Subject] = set()

    def feed(self, item: Item) -> Iterator[Signal]:
        """Samples, news of a source, or a second that has passed."""
        if isinstance(item, Samples):
            yield from self._samples(item)
        elif item.kind == TICK:
            for metric, stream in self._streams.items():
                yield from self._look(metric, stream, item.time_s)
        else:
            yield from self._source(item)

    def _limit_s(self, stream: _Stream) -> float:
        return max(self._least_s, self._ratio * (stream.interval_s or 0.0))

    def _source(self, event: Event) -> Iterator[Signal]:
        failed = event.kind == "source_failed"
        if failed == (event.subject in self._failed):
            return
        (self._failed.add if failed else self._failed.discard)(event.subject)
        if failed:
            source = str(event.details.get("source", event.source))
            yield raised(
                "SOURCE_SILENT", event.subject, event.time_s, "source_failed",
                source=source, reason=event.text or str(event.details.get("reason", "")),
            )  # fmt: skip
        else:
            yield over("SOURCE_SILENT", event.subject, event.time_s)

    def _samples(self, item: Samples) -> Iterator[Signal]:
        stream = self._streams.get(item.metric)
        if stream is None:
            stream = self._streams[item.metric] = _Stream(last_s=item.time_s)
        elif item.time_s > stream.last_s:
            gap_s = item.time_s - stream.last_s
            stream.interval_s = gap_s if stream.interval_s is None else min(stream.interval_s * 1.1, gap_s)
            stream.last_s = item.time_s
        if stream.silent:
            stream.silent = False
            yield over("SOURCE_SILENT", CLUSTER, item.time_s)
        if item.subjects is not stream.subjects:
            nodes = frozenset(s.name.partition("/")[0] for s in item.subjects)
            for name in stream.nodes - nodes:
                stream.missing_s.setdefault(name, item.time_s)
            for name in nodes & stream.missing_s.keys():
                del stream.missing_s[name]
                if name in stream.told:
                    stream.told.discard(name)
                    yield over("SOURCE_SILENT", Subject("node", name), item.time_s)
            stream.subjects, stream.nodes = item.subjects, nodes

    def _look(self, metric: str, stream: _Stream, now_s: float) -> Iterator[Signal]:
        limit_s = self._limit_s(stream)
        if not stream.silent and now_s - stream.last_s > limit_s and stream.interval_s is not None:
            stream.silent = True
            yield raised(
                "SOURCE_SILENT", CLUSTER, now_s, "metric_silent",
                metric=metric, silent_s=now_s - stream.last_s,
            )  # fmt: skip
        for name, since_s in stream.missing_s.items():
            if name not in stream.told and now_s - since_s > limit_s and not stream.silent:
                stream.told.add(name)
                yield raised(
                    "SOURCE_SILENT", Subject("node", name), now_s, "node_missing",
                    metric=metric, silent_s=now_s - since_s,
                )  # fmt: skip
