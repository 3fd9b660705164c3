"""Where running ranks are: a line per rank from /proc, and the stack of its main thread from py-spy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_RANK = re.compile(
    r"^## rank (?P<rank>\d{1,7}) of (?P<world>\d{0,7}) pid (?P<pid>\d+) parent (?P<parent>\d+) "
    r"state (?P<state>\w) wait (?P<wait>\S*)"
)
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
