"""Clock tools: chronyc tracking and waitsync, ptp4l, pmc, timedatectl, and `date` run on several nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from assay.formats.sentences import Sentence

#: `date` as several nodes print it: `node-7: Wed Mar  6 10:00:00 UTC 2024`.
_DATE = (
    r"^(?P<host>[\w.-]+):\s+\w{3},? (?:\d{1,2} )?\w{3} +(?:\d{1,2} )?(?:\d{4} )?"
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:\.\d+)?)\b"
)

SENTENCES = (
    *(Sentence("clock.date", day, _DATE) for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")),
    Sentence("clock.local_reference", "refid", r"refid: (?P<refid>7F7F0101|7F000001|00000000)"),
    Sentence("clock.local_reference", "Reference", r"Reference ID\s*: (?P<refid>7F7F0101|00000000)"),
    Sentence("clock.not_synchronised", "Leap", r"Leap status\s*: Not synchronised"),
    Sentence("clock.not_synchronised", "Stratum", r"Stratum\s*: (?:0|16)\s*$"),
    Sentence("clock.not_synchronised", "synchronized", r"(?:System clock|NTP) synchronized: no"),
    Sentence(
        "clock.not_synchronised",
        "port",
        r"ptp4l.*port \d+.*(?:to|:) (?:FAULTY|LISTENING|UNCALIBRATED)\b.*timeout",
    ),
    Sentence("clock.not_synchronised", "FAULTY", r"(?:ptp4l|portState).*FAULTY"),
    Sentence("clock.offset", "System", r"System time\s*: (?P<seconds>\d+\.\d+) seconds (?P<way>slow|fast)"),
    Sentence("clock.offset", "offset", r"master offset\s+(?P<ns>-?\d+(?:\.\d+)?)"),
    *(
        Sentence("clock.offset", word, rf"\b{word}\s+(?P<ns>-?\d+(?:\.\d+)?)")
        for word in ("offsetFromMaster", "master_offset")
    ),
    Sentence("clock.not_synchronised", "portState", r"portState\s+(?:FAULTY|DISABLED|LISTENING)"),
    Sentence(
        "clock.offset",
        "offset",
        r"(?P<host>[\w.-]+):?.*\boffset[ =:]+(?P<seconds>-?\d+\.\d+) ?s(?:ec|econds)?\b",
    ),
    Sentence("clock.refid", "refid", r"refid: (?P<refid>[0-9A-F]{8})"),
    Sentence(
        "clock.servo",
        "ptp4l",
        r"ptp4l\[[\d.]+\]: (?:\[[^\]]*\] )?"
        r"(?:rms\s+(?P<rms_ns>\d+) max\s+(?P<max_ns>\d+)|port|master offset)",
    ),
    Sentence("clock.servo", "rms", r"rms\s+(?P<rms_ns>\d+) max\s+(?P<max_ns>\d+)"),
)
_ISO = re.compile(
    r"^(?P<host>[A-Za-z][\w.-]*):?\s+\d{4}-\d\d-(?P<d>\d\d)[T ]"
    r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d{1,9})?)"
)
_EPOCH = re.compile(r"^(?P<host>[A-Za-z][\w.-]*):?\s+(?P<s>1\d{9}(?:\.\d{1,9})?)\s*$")


def remote_times(answer: Iterable[str]) -> dict[str, float]:
    """Host -> seconds within the month, or since 1970, as `date -Ins` or `date +%s.%N` on several hosts."""
    times: dict[str, float] = {}
    for line in answer:
        if match := _EPOCH.match(line):
            times[match["host"]] = float(match["s"])
        elif match := _ISO.match(line):
            minutes = (int(match["d"]) * 24 + int(match["h"])) * 60 + int(match["m"])
            times[match["host"]] = minutes * 60 + float(match["s"].replace(",", "."))
    return times


@dataclass(slots=True, kw_only=True)
class ClockSources:
    """The servers that chronyd or ntpd knows; `selected` when it follows one of them."""

    file: str
    line: int
    text: str
    selected: bool = False


class SourceReader:
    """`chronyc sources` and `ntpq -p`: a star before the server that is followed."""

    kind = "clock"
    _head = re.compile(r"^(?:MS Name/IP address|\s*remote\s+refid\s+st t)")
    _chrony = re.compile(r"^[\^=#](?P<mark>[*+?x~-]) \S+\s+\d+\s+\d+\s+\d+\s")
    _ntpq = re.compile(r"^(?P<mark>[ *+#ox.-])\S+\s+\S+\s+\d+ [lubmps-]\s")

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._table: ClockSources | None = None
        self._inside = False

    def feed(self, line: str, number: int) -> bool:
        """Take the head, the line under it, and a row per server."""
        if self._head.match(line):
            self._table, self._inside = None, True
            return True
        if not self._inside:
            return False
        if line.startswith("====="):
            return True
        match = self._chrony.match(line) or self._ntpq.match(line)
        if match is None:
            self._inside = False
            return False
        if self._table is None:
            self._table = ClockSources(file=self.file, line=number, text=line.strip())
            self.records.append(self._table)
        self._table.selected = self._table.selected or match["mark"] in "*o"
        return True
