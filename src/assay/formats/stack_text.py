"""Where running ranks are: a line per rank from /proc, the stack of its main thread, its flight recorder."""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field

from assay.errors import InputError
from assay.formats import flight_recorder

_RANK = re.compile(
    r"^## rank (?P<rank>\d{1,7}) of (?P<world>\d{0,7}) pid (?P<pid>\d+) parent (?P<parent>\d+) "
    r"state (?P<state>\w) wait (?P<wait>\S*)(?: job (?P<job>\S+))?"
)
_RECORDER = re.compile(r"^## recorder of rank (?P<rank>\d{1,7})\s*$")
_BASE64 = re.compile(r"^[A-Za-z0-9+/]+={0,2}\s*$")
#: Longer than the script ever sends.
_MOST_CODED = 100_000_000
_THREAD = re.compile(r"^Thread (?:0x)?[0-9a-fA-F]+ \((?P<state>[\w+]+)\)(?:: \"(?P<name>[^\"]*)\")?")
_FRAME = re.compile(r"^\s{2,}(?P<function>[\w.<>]+) \((?P<place>[^()]+:\d+)\)$")


@dataclass(slots=True, kw_only=True)
class LiveRank:
    """One process of a rank: its state letter as /proc prints it, and the frames of its main thread."""

    file: str
    line: int
    text: str
    rank: int
    world: int | None
    pid: int
    parent: int
    state: str
    wait: str
    job: str = ""
    frames: list[str] = field(default_factory=list)


class StackReader:
    """Takes the line of a rank and the stack under it."""

    kind = "live ranks"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._current: LiveRank | None = None
        self._main = False

    def feed(self, line: str, number: int) -> bool:
        """Take headings, threads and frames; only the main thread's frames are kept."""
        if match := _RANK.match(line):
            self._current = LiveRank(
                file=self.file,
                line=number,
                text=line.strip(),
                rank=int(match["rank"]),
                world=int(match["world"]) if match["world"] else None,
                pid=int(match["pid"][:9]),
                parent=int(match["parent"][:9]),
                state=match["state"],
                wait=match["wait"],
                job=match["job"] or "",
            )
            self.records.append(self._current)
            return True
        if self._current is None:
            return False
        if match := _THREAD.match(line):
            self._main = match["name"] in (None, "MainThread")
            return True
        if match := _FRAME.match(line):
            if self._main and len(self._current.frames) < 200:
                self._current.frames.append(f"{match['function']} {match['place']}")
            return True
        if line.startswith(("Process ", "Python v")) or not line.strip():
            return True
        self._current = None
        return False


class RecorderReader:
    """Takes a flight-recorder dump in base64 between its heading and `## end`."""

    kind = "flight recorder"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._rank: int | None = None
        self._coded: list[str] = []
        self._size = 0

    def feed(self, line: str, number: int) -> bool:
        """Take the lines of a dump; one that cannot be read leaves its last line unread."""
        if match := _RECORDER.match(line):
            self._rank, self._coded, self._size = int(match["rank"]), [], 0
            return True
        if self._rank is None:
            return False
        if _BASE64.match(line) and self._size < _MOST_CODED:
            self._coded.append(line.strip())
            self._size += len(line)
            return True
        rank, self._rank = self._rank, None
        return line.startswith("## end") and (not self._coded or self._decode(rank, number))

    def _decode(self, rank: int, number: int) -> bool:
        try:
            data = base64.b64decode("".join(self._coded), validate=True)
            document = json.loads(data) if data[:1] == b"{" else flight_recorder.load_pickle(data, self.file)
        except (binascii.Error, ValueError, RecursionError, InputError):
            return False
        if isinstance(document, dict):
            document = document | {"rank": rank}
        dumps = [dump._replace(line=number) for dump in flight_recorder.read(document, self.file)]
        self.records += dumps
        return bool(dumps)
