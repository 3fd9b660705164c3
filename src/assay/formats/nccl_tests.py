"""The text output of nccl-tests and rccl-tests, every version of it, also under mpirun and srun.

A file may hold several runs, one after the other. Columns are taken from the header row and from how
many fields a row has, never from fixed positions; times are µs and bandwidths GB/s (1e9 B/s).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from assay.errors import InputError
from assay.formats.lines import count, is_nothing, real, scaled, strip_launcher
from assay.formats.nccl_columns import Columns, guess_columns, read_header, read_row
from assay.formats.nccl_record import (
    Device,
    NcclTests,
    Row,
    Settings,
    collective_of,
    library_version,
    settle_ranks,
)
from assay.formats.recognise import file_format

_HEADER = re.compile(r"#\s*size\s+count\s+type\s")
_SETTINGS = re.compile(
    r"#\s*nThread (?P<threads>\d+) nGpus (?P<gpus>\d+) minBytes (?P<min_bytes>\d+) "
    r"maxBytes (?P<max_bytes>\d+) step: (?P<step>\d+)\((?P<how>factor|bytes)\)"
    r"(?: warmup iters: (?P<warmup_iters>\d+))? "
    r"iters: (?P<iters>\d+)(?: agg iters: (?P<agg_iters>\d+))?(?: validation: (?P<validation>\d+))?"
    r"(?: graph: (?P<graph>\d+))?",
    re.ASCII,
)
_DEVICE = re.compile(
    r"#\s*Rank\s+(?P<rank>\d+)(?:\s+Group\s+(?P<group>\d+))?(?:\s+Pid\s+(?P<pid>\d+))?\s+on\s+(?P<host>\S+)\s+"
    r"device\s+(?P<device>\d+)\s+\[(?P<busid>[^\]]*)\]\s*(?P<name>.*)",
    re.ASCII,
)
_VERSION = re.compile(
    r"#\s*(?P<tool>nccl-tests|rccl-tests) version (?P<version>\S+)(?:.*-library=(?P<library>\d+))?"
)
_LIBRARY = re.compile(r"R?NCCL version\s*:?\s*(\d+\.\d+\.\d+\S*)")
_STARTING = re.compile(r"#\s*Collective test starting: (\S+)")
_OUT_OF_BOUNDS = re.compile(r"#\s*Out of bounds values\s*: (\d+)", re.ASCII)
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*: (\S+)")
_ERROR = re.compile(r"#\s*error: (.+)")
_KNOWN_COMMENT = re.compile(
    r"#\s*($|Using devices|out-of-place|\(B\)|Collective test concluded|Blocking Enabled|Per-Iteration Report"
    r"|Parallel Init|Reducing maxBytes|GPU memory usage|Writing JSON|Using latencies|Using bandwidth)"
)
_LOG = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d [\d:]+\] )?[\w.-]+:\d+:\d+ \[\w+\] .*(?:NCCL|RCCL) \w+|.*\bNCCL (INFO|WARN|TRACE) "
)
_LOG_INSIDE = re.compile(r"[A-Za-z][\w.-]*:\d+:\d+ \[\d+\] (?:NCCL|RCCL) \w+ ")
_FAILURE = re.compile(r"Test (?:NCCL |CUDA )?failure|Test timeout|Invalid number of GPUs")
_ROW_START = re.compile(r"\s*\d+\s+\d+\s+[a-z]\w*\s", re.ASCII)
_RESOLUTION_BPS = 0.01e9


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run while it is being read."""

    first_line: int
    last_line: int = 0
    tool: str = "nccl-tests"
    version: str | None = None
    library: str | None = None
    program: str | None = None
    settings: Settings | None = None
    devices: list[Device] = field(default_factory=list)
    columns: Columns | None = None
    rows: list[Row] = field(default_factory=list)
    out_of_bounds: int | None = None
    average: float | None = None
    errors: list[str] = field(default_factory=list)
    failure: tuple[int, str] | None = None
    log_lines: int = 0
    unread: list[int] = field(default_factory=list)


def _recognise(head: Sequence[str]) -> bool:
    plain = [strip_launcher(line) for line in head]
    return any(_HEADER.match(line) or _SETTINGS.match(line) or _VERSION.match(line) for line in plain)


@file_format("nccl-tests", "nccl-tests or rccl-tests text output", _recognise)
def parse(lines: Iterable[str], name: str, collective: str | None = None) -> tuple[NcclTests, ...]:
    """Every run in the text. `collective` names it for versions that do not print it.

    Raises `InputError` for a run without its footer, a row that does not fit its header, and ranks that
    contradict the bandwidths. Lines that are neither results nor NCCL's log are listed in `unread`.
    """
    runs: list[_Run] = []
    fragment, last = "", 0
    for last, raw in enumerate(lines, 1):
        line = strip_launcher(raw)
        inside = _LOG_INSIDE.search(line)
        if inside and _ROW_START.match(line):  # NCCL logged in the middle of a row: its end comes later
            fragment, line = line[: inside.start()], line[inside.start() :]
        elif fragment and not _LOG.match(line) and line.strip():
            line, fragment = fragment + line, ""
        if not runs or (_opens_run(line) and (runs[-1].settings or runs[-1].rows)):
            runs.append(_Run(first_line=last))
        _read_line(runs[-1], line, last, name)
    if not any(run.rows or run.settings for run in runs):
        raise InputError(
            f"{last} lines without a row of nccl-tests",
            where=f"{name}:1",
            fix="give the output of all_reduce_perf or its kind, from '# nThread' to '# Avg bus bandwidth'",
        )
    return tuple(_finish(run, name, collective, alone=len(runs) == 1) for run in runs)


def _opens_run(line: str) -> bool:
    return bool(_VERSION.match(line) or _STARTING.match(line) or _SETTINGS.match(line))


def _read_line(run: _Run, line: str, number: int, name: str) -> None:
    where = f"{name}:{number}"
    text = line.strip()
    if not text:
        return
    run.last_line = number
    if _ROW_START.match(line):
        if run.out_of_bounds is not None:
            raise InputError(
                "a result row after the end of its run", where=where, fix="give whole runs, each once"
            )
        run.columns = run.columns or guess_columns(text.split(), number, where)
        run.rows.append(read_row(line, run.columns, number, where))
    elif text.startswith("#"):
        _read_comment(run, text, number, where)
    elif match := _LIBRARY.match(text):
        run.library = match[1]
    elif _LOG.match(text):
        run.log_lines += 1
    else:
        if _FAILURE.search(text):
            run.failure = run.failure or (number, text)
        run.unread.append(number)


def _read_comment(run: _Run, text: str, number: int, where: str) -> None:
    if match := _SETTINGS.match(text):
        run.settings = _settings(match, where)
    elif match := _DEVICE.match(text):
        found = match.groupdict()
        run.devices.append(
            Device(
                line=number,
                rank=count(match["rank"], where),
                group=count(found["group"], where) if found["group"] else None,
                pid=count(found["pid"], where) if found["pid"] else None,
                host=match["host"],
                device=count(match["device"], where),
                busid=match["busid"],
                name=match["name"].strip(),
            )
        )
    elif _HEADER.match(text):
        run.columns = read_header(text.lstrip("# ").split(), number, where)
    elif match := _VERSION.match(text):
        run.tool, run.version = match["tool"], match["version"]
        if match["library"]:
            run.library = library_version(count(match["library"], where))
    elif match := _STARTING.match(text):
        run.program = match[1]
    elif match := _OUT_OF_BOUNDS.match(text):
        run.out_of_bounds = count(match[1], where)
    elif match := _AVERAGE.match(text):
        run.average = _bandwidth(match[1], where)
    elif match := _ERROR.match(text):
        run.errors.append(match[1])
    elif not _KNOWN_COMMENT.match(text):
        run.unread.append(number)


def _settings(match: re.Match[str], where: str) -> Settings:
    found = {key: count(value, where) for key, value in match.groupdict().items() if value and key != "how"}
    factor = match["how"] == "factor"
    return Settings(
        threads=found["threads"],
        gpus=found["gpus"],
        min_bytes=found["min_bytes"],
        max_bytes=found["max_bytes"],
        step_factor=found["step"] if factor else None,
        step_bytes=None if factor else found["step"],
        warmup_iters=found.get("warmup_iters"),
        iters=found["iters"],
        agg_iters=found.get("agg_iters"),
        validation=bool(found["validation"]) if "validation" in found else None,
        graph=found.get("graph"),
    )


def _bandwidth(text: str, where: str) -> float | None:
    value = real(text)
    if value is None and not is_nothing(text):
        raise InputError(f"the average bus bandwidth {text!r} is not a number", where=where)
    return scaled(value, 1e9)


def _finish(run: _Run, name: str, told: str | None, *, alone: bool) -> NcclTests:
    where = f"{name}:{run.last_line}"
    if run.out_of_bounds is None:
        upto = f" of sizes up to {run.settings.max_bytes} B" if run.settings else ""
        if run.failure:
            raise InputError(
                f"the run failed after {len(run.rows)} rows{upto}: {run.failure[1][:160]!r}",
                where=f"{name}:{run.failure[0]}",
                fix="mend what the line says and run the benchmark again",
            )
        raise InputError(
            f"the output ends here without its 'Out of bounds values' line, after {len(run.rows)} rows{upto}",
            where=where,
            fix="copy the whole output, or let the benchmark run to its end; half a run is not judged"
            if run.rows or alone
            else "several copies print at once: build nccl-tests with MPI=1, or give the output of one",
        )
    if not run.rows:
        raise InputError(
            f"the run from line {run.first_line} has no result row", where=where, fix="run it again"
        )
    collective = collective_of(run.program, told, where)
    ranks, ranks_from = settle_ranks(
        collective, run.devices, run.rows, where=where, resolution_Bps=_RESOLUTION_BPS
    )
    return NcclTests(
        tool=run.tool,
        version=run.version,
        library_version=run.library,
        first_line=run.first_line,
        last_line=run.last_line,
        program=run.program,
        collective=collective,
        settings=run.settings,
        devices=tuple(run.devices),
        ranks=ranks,
        ranks_from=ranks_from,
        rows=tuple(run.rows),
        out_of_bounds=run.out_of_bounds,
        avg_busbw_Bps=run.average,
        resolution_Bps=_RESOLUTION_BPS,
        cpu_time=run.columns is not None and "cputime" in run.columns.groups[-1],
        errors=tuple(run.errors),
        log_lines=run.log_lines,
        unread=tuple(run.unread),
    )
