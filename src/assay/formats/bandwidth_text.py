"""Bandwidth tables as people paste them: nccl-tests cut anywhere, pairs of nodes, GPU by GPU matrices.

Unlike `nccl_tests`, which judges whole runs, this reader takes what is there: a run that hung has a
header and no row, and that is what the doctor wants to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.formats.lines import strip_launcher
from assay.formats.node_text import SETTINGS

_DEVICE = re.compile(
    r"^#\s*Rank\s+(?P<rank>\d+).*?\son\s+(?P<host>\S+)\s+device\s+(?P<device>\d+)\s+\[[^\]]*\]\s*"
    r"(?P<name>.*)$"
)
_SETTINGS_LINE = re.compile(
    r"^#?\s*nThread \d+ nGpus (?P<gpus>\d+) minBytes (?P<low>\d+) maxBytes (?P<high>\d+)"
)
_ROW = re.compile(r"^\s*\d+\s+\d+\s+(?:u?int\w*|float\w*|half|bfloat16|double|fp8\w*|f8\w*)\s")
_COLUMNS = re.compile(r"size\s+count\s+type")
_PROGRAM = re.compile(
    r"(?P<name>all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|sendrecv|reduce|gather|scatter)_perf"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One message size with its out-of-place bus bandwidth; `wrong` elements of both halves, if checked."""

    line: int
    text: str
    bytes: int
    algbw_Bps: float
    busbw_Bps: float
    wrong: int = 0


@dataclass(slots=True, kw_only=True)
class TestRun:
    """One run of nccl-tests. `remark` is the comment before it, `env` what its command line set."""

    file: str
    line: int
    text: str
    program: str | None = None
    remark: str = ""
    env: dict[str, str] = field(default_factory=dict)
    max_bytes: int = 0
    devices: list[tuple[int, str, int, str]] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)
    header: int | None = None
    counts_wrong: bool = False
    finished: bool = False

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of the device list, in order."""
        return tuple(dict.fromkeys(host for _, host, _, _ in self.devices))

    @property
    def product(self) -> str:
        """What the first device is called."""
        return self.devices[0][3] if self.devices else ""

    @property
    def peak(self) -> TableRow | None:
        """The row with the highest bus bandwidth."""
        return max(self.rows, key=lambda row: row.busbw_Bps, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTable:
    """Bandwidth between pairs of nodes: (a, b, B/s, line, text)."""

    file: str
    line: int
    pairs: list[tuple[str, str, float, int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Bandwidth between the GPUs of one node, in B/s by (row, column); `lines` by row."""

    file: str
    line: int
    title: str
    cells: dict[tuple[int, int], float]
    lines: dict[int, tuple[int, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaRate:
    """One size of perftest: what the network gives without NCCL."""

    file: str
    line: int
    text: str
    bytes: int
    rate_Bps: float


class TestReader:
    """The text of nccl-tests and rccl-tests, whole or cut off anywhere."""

    kind = "nccl-tests"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._run: TestRun | None = None
        self._remark, self._env = "", dict[str, str]()
        self._program: str | None = None

    def command(self, command: str) -> None:
        """A command line or a comment: its settings belong to the run that follows."""
        self._remark = command.strip()
        self._env = {name: value.rstrip("'\",;") for name, value in SETTINGS.findall(command)}
        found = _PROGRAM.search(command)
        self._program = found["name"] if found else None

    def setting(self, name: str, value: str) -> None:
        """A variable that the log between two runs says is set."""
        self._env[name] = value

    def feed(self, raw: str, number: int) -> bool:
        """Take comments, rows, and footers."""
        line = strip_launcher(raw) if raw[:1] in "[0123456789" and "#" in raw[:40] else raw
        if match := _SETTINGS_LINE.match(line):
            self._run = TestRun(
                file=self.file,
                line=number,
                text=line.strip(),
                remark=self._remark,
                env=dict(self._env),
                program=self._program,
                max_bytes=int(match["high"][:18]),
            )
            self.records.append(self._run)
            self._remark, self._env, self._program = "", {}, None
            return True
        if line.startswith("#"):
            return self._comment(line, number)
        if self._run is not None and _ROW.match(line):
            self._row(line, number)
            return True
        return False

    def _comment(self, line: str, number: int) -> bool:
        run, known = self._run, line.strip("# \t\r\n")
        if run is None:
            if not _COLUMNS.match(known):
                return False
            # A table that was cut out of its report.
            run = self._run = TestRun(file=self.file, line=number, text=line.strip(), program=self._program)
            self.records.append(run)
        if (match := _DEVICE.match(line)) and len(run.devices) < 100_000:
            run.devices.append(
                (int(match["rank"][:9]), match["host"], int(match["device"][:5]), match["name"].strip())
            )
            return True
        if _COLUMNS.match(known):
            run.header, run.counts_wrong = number, "#wrong" in known
            return True
        if known.startswith("Collective test starting:"):
            run.program = known.split()[-1].removesuffix("_perf")
            return True
        if known.startswith(("Out of bounds", "Avg bus bandwidth")):
            run.finished = True
            return True
        return known == "" or known.startswith(
            ("Using devices", "out-of-place", "(B)", "nccl-tests", "rccl-tests")
        )

    def _row(self, line: str, number: int) -> None:
        fields = line.split()
        values = [float(f) if re.fullmatch(r"\d{1,15}(?:\.\d{1,6})?", f) else None for f in fields[3:]]
        # time, algbw, busbw are the first three numbers in a row of which the first has a decimal or is large
        start = next((i for i, f in enumerate(fields[3:]) if re.fullmatch(r"\d+\.\d+|\d{4,}", f)), None)
        if start is None or self._run is None or len(values) < start + 3:
            return
        algbw, busbw = values[start + 1], values[start + 2]
        if algbw is None or busbw is None or len(fields[0]) > 18:
            return
        halves = (fields[3:][start + 3 : start + 4], fields[3:][start + 7 : start + 8])
        wrong = sum(int(text) for half in halves for text in half if re.fullmatch(r"\d{1,18}", text))
        self._run.rows.append(
            TableRow(
                line=number,
                text=line.strip()[:200],
                bytes=int(fields[0]),
                algbw_Bps=algbw * 1e9,
                busbw_Bps=busbw * 1e9,
                wrong=wrong if self._run.counts_wrong else 0,
            )
        )


class PairReader:
    """A table of node pairs with one bandwidth each: `a,b<tab>49.3`, `a b 49.3`, `a <-> b: 49.3 GB/s`."""

    kind = "pairs"
    _pair = re.compile(
        r"^\s*(?P<a>[A-Za-z][\w.-]*)\s*(?:,|<->|->|\||\s-\s|\s)\s*(?P<b>[A-Za-z][\w.-]*)\s*[\t:,|= ]\s*"
        r"(?P<value>\d+(?:\.\d+)?)"
        r"\s*(?P<unit>GB/s|Gb/s)?\s*$"
    )
    _head = re.compile(
        r"^\s*#?.*(?:nodes?|pairs?|hosts?)[_ab\d]{0,2}\b.*(?:busbw|GB/?s|GBps|bandwidth|bw)\b", re.IGNORECASE
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._table: PairTable | None = None

    def feed(self, line: str, number: int) -> bool:
        """Take rows under a heading that speaks of pairs or nodes and of bandwidth."""
        if self._head.match(line) and not self._pair.match(line):
            if self._table is None:
                self._table = PairTable(file=self.file, line=number, pairs=[])
                self.records.append(self._table)
            return True
        if self._table is None:
            return False
        if match := self._pair.match(line):
            scale = 1e9 / 8 if match["unit"] == "Gb/s" else 1e9
            self._table.pairs.append(
                (match["a"], match["b"], float(match["value"][:15]) * scale, number, line.strip())
            )
            return True
        self._table = None
        return False


class MatrixReader:
    """p2pBandwidthLatencyTest and nvbandwidth: a square of GB/s, GPU by GPU."""

    kind = "gpu matrix"
    _title = re.compile(r"^.*[Bb]andwidth.*(?:\(GB/s\)|GB/s).*$")
    _head = re.compile(r"^\s*(?:D\\D\s+)?0(?:\s+\d+)+\s*$")
    _row = re.compile(r"^\s*(?P<row>\d+)(?P<cells>(?:\s+(?:\d+\.\d+|N/A))+)\s*$")

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._title_at: tuple[int, str] | None = None
        self._matrix: Matrix | None = None

    def feed(self, line: str, number: int) -> bool:
        """Take the title, the heading of columns, and the rows."""
        if self._title.match(line) and "#" not in line[:2] and "busbw" not in line:
            self._title_at, self._matrix = (number, line.strip()), None
            return True
        if self._title_at and self._head.match(line):
            self._matrix = Matrix(file=self.file, line=number, title=self._title_at[1], cells={}, lines={})
            self.records.append(self._matrix)
            return True
        if self._matrix is not None and (match := self._row.match(line)):
            row = int(match["row"][:5])
            self._matrix.lines[row] = (number, line.strip())
            for column, cell in enumerate(match["cells"].split()):
                if cell != "N/A":
                    self._matrix.cells[row, column] = float(cell[:15]) * 1e9
            return True
        if not line.strip():
            return self._matrix is not None
        self._title_at = self._matrix = None
        return False


class PerftestReader:
    """Tables of ib_write_bw and its kind: the average of each size."""

    kind = "perftest"
    _head = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(?P<unit>MB/sec|MiB/sec|Gb/sec)\]")
    _row = re.compile(
        r"^\s*(?P<bytes>\d{1,12})\s+\d+\s+[\d.]+\s+(?P<average>\d{1,9}(?:\.\d+)?)(?:\s+[\d.]+)*\s*$"
    )
    _units = (("Gb/sec", 1e9 / 8), ("MB/sec", 2.0**20), ("MiB/sec", 2.0**20))

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._scale: float | None = None

    def feed(self, line: str, number: int) -> bool:
        """Take the heading and the rows under it."""
        if match := self._head.match(line):
            self._scale = dict(self._units)[match["unit"]]
            return True
        if self._scale is not None and (match := self._row.match(line)):
            rate = float(match["average"]) * self._scale
            self.records.append(
                RdmaRate(
                    file=self.file, line=number, text=line.strip(), bytes=int(match["bytes"]), rate_Bps=rate
                )
            )
            return True
        self._scale = None
        return False


def read_json(document: Mapping[str, object], file: str) -> TestRun:
    """The JSON that nccl-tests writes with -J, as far as it goes."""
    args = document.get("args")
    command = " ".join(map(str, args)) if isinstance(args, list) else ""
    env = document.get("env")
    settings = [str(item).partition("=") for item in env] if isinstance(env, list) else []
    found = _PROGRAM.search(command)
    run = TestRun(
        file=file,
        line=1,
        text=command[:200],
        program=found["name"] if found else None,
        env={name: value for name, _, value in settings if name.startswith(("NCCL_", "RCCL_"))},
        finished="end_time" in document,
        header=1,
    )
    for device in _objects(document.get("devices")):
        run.devices.append(
            (
                _whole(device.get("rank")),
                str(device.get("hostname", "")),
                _whole(device.get("device")),
                str(device.get("device_info", "")),
            )
        )
    for row in _objects(document.get("results")):
        placed = row.get("out_of_place")
        placed = placed if isinstance(placed, dict) else {}
        algbw, busbw = placed.get("alg_bw"), placed.get("bus_bw")
        if isinstance(algbw, int | float) and isinstance(busbw, int | float):
            size = _whole(row.get("size"))
            text = f"size {size}: algbw {algbw} GB/s, busbw {busbw} GB/s"
            run.rows.append(
                TableRow(line=1, text=text, bytes=size, algbw_Bps=algbw * 1e9, busbw_Bps=busbw * 1e9)
            )
            run.max_bytes = max(run.max_bytes, size)
    return run


def _objects(items: object) -> list[dict[str, object]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
