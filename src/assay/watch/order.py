"""Items in order of time, each once, with a tick for every second that passes.

Nothing is dropped but exact duplicates: an item that comes late counts as of now. Both are counted.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import OrderedDict
from collections.abc import Iterator

from assay.domain.event import Event
from assay.domain.subject import CLUSTER, Subject
from assay.watch.registry import TICK
from assay.watch.signal import Item

#: So many events are remembered to know a duplicate by.
_REMEMBERED = 4096
#: A silence longer than this is stepped over, so that a night without events costs nothing.
_MOST_TICKS = 7200


class Order:
    """Holds items back for `settle_s` of event time to sort them, and adds ticks every `tick_s`.

    A clock that jumps back by more than `late_s` is told by an event `clock_stepped_back`, once per jump.
    """

    def __init__(self, *, settle_s: float = 0.0, tick_s: float = 1.0, late_s: float = 30.0) -> None:
        self._settle_s, self._tick_s, self._late_s = settle_s, tick_s, late_s
        self._heap: list[tuple[float, int, Item]] = []
        self._count = 0
        self._newest_s: float | None = None
        self._now_s: float | None = None
        self._next_tick_s = 0.0
        self._seen: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._back_s: dict[Subject, float] = {}
        self.duplicates = 0
        self.late = 0

    def push(self, item: Item) -> Iterator[Item]:
        """Take one item; gives those whose turn has come, with the ticks between them."""
        if isinstance(item, Event) and self._is_duplicate(item):
            self.duplicates += 1
            return
        if self._now_s is not None and item.time_s < self._now_s:
            yield from self._late(item, self._now_s)
            item = dataclasses.replace(item, time_s=self._now_s)
        self._count += 1
        heapq.heappush(self._heap, (item.time_s, self._count, item))
        self._newest_s = max(item.time_s, self._newest_s or item.time_s)
        while self._heap and self._heap[0][0] <= self._newest_s - self._settle_s:
            yield from self._pop()

    def advance(self, now_s: float) -> Iterator[Item]:
        """Say that it is `now_s`: gives what was held back until then, and the ticks."""
        while self._heap and self._heap[0][0] <= now_s - self._settle_s:
            yield from self._pop()
        if not self._heap:
            yield from self._ticks(now_s)

    def flush(self) -> Iterator[Item]:
        """Everything that is still held back."""
        while self._heap:
            yield from self._pop()

    def _pop(self) -> Iterator[Item]:
        time_s, _, item = heapq.heappop(self._heap)
        yield from self._ticks(time_s)
        self._now_s = time_s if self._now_s is None else max(time_s, self._now_s)
        yield item

    def _ticks(self, until_s: float) -> Iterator[Item]:
        if self._now_s is None:
            self._now_s, self._next_tick_s = until_s, until_s + self._tick_s
            return
        if until_s - self._next_tick_s > _MOST_TICKS * self._tick_s:
            # The seconds after the last item, which show a silence, and those before the next one.
            yield from self._ticks(self._next_tick_s + _MOST_TICKS / 2 * self._tick_s)
            self._next_tick_s = until_s - 2 * self._tick_s
        while self._next_tick_s <= until_s:
            yield Event(kind=TICK, time_s=self._next_tick_s, subject=CLUSTER)
            self._now_s = max(self._now_s, self._next_tick_s)
            self._next_tick_s += self._tick_s

    def _late(self, item: Item, now_s: float) -> Iterator[Item]:
        self.late += 1
        back_s = now_s - item.time_s
        subject = item.subject if isinstance(item, Event) else CLUSTER
        if back_s <= self._late_s:
            self._back_s.pop(subject, None)
        elif abs(back_s - self._back_s.get(subject, 0.0)) > self._late_s:
            self._back_s[subject] = back_s
            source = item.source if isinstance(item, Event) else item.metric
            yield Event(
                kind="clock_stepped_back",
                time_s=now_s,
                subject=subject,
                text=f"the time went back by {back_s:.3g} s",
                details={"back_s": back_s},
                source=source,
            )

    def _is_duplicate(self, event: Event) -> bool:
        key = (event.kind, event.time_s, event.subject, event.text, event.source, *event.details.items())
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return False
