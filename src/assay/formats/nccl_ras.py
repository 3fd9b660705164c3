"""What NCCL's RAS subsystem answers (`ncclras`, `-v`, `-f json`): processes that are gone, ranks behind.

The text lists only the ranks that differ from most; the JSON lists all. NCCL 2.28 leaves a comma out of its
JSON before the state of a missing rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RasRank:
    """One process that RAS tells apart from the others of its communicator.

    `state` is `dead` (unreachable for a minute), `silent` (no answer), `behind` or `ahead`; `count` is the
    number of the last operation it launched, `usual` that of most ranks.
    """

    file: str
    line: int
    text: str
    state: str
    comm: str
    rank: int | None
    host: str
    process: int
    count: int = 0
    usual: int = 0


_COMM = re.compile(r"^#\d+-\d+ \((?P<hash>[0-9a-f]+)\) (?P<what>[A-Z]+)")
_PROCESS = re.compile(
    r"^\s+Process (?P<pid>\d{1,9}) on node (?P<host>\S+) managing GPUs? (?P<gpu>[\d,]+)", re.ASCII
)
_MANY = re.compile(
    r"^\s+(?P<n>\d{1,7}) ranks have (?:launched up to operation (?P<count>\d{1,15})|not launched)"
)
_ONE = re.compile(
    r"^\s+Rank (?P<rank>\d{1,7})"
    r"(?: has (?:launched up to operation (?P<count>\d{1,15})|not launched any operations))?"
    r" -- GPU \S+ managed by process (?P<pid>\d{1,9}) on node (?P<host>\S+)"
)
_HEADS = re.compile(
    r"(?:Group\s+Comms|\s+#\s+in group|Errors|Warnings|=+|MISMATCH|TIMEOUT|ERROR|\s*Nodes\s+Processes|"
    r"\(total\)\s+per node|CUDA runtime version|\s+(?:Communicator ranks|Missing|Encountered|This)|"
    r"\s+\d+ (?:job )?process|(?:\s+\d+(?:-\d+)?)+(?:\s+[A-Z]+)*\s*$)"
)


class RasReader:
    """Takes the text from its first heading on."""

    kind = "nccl ras"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._inside = False
        self._state, self._comm = "", ""
        self._counts: Counter[int] = Counter()
        self._group = 0
        self._waiting: list[tuple[int, int | None, str, int, int, str]] = []

    def feed(self, line: str, number: int) -> bool:
        """Take headings, processes and ranks; the ranks of a communicator are told apart at its end."""
        if re.match(r"Job summary|Communicators\.\.\.", line):
            self._settle()
            self._inside = True
            return True
        if not self._inside:
            return False
        if match := _COMM.match(line):
            self._settle()
            self._comm, self._state = match["hash"], "silent" if match["what"] == "INCOMPLETE" else ""
            return True
        if line.strip() in ("DEAD", "INCOMPLETE"):
            self._settle()
            self._comm, self._state = "", "dead" if line.strip() == "DEAD" else "silent"
            return True
        if match := _PROCESS.match(line):
            if self._state:
                self._missing(match, number)
            return True
        if match := _MANY.match(line):
            self._group = int(match["count"] or 0)
            self._counts[self._group] += int(match["n"])
            return True
        if match := _ONE.match(line):
            count = int(match["count"]) if match["count"] else 0 if "has not" in line else self._group
            if "has" in line.split("--")[0]:
                self._counts[count] += 1
            row = (number, int(match["rank"]), match["host"], int(match["pid"]), count, line.strip())
            self._waiting.append(row)
            return True
        if not line.strip() or _HEADS.match(line):
            return True
        self._settle()
        self._inside = False
        return False

    def _missing(self, match: re.Match[str], number: int) -> None:
        host, process = match["host"], int(match["pid"])
        self.records.append(
            RasRank(
                file=self.file,
                line=number,
                text=match[0].strip(),
                state=self._state,
                comm=self._comm,
                rank=None,
                host=host,
                process=process,
            )
        )

    def _settle(self) -> None:
        """The count of most ranks is the usual one; the newest of several that are equally common."""
        usual = max(self._counts, key=lambda count: (self._counts[count], count), default=0)
        for number, rank, host, process, count, text in self._waiting:
            if count != usual:
                self.records.append(
                    RasRank(
                        file=self.file,
                        line=number,
                        text=text,
                        state="behind" if count < usual else "ahead",
                        comm=self._comm,
                        rank=rank,
                        host=host,
                        process=process,
                        count=count,
                        usual=usual,
                    )
                )
        self._waiting, self._counts, self._group = [], Counter(), 0

    def finish(self) -> None:
        """The text may end with its last communicator."""
        self._settle()


def mended(text: str) -> str:
    """The JSON with the comma that NCCL leaves out."""
    return re.sub(r"(\d)(\s*\n\s*\"status\")", r"\1,\2", text)


def is_ras(document: object) -> bool:
    """Whether decoded JSON is an answer of RAS."""
    return isinstance(document, dict) and "communicators" in document and "nccl_version" in document


def read(document: Mapping[str, object], file: str) -> Iterator[RasRank]:
    """Ranks that are missing, and those that launched fewer or more of some collective than most."""
    for comm in _objects(document.get("communicators")):
        name = str(comm.get("hash", ""))
        for rank in _objects(comm.get("missing_ranks")):
            status = rank.get("status")
            dead = isinstance(status, dict) and status.get("considered_dead") is True
            yield _rank(rank, file, name, "dead" if dead else "silent")
        ranks = _objects(comm.get("ranks"))
        counts = [_counts(rank) for rank in ranks]
        for kind in dict.fromkeys(kind for own in counts for kind in own):
            seen = Counter(own.get(kind, 0) for own in counts)
            usual = max(seen, key=lambda count: (seen[count], count))
            for rank, own in zip(ranks, counts, strict=True):
                count = own.get(kind, 0)
                if count != usual:
                    state = "behind" if count < usual else "ahead"
                    yield _rank(rank, file, name, state, f"{kind} {count}, usually {usual}", count, usual)


def _counts(rank: Mapping[str, object]) -> dict[str, int]:
    raw = rank.get("collective_counts")
    return {k: v for k, v in raw.items() if isinstance(v, int)} if isinstance(raw, dict) else {}


def _rank(
    rank: Mapping[str, object],
    file: str,
    comm: str,
    state: str,
    what: str = "no answer",
    count: int = 0,
    usual: int = 0,
) -> RasRank:
    number, process = rank.get("rank"), rank.get("pid")
    host = str(rank.get("host", ""))
    return RasRank(
        file=file,
        line=1,
        text=f"communicator {comm}: rank {number}, process {process} on node {host}: {what}",
        state=state,
        comm=comm,
        rank=number if isinstance(number, int) else None,
        host=host,
        process=process if isinstance(process, int) else 0,
        count=count,
        usual=usual,
    )


def _objects(items: object) -> list[dict[str, object]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
