"""Asking a server again and again in a thread of its own, so that a slow answer holds nothing else up.

What it cannot tell is an event: `source_failed` when it does not answer or answers too slowly, and
`source_back` when it does again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable

from assay.domain.event import Event
from assay.domain.subject import CLUSTER
from assay.errors import AssayError
from assay.watch.signal import Item


class Asking:
    """Calls `ask` every `every_s`; `source` is what it is called in events."""

    def __init__(self, source: str, ask: Callable[[], Iterable[Item]], *, every_s: float) -> None:
        self._source, self._ask_once, self._every_s = source, ask, every_s
        self._failed = False
        self._items: queue.Queue[Item] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=source, daemon=True)
        self._thread.start()

    def poll(self, now_s: float) -> list[Item]:
        """What has come since the last call."""
        items: list[Item] = []
        while not self._items.empty():
            items.append(self._items.get())
        return items

    def close(self) -> None:
        """Stop asking."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            begin_s = time.monotonic()
            try:
                items = list(self._ask_once())
            except (OSError, AssayError, ValueError, KeyError, TypeError) as fault:
                what = fault.what if isinstance(fault, AssayError) else str(fault)
                items = [self._news("source_failed", what)] if not self._failed else []
                self._failed = True
            else:
                if self._failed:
                    items.insert(0, self._news("source_back", ""))
                self._failed = False
            for item in items:
                self._items.put(item)
            self._stop.wait(max(0.05, self._every_s - (time.monotonic() - begin_s)))

    def _news(self, kind: str, text: str) -> Event:
        details: dict[str, str | int | float | None] = {"source": self._source}
        return Event(kind=kind, time_s=time.time(), subject=CLUSTER, text=text, details=details)
