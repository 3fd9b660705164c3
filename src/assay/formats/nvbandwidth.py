"""nvbandwidth's output: the JSON of `-j`, and the text with its matrices.

In the JSON the cells are text, an error is appended as a second testcase of the same name, and `min` and
`average` count N/A as 0: cells are converted, the worst status wins, and the two are not read. The text
prints waived testcases without their names. GB/s is 1e9 B/s; latencies are ns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from assay.errors import InputError
from assay.formats.json_text import Fields, read_object
from assay.formats.lines import is_nothing, real, strip_launcher
from assay.formats.recognise import file_format

_STATUSES = {
    "passed": "passed",
    "waived": "waived",
    "not found": "not_found",
    "error": "error",
    "running": "running",
}
_WORSE = ("passed", "waived", "not_found", "running", "error")
_UNITS = {"GB/s": (1e9, "B/s"), "MB/s": (1e6, "B/s"), "ns": (1e-9, "s"), "us": (1e-6, "s")}
_UNIT = re.compile(r"\(([^()]+)\)\s*$")
_RUNNING = re.compile(r"Running (\S+?)\.?\s*$")
_TOTAL = re.compile(r"(SUM|MIN|MAX|AVG|AVERAGE)\s+(\S+)\s+(\S+)\s*$")
_VERSION = re.compile(r"nvbandwidth Version: (\S+)")
_HEADING = re.compile(
    r"(Built from Git version|CUDA Runtime Version|CUDA Driver Version|Driver Version|MPI version): ?(.*)"
)
_DEVICE = re.compile(r"(?:Process \d+ \(.*\): )?[Dd]evice (\d+): (.+)")
_STATUS_LINE = re.compile(r"(Waived|Error|ERROR|Not Found|Passed):\s?(.*)")
_KNOWN = re.compile(r"NOTE: The reported results|Performance can vary with software")


@dataclass(frozen=True, slots=True, kw_only=True)
class Testcase:
    """One testcase: `matrix` holds rows of cells in `unit` ("B/s" or "s"), None for N/A.

    `total` is the printed sum. `status` is passed, waived, not_found, running (cut off) or error.
    """

    line: int
    name: str
    status: str
    description: str | None = None
    unit: str | None = None
    columns: tuple[str, ...] = ()
    row_names: tuple[str, ...] = ()
    matrix: tuple[tuple[float | None, ...], ...] = ()
    total: float | None = None
    message: str | None = None

    @property
    def cells(self) -> tuple[float, ...]:
        """The measured cells, row by row."""
        return tuple(cell for row in self.matrix for cell in row if cell is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvBandwidth:
    """One run; `waived_unnamed` counts testcases that the text form waived without naming them."""

    tool: str
    version: str | None
    git_version: str | None
    driver_version: str | None
    cuda_version: str | None
    host: str | None
    devices: tuple[str, ...]
    testcases: tuple[Testcase, ...]
    waived_unnamed: int = 0
    error: str | None = None
    warning: str | None = None
    unread: tuple[int, ...] = ()


def _recognise_json(head: Sequence[str]) -> bool:
    return any(line.lstrip(" \t{").startswith('"nvbandwidth"') for line in head)


def _recognise_text(head: Sequence[str]) -> bool:
    return any(
        _VERSION.match(line) or line.startswith(("memcpy CE ", "memcpy SM "))
        for line in map(strip_launcher, head)
    )


@file_format("nvbandwidth-json", "nvbandwidth -j JSON", _recognise_json)
def parse_json(lines: Iterable[str], name: str) -> tuple[NvBandwidth, ...]:
    """The run in the JSON file. Raises `InputError` for cut-off JSON, an unknown status or unit."""
    found = read_object(lines, name, title="nvbandwidth JSON output")
    found.root.need("nvbandwidth")
    root = found.root.child("nvbandwidth") or found.root
    cases = root.children("testcases")
    if not cases and not root.has("error"):
        raise InputError("nvbandwidth ran no testcase", where=root.where, fix="run it again without a filter")
    numbers = found.lines_of("name", len(cases))
    cuda = root.whole("CUDA Runtime Version")
    return (
        NvBandwidth(
            tool="nvbandwidth",
            version=root.text("version") or None,
            git_version=root.text("git_version") or None,
            driver_version=root.text("Driver Version"),
            cuda_version=_cuda(cuda),
            host=root.text("Hostname"),
            devices=root.strings("GPU Device list") or root.strings("GPU Device info"),
            testcases=_worst_by_name(
                _json_case(Fields(items=case.items, path=case.path, where=f"{name}:{line}"), line)
                for case, line in zip(cases, numbers, strict=True)
            ),
            error=root.text("error"),
            warning=root.text("warning"),
            unread=found.unread,
        ),
    )


def _cuda(code: int | None) -> str | None:
    return None if code is None else f"{code // 1000}.{code % 1000 // 10}"


def _worst_by_name(cases: Iterable[Testcase]) -> tuple[Testcase, ...]:
    """One testcase per name: the matrix of the one that has it, the worst of their statuses."""
    merged: dict[str, Testcase] = {}
    for case in cases:
        seen = merged.get(case.name)
        if seen is None:
            merged[case.name] = case
            continue
        base = seen if seen.matrix else case
        worst = max(seen.status, case.status, key=_WORSE.index)
        merged[case.name] = replace(base, line=seen.line, status=worst, message=seen.message or case.message)
    return tuple(merged.values())


def _json_case(case: Fields, line: int) -> Testcase:
    case.need("name", "status")
    status = _STATUSES.get((case.text("status") or "").lower())
    if status is None:
        raise InputError(
            f"{case.path}status {case.text('status')!r} is unknown; known: {', '.join(_STATUSES)}",
            where=case.where,
            fix="which version of nvbandwidth wrote this? its text output can be read as well",
        )
    raw = case.items.get("bandwidth_matrix") or []
    if not isinstance(raw, list) or not all(isinstance(row, list) for row in raw):
        raise InputError(f"{case.path}bandwidth_matrix is not a list of rows", where=case.where)
    description, total = (case.text("bandwidth_description") or "").strip(), case.real("sum")
    factor, unit = _unit(description, case.where) if raw else (1.0, None)
    matrix = tuple(tuple(_cell(str(cell), factor, case.where) for cell in row) for row in raw)
    found = Testcase(
        line=line,
        name=case.text("name") or "",
        status=status,
        description=description or None,
        unit=unit,
        columns=tuple(str(i) for i in range(max(map(len, matrix), default=0))),
        row_names=tuple(str(i) for i in range(len(matrix))),
        matrix=matrix,
        total=None if total is None or not raw else total * factor,
        message=case.text("error"),
    )
    _check_total(found, 0.0, case.where)
    return found


def _unit(description: str, where: str) -> tuple[float, str]:
    match = _UNIT.search(description)
    if match is None or match[1] not in _UNITS:
        raise InputError(
            f"the matrix {description!r} does not end in a known unit; known: {', '.join(_UNITS)}",
            where=where,
            fix="keep the line above the matrix, which says what it holds",
        )
    return _UNITS[match[1]]


def _cell(text: str, factor: float, where: str) -> float | None:
    value = real(text.strip())
    if value is None and not is_nothing(text.strip()):
        raise InputError(f"the cell {text[:40]!r} is neither a number nor N/A", where=where)
    return None if value is None else value * factor


def _check_total(case: Testcase, rounding: float, where: str) -> None:
    """A lost or damaged cell shows in the printed sum; `rounding` is the last digit of a cell."""
    if case.total is None or not case.matrix:
        return
    added = sum(case.cells)
    if abs(added - case.total) > rounding * (len(case.cells) + 1) + 2e-5 * abs(case.total):
        raise InputError(
            f"the {len(case.cells)} cells of {case.name} add up to {added:.6g} {case.unit}, "
            f"but the file says {case.total:.6g} {case.unit}",
            where=where,
            fix="a cell was lost or changed; give the output as nvbandwidth wrote it",
        )


@dataclass(slots=True, kw_only=True)
class _Text:
    """The text form while it is being read."""

    heading: dict[str, str] = field(default_factory=dict)
    host: str | None = None
    devices: list[str] = field(default_factory=list)
    cases: list[Testcase] = field(default_factory=list)
    open: Testcase | None = None
    waived: int = 0
    error: str | None = None
    unread: list[int] = field(default_factory=list)


@file_format("nvbandwidth", "nvbandwidth text output", _recognise_text)
def parse_text(lines: Iterable[str], name: str) -> tuple[NvBandwidth, ...]:
    """The run in the text. Raises `InputError` where the text ends inside a testcase."""
    read, number = _Text(), 0
    for number, raw in enumerate(lines, 1):
        line = strip_launcher(raw).rstrip()
        if (
            line
            and not _read_heading(read, line.strip())
            and not _read_case(read, line, number, f"{name}:{number}")
        ):
            read.unread.append(number)
    if read.open is not None:
        raise InputError(
            f"the text ends inside {read.open.name}, which began on line {read.open.line}",
            where=f"{name}:{number}",
            fix="copy the whole output, or run nvbandwidth again",
        )
    if not read.cases and not read.waived and read.error is None:
        raise InputError(
            f"{number} lines without a testcase of nvbandwidth",
            where=f"{name}:1",
            fix="give the whole output of nvbandwidth",
        )
    return (
        NvBandwidth(
            tool="nvbandwidth",
            version=read.heading.get("nvbandwidth Version"),
            git_version=read.heading.get("Built from Git version") or None,
            driver_version=read.heading.get("Driver Version"),
            cuda_version=_cuda(int(read.heading["CUDA Runtime Version"]))
            if "CUDA Runtime Version" in read.heading
            else None,
            host=read.host,
            devices=tuple(read.devices),
            testcases=_worst_by_name(read.cases),
            waived_unnamed=read.waived,
            error=read.error,
            unread=tuple(read.unread),
        ),
    )


def _read_heading(read: _Text, line: str) -> bool:
    """Versions, devices, and the line that is the host's name."""
    if read.open or read.cases:
        return bool(_KNOWN.match(line))
    if match := _VERSION.match(line):
        read.heading["nvbandwidth Version"] = match[1]
    elif match := _HEADING.match(line):
        if match[1] == "CUDA Runtime Version" and not (
            match[2].isascii() and match[2].isdigit() and len(match[2]) < 9
        ):
            return False
        read.heading[match[1]] = match[2]
    elif match := _DEVICE.match(line):
        read.devices.append(f"{match[1]}: {match[2]}")
    elif read.heading and not read.devices and re.fullmatch(r"[A-Za-z][\w.-]*", line):
        read.host = line
    else:
        return False
    return True


def _read_case(read: _Text, line: str, number: int, where: str) -> bool:
    """A line of a testcase: its start, its description, its matrix, its sum or its status."""
    case = read.open
    if match := _RUNNING.match(line):
        if case is not None:
            raise InputError(f"{match[1]} begins before {case.name} (line {case.line}) ended", where=where)
        read.open = Testcase(line=number, name=match[1], status="running")
    elif match := _STATUS_LINE.match(line):
        status = _STATUSES[match[1].lower()]
        if case is not None:
            read.cases.append(replace(case, status=status, message=match[2] or None))
            read.open = None
        elif status == "waived":
            read.waived += 1
        else:
            read.error = read.error or f"{match[1]}: {match[2]}"
    elif case is None:
        return bool(_TOTAL.match(line) and read.cases) or bool(_KNOWN.match(line))
    elif match := _TOTAL.match(line):
        _close_case(read, case, match, where)
    elif case.description is None:
        if _UNIT.search(line) is None:
            return False
        _unit(line, where)
        read.open = replace(case, description=line.strip(), unit=_unit(line, where)[1])
    elif not case.columns:
        read.open = replace(case, columns=tuple(line.split()))
    else:
        read.open = _add_row(case, line, where)
    return True


def _add_row(case: Testcase, line: str, where: str) -> Testcase:
    factor = _unit(case.description or "", where)[0]
    fields, width = line.split(), len(case.columns)
    if len(fields) <= width:
        raise InputError(
            f"{len(fields)} fields in a matrix row of {case.name}, but its name and {width} cells are wanted",
            where=where,
            fix="give the output as nvbandwidth wrote it",
        )
    cells = tuple(_cell(text, factor, where) for text in fields[-width:])
    return replace(
        case,
        matrix=(*case.matrix, cells),
        row_names=(*case.row_names, " ".join(fields[: len(fields) - width])),
    )


def _close_case(read: _Text, case: Testcase, match: re.Match[str], where: str) -> None:
    if match[1] != "SUM" or match[2] != case.name or not case.matrix:
        raise InputError(f"'{match[0].strip()}' does not end {case.name} (line {case.line})", where=where)
    factor = _unit(case.description or "", where)[0]
    done = replace(case, status="passed", total=_cell(match[3], factor, where))
    _check_total(done, 0.01 * factor, where)
    read.cases.append(done)
    read.open = None
