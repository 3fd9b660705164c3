"""The text output of perftest: ib_write_bw, ib_read_bw, ib_send_bw, ib_write_lat and their kind.

"MB/sec" is MiB/s (2^20), which newer versions print as such; with --report_gbits it is Gb/s (1e9).
`BW peak` is 0 with -D, with -N and from 20 000 iterations on: then it was not measured. Server and
client may print into one file, one after the other or line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.errors import InputError
from assay.formats.lines import real, strip_launcher, whole
from assay.formats.recognise import file_format

_TITLE = re.compile(r"\s+(RDMA_Write\w*|RDMA_Read|Send|Atomic|Raw Ethernet)\b(.*?)\b(BW|Latency) Test\b")
_PROGRAMS = {"RDMA_Write": "ib_write", "RDMA_Read": "ib_read", "Send": "ib_send", "Atomic": "ib_atomic"}
_TABLE = re.compile(r"\s*#bytes\s+(?:#sl\s+)?#iterations\s")
_COLUMN = re.compile(
    r"(#\w+|BW \w+|MsgRate(?: Port\d)?|CPU_Util|t_\w+|99(?:\.9+)?% percentile|tps average)"
    r"\s*(?:\[([^\]]+)\])?"
)
_RULE = re.compile(r"\s*-{20,}\s*$")
_OPTION = re.compile(r"(\S[^:\t]*?)\s*:\s+(\S+)")
_NOISE = re.compile(
    r"\s*(local address|remote address|GID|Gid)\s*:|\s*\*+|.*Waiting for client|Conflicting CPU frequency"
    r"|\s*WARNING: BW peak won't be measured"
)
_RATES = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRow:
    """One message size; `peak_Bps` is None where perftest did not measure it."""

    line: int
    bytes: int
    iterations: int
    peak_Bps: float | None
    average_Bps: float
    messages_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """One message size; half a round trip, except for reads and atomics. With -D only the mean is there."""

    line: int
    bytes: int
    iterations: int
    mean_s: float
    min_s: float | None
    max_s: float | None
    typical_s: float | None
    stdev_s: float | None
    p99_s: float | None
    p999_s: float | None
    transactions_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Perftest:
    """One run. `options` are the (key, value) pairs of the block above the table, each pair once.

    A key stands there twice when server and client differ; the attributes are then None. `sides` is how
    many of the two printed into this table.
    """

    tool: str
    version: str | None
    first_line: int
    last_line: int
    program: str | None
    bidirectional: bool
    device: str | None
    link_type: str | None
    mtu_bytes: int | None
    queue_pairs: int | None
    connection: str | None
    options: tuple[tuple[str, str], ...]
    sides: int
    bandwidth: tuple[BandwidthRow, ...]
    latency: tuple[LatencyRow, ...]
    unread: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run while it is being read; `columns` are (name, unit) of the open table.

    `rules` counts the lines drawn under it, `noted` is the first line that says something else.
    """

    first_line: int
    last_line: int = 0
    title: re.Match[str] | None = None
    sides: int = 0
    options: list[tuple[str, str]] = field(default_factory=list)
    in_block: bool = False
    rules: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    bandwidth: list[BandwidthRow] = field(default_factory=list)
    latency: list[LatencyRow] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    noted: str | None = None

    @property
    def has_rows(self) -> bool:
        return bool(self.bandwidth or self.latency)


def _recognise(head: Sequence[str]) -> bool:
    return any(_TABLE.match(line) or _TITLE.match(line) for line in map(strip_launcher, head))


@file_format("perftest", "perftest text output (ib_write_bw, ib_write_lat and their kind)", _recognise)
def parse(lines: Iterable[str], name: str) -> tuple[Perftest, ...]:
    """Every run in the text. Raises `InputError` for a damaged row and a run without one."""
    run = _Run(first_line=1)
    runs, number = [run], 0
    for number, raw in enumerate(lines, 1):
        line = strip_launcher(raw)
        title = _TITLE.match(line)
        if run.has_rows and (title or (_TABLE.match(line) and not _same_table(run, line))):
            run = _Run(first_line=number)
            runs.append(run)
        _read_line(run, line, title, number, f"{name}:{number}")
    begun = [each for each in runs if each.title or each.columns or each.has_rows]
    if not begun:
        raise InputError(
            f"{number} lines without a table of perftest",
            where=f"{name}:1",
            fix="give the output of ib_write_bw or its kind, with the line '#bytes #iterations …'",
        )
    if runs[0] not in begun:  # text before the first run belongs to it
        begun[0].unread[:0] = runs[0].unread
    return tuple(_finish(each, name) for each in begun)


def _same_table(run: _Run, line: str) -> bool:
    """Whether server and client print the same table line by line."""
    return tuple(_COLUMN.findall(line)) == run.columns and bool(run.sides > 1)


def _read_line(run: _Run, line: str, title: re.Match[str] | None, number: int, where: str) -> None:
    if not line.strip():
        return
    run.last_line = number
    if title:
        run.title, run.in_block = run.title or title, True
        run.sides += 1
    elif _RULE.match(line):
        run.rules += run.has_rows
        run.columns = () if run.rules >= max(run.sides, 1) else run.columns  # each side draws its own
    elif _TABLE.match(line):
        run.columns, run.in_block = _columns(line, where), False
    elif run.columns and re.match(r"\s*\d", line, re.ASCII):
        _read_row(run, line.split(), number, where)
    elif _NOISE.match(line):
        return
    elif run.in_block and (found := _OPTION.findall(line)):
        run.options.extend(pair for pair in found if pair not in run.options)
    else:
        run.noted = run.noted or line.strip()
        run.unread.append(number)


def _columns(line: str, where: str) -> tuple[tuple[str, str], ...]:
    columns = tuple(_COLUMN.findall(line))
    left = _COLUMN.sub("", line).strip()
    units = {unit for title, unit in columns if title.startswith(("BW", "t_", "99"))}
    strange = units - {*_RATES, "usec"}
    if left or strange:
        raise InputError(
            f"the table's header has the unknown {f'columns {left}' if left else f'unit {strange.pop()!r}'}",
            where=where,
            fix="run perftest without --report-cycles and other options that change the table",
        )
    return columns


def _read_row(run: _Run, fields: Sequence[str], number: int, where: str) -> None:
    if len(fields) != len(run.columns):
        raise InputError(
            f"{len(fields)} fields in this row, but the table has {len(run.columns)} columns; "
            "perftest lets long numbers run together",
            where=where,
            fix="give the JSON of --out_json, or run again with fewer sizes",
        )
    values: dict[str, float] = {}
    units = dict(run.columns)
    for (title, _), text in zip(run.columns, fields, strict=True):
        value = real(text)
        if value is None:
            raise InputError(
                f"{text!r} under {title!r} is not a number", where=where, fix="run the benchmark again"
            )
        values[title] = value
    size, iterations = whole(fields[0]), whole(fields[list(units).index("#iterations")])
    if size is None or iterations is None:
        raise InputError("the row's size and iterations are not whole numbers", where=where)
    if "BW average" in values:
        rate = _RATES[units["BW average"]]
        peak, messages = values.get("BW peak"), values.get("MsgRate")
        run.bandwidth.append(
            BandwidthRow(
                line=number,
                bytes=size,
                iterations=iterations,
                peak_Bps=peak * rate if peak else None,
                average_Bps=values["BW average"] * rate,
                messages_per_s=None if messages is None else messages * 1e6,
            )
        )
    elif "t_avg" in values:
        run.latency.append(_latency_row(values, number, size, iterations))
    else:
        raise InputError("the table has neither 'BW average' nor 't_avg'", where=where)


def _latency_row(values: dict[str, float], number: int, size: int, iterations: int) -> LatencyRow:
    def seconds(title: str) -> float | None:
        return values[title] * 1e-6 if title in values else None

    return LatencyRow(
        line=number,
        bytes=size,
        iterations=iterations,
        mean_s=values["t_avg"] * 1e-6,
        min_s=seconds("t_min"),
        max_s=seconds("t_max"),
        typical_s=seconds("t_typical"),
        stdev_s=seconds("t_stdev"),
        p99_s=seconds("99% percentile"),
        p999_s=seconds("99.9% percentile"),
        transactions_per_s=values.get("tps average"),
    )


def _finish(run: _Run, name: str) -> Perftest:
    if not run.has_rows:
        said = f"; it said {run.noted[:120]!r}" if run.noted else ""
        raise InputError(
            f"the run from line {run.first_line} has no result row{said}",
            where=f"{name}:{run.last_line}",
            fix="was the other side started? run it again and give the whole output",
        )

    def only(key: str) -> str | None:
        found = {value for option, value in run.options if option == key}
        return found.pop() if len(found) == 1 else None

    mtu, pairs = only("Mtu") or "", only("Number of qps") or ""
    verb = _PROGRAMS.get(run.title[1].removesuffix("_imm")) if run.title else None
    kind = "bw" if run.bandwidth else "lat"
    return Perftest(
        tool="perftest",
        version=None,
        first_line=run.first_line,
        last_line=run.last_line,
        program=f"{verb}_{kind}" if verb else None,
        bidirectional=bool(run.title and "Bidirectional" in run.title[2]),
        device=only("Device"),
        link_type=only("Link type"),
        mtu_bytes=whole(mtu.removesuffix("[B]")),
        queue_pairs=whole(pairs),
        connection=only("Connection type"),
        options=tuple(run.options),
        sides=max(run.sides, 1),
        bandwidth=tuple(run.bandwidth),
        latency=tuple(run.latency),
        unread=tuple(run.unread),
    )
