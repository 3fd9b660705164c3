"""The offset that ptp4l writes into its log, for nodes where nobody may ask it, or every second."""

from __future__ import annotations

from collections.abc import Mapping

from assay.formats.clock_text import SENTENCES
from assay.formats.sentences import Vocabulary
from assay.watch.sources.tail import Folder

_VOCABULARY = Vocabulary(s for s in SENTENCES if s.fact in ("clock.offset", "clock.servo"))
#: ptp4l sums up over at most 2^summary_interval seconds; what is older than this says nothing of now.
STALE_S = 90.0


class ClockLog:
    """Follows the log from its end. A log that falls silent tells no offset, not the last one."""

    def __init__(self, path: str) -> None:
        self._folder = Folder((path,), from_end=True)
        self._last: tuple[float, float] | None = None

    def offset_s(self, now_s: float) -> float | None:
        """This clock minus its master: of the lines since the last call the furthest, else the last one."""
        told = [value for line in self._folder.lines() if (value := offset_of(line.text)) is not None]
        if told:
            self._last = now_s, max(told, key=abs)
        if self._last is None or now_s - self._last[0] > STALE_S:
            return None
        return self._last[1]

    def close(self) -> None:
        """Let go of the log."""
        self._folder.close()


def offset_of(text: str) -> float | None:
    """Seconds of `master offset -38 s2 freq …`, or the root mean square of `rms 12 max 34 freq …`."""
    if "phc2sys" in text:
        return None  # its offset is between this host's own clocks
    for _, fields in _VOCABULARY.find(text):
        found = _nanoseconds(fields)
        if found is not None:
            return found * 1e-9
    return None


def _nanoseconds(fields: Mapping[str, str]) -> float | None:
    for name in ("ns", "rms_ns"):
        if name in fields:
            return float(fields[name])
    return None
