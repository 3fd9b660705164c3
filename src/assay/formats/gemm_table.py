"""A table of matrix-multiplication results as CSV, as MAMF, gpu-burn or a script of one's own makes it.

Names of columns may vary; units may not be guessed: the header must say TFLOPS (or GFLOPS, TFLOP/s,
TOPS …), or a time with its unit (`time_us`, `time (ms)`). From a time alone the rate is 2·m·n·k / time.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.errors import InputError, did_you_mean, unknown_name
from assay.formats.lines import real, whole
from assay.formats.recognise import file_format

_DTYPES = {
    "fp64": ("float64", "double", "f64", "fp64"),
    "fp32": ("float32", "float", "f32", "fp32", "single"),
    "tf32": ("tf32", "tfloat32"),
    "fp16": ("float16", "half", "f16", "fp16"),
    "bf16": ("bfloat16", "bf16"),
    "fp8": ("fp8", "float8", "float8_e4m3fn", "float8_e5m2", "e4m3", "e5m2"),
    "int8": ("int8", "i8", "s8"),
    "fp4": ("fp4", "nvfp4", "mxfp4"),
}
_DTYPE_OF = {alias: dtype for dtype, aliases in _DTYPES.items() for alias in aliases}
_NAMES = {
    "m": ("m", "dim_m"),
    "n": ("n", "dim_n"),
    "k": ("k", "dim_k"),
    "shape": ("shape", "mnk", "mxnxk", "size"),
    "dtype": ("dtype", "type", "data_type", "datatype", "precision"),
    "device": ("gpu", "device", "card", "gpu_id", "gpu_index", "device_id"),
    "host": ("host", "node", "hostname", "node_name"),
    "rank": ("rank",),
    "batch": ("batch", "batch_size"),
    "statistic": ("statistic", "stat"),
}
_MEANING = {alias: meaning for meaning, aliases in _NAMES.items() for alias in aliases}
_RATE = re.compile(
    r"(?:(?P<stat>mean|median|avg|max|min|best|peak)_)?(?P<prefix>[kmgtp])(?P<kind>fl)?op(?:s|_s|s_s|_per_s)"
    r"(?:_(?P<stat2>mean|median|avg|max|min|best|peak))?"
)
_TIME = re.compile(
    r"(?:(?:mean|median|avg|min)_)?(?:time|latency|duration|elapsed)_(?P<unit>ns|us|usec|ms|msec|s|sec|seconds)"
)
_UNITLESS = {
    "time",
    "latency",
    "duration",
    "elapsed",
    "flops",
    "rate",
    "perf",
    "performance",
    "throughput",
    "speed",
}
_PREFIX = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
}
_STATISTIC = {"avg": "mean", "best": "max", "peak": "max"}
_SHAPE = re.compile(r"(\d{1,9})\s*[x×*]\s*(\d{1,9})\s*[x×*]\s*(\d{1,9})", re.ASCII)
#: How far the printed rate may be from 2·m·n·k / time before the row is refused.
_TOLERANCE_FRAC = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmRow:
    """One result. `rate_per_s` is FLOP/s, or OP/s for integers; `rate_from` is "table" or "time"."""

    line: int
    dtype: str | None
    m: int | None
    n: int | None
    k: int | None
    batch: int | None
    rate_per_s: float
    rate_from: str
    statistic: str | None
    time_s: float | None
    device: str | None
    host: str | None
    rank: int | None

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s < math.inf:
            raise InputError(f"a rate of {self.rate_per_s} FLOP/s is no result")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTable:
    """A whole table; `comments` are the lines that start with "#"."""

    tool: str
    version: str | None
    columns: tuple[str, ...]
    rows: tuple[GemmRow, ...]
    comments: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """What a column means, the factor to base units, and the statistic that its name says."""

    meaning: str
    factor: float = 1.0
    statistic: str | None = None


def _plain(title: str) -> str:
    """`TFLOP/s (mean)`, `time [us]`, `Data Type` as `tflop_s_mean`, `time_us`, `data_type`."""
    text = title.strip().lower().replace("µs", "us").replace("μs", "us")
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_")


def _meaning(title: str) -> _Column | None:
    plain = _plain(title)
    if plain in _MEANING:
        return _Column(meaning=_MEANING[plain])
    if match := _RATE.fullmatch(plain):
        said = match["stat"] or match["stat2"]
        return _Column(meaning="rate", factor=_PREFIX[match["prefix"]], statistic=_STATISTIC.get(said, said))
    if match := _TIME.fullmatch(plain):
        return _Column(meaning="time", factor=_SECONDS[match["unit"]])
    return None


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _recognise(head: Sequence[str]) -> bool:
    header = next((line for line in head if line.strip() and not line.lstrip("\ufeff").startswith("#")), "")
    titles = header.lstrip("\ufeff").split(_delimiter(header))
    found = {column.meaning for column in map(_meaning, titles) if column}
    return len(titles) > 1 and len(found) > 1 and bool(found & {"rate", "time"})


@file_format("gemm-table", "CSV table of GEMM results", _recognise)
def parse(lines: Iterable[str], name: str) -> tuple[GemmTable, ...]:
    """The table. Raises `InputError` for a column without a unit, an unknown one, or a row that is off."""
    rows: list[GemmRow] = []
    comments: list[int] = []
    columns: list[_Column] = []
    titles: list[str] = []
    delimiter = ","
    for number, raw in enumerate(lines, 1):
        line, where = raw.rstrip("\r\n").removeprefix("\ufeff"), f"{name}:{number}"
        if not line.strip():
            continue
        if line.startswith("#"):
            comments.append(number)
        elif not columns:
            delimiter = _delimiter(line)
            titles = _cells(line, delimiter, where)
            columns = _columns(titles, where)
        else:
            rows.append(_row(_cells(line, delimiter, where), titles, columns, number, where))
    if not rows:
        raise InputError(
            "no result row is in this table",
            where=f"{name}:1",
            fix="write a header such as m,n,k,dtype,tflops and a row per result",
        )
    return (
        GemmTable(
            tool="gemm-table", version=None, columns=tuple(titles), rows=tuple(rows), comments=tuple(comments)
        ),
    )


def _cells(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return [cell.strip() for row in csv.reader([line], delimiter=delimiter, strict=True) for cell in row]
    except csv.Error as error:
        raise InputError(
            f"this is not a row of CSV ({error})", where=where, fix="close the quotes"
        ) from error


def _columns(titles: Sequence[str], where: str) -> list[_Column]:
    found = [_meaning(title) for title in titles]
    unknown = [title for title, column in zip(titles, found, strict=True) if column is None]
    unitless = [title for title in unknown if _plain(title) in _UNITLESS]
    if unitless:
        raise InputError(
            f"the column {unitless[0]!r} does not say its unit",
            where=where,
            fix="name it with the unit, for example 'tflops', 'time_us' or 'time (ms)'",
        )
    if unknown:
        known = [*_MEANING, "tflops", "gflops", "tops", "time_us", "time_ms", "time_s"]
        hints = "; ".join(f"{title!r}: {did_you_mean(_plain(title), known)}" for title in unknown[:3])
        raise InputError(
            f"unknown columns: {', '.join(map(repr, unknown))}",
            where=where,
            fix=f"rename or remove them ({hints})",
        )
    columns = [column for column in found if column is not None]
    meanings = [column.meaning for column in columns]
    twice = {meaning for meaning in meanings if meanings.count(meaning) > 1}
    if twice:
        raise InputError(
            f"two columns mean the same: {', '.join(sorted(twice))}",
            where=where,
            fix="keep one of them per table",
        )
    if "rate" not in meanings and "time" not in meanings:
        raise InputError(
            "the table has neither a rate nor a time",
            where=where,
            fix="add a column 'tflops', or 'time_us' beside m, n and k",
        )
    return columns


def _row(
    cells: Sequence[str], titles: Sequence[str], columns: Sequence[_Column], number: int, where: str
) -> GemmRow:
    if len(cells) != len(columns):
        raise InputError(
            f"{len(cells)} cells in this row, but the header has {len(columns)} columns",
            where=where,
            fix="complete the row, or remove it",
        )
    by_meaning = {
        column.meaning: (cell, title, column)
        for cell, title, column in zip(cells, titles, columns, strict=True)
    }

    def text(meaning: str) -> str | None:
        return (by_meaning[meaning][0] or None) if meaning in by_meaning else None

    def count(meaning: str) -> int | None:
        cell = text(meaning)
        value = whole(cell) if cell else None
        if cell and (value is None or value < (0 if meaning == "rank" else 1)):
            raise InputError(f"{cell!r} under {by_meaning[meaning][1]!r} is not a whole number", where=where)
        return value

    def positive(meaning: str) -> float | None:
        cell = text(meaning)
        if cell is None:
            return None
        value = real(cell)
        if value is None or not 1e-30 < value < 1e30:
            raise InputError(
                f"{cell!r} under {by_meaning[meaning][1]!r} is not a positive number",
                where=where,
                fix="leave the row out if the run failed",
            )
        return value * by_meaning[meaning][2].factor

    m, n, k = _shape(text("shape"), where) or (count("m"), count("n"), count("k"))
    batch, time_s, rate = count("batch"), positive("time"), positive("rate")
    rate_from = "table"
    worked = 2.0 * m * n * k * (batch or 1) / time_s if m and n and k and time_s else None
    if rate is None:
        if worked is None:
            raise InputError(
                "the row has no rate, and without m, n, k and a time none can be worked out",
                where=where,
                fix="add a column 'tflops'",
            )
        rate, rate_from = worked, "time"
    elif worked is not None and abs(rate / worked - 1) > _TOLERANCE_FRAC:
        raise InputError(
            f"the row does not add up: 2·{m}·{n}·{k}{f'·{batch}' if batch else ''} FLOP in {time_s:.6g} s is "
            f"{worked / 1e12:.4g} TFLOP/s, but the table says {rate / 1e12:.4g}",
            where=where,
            fix="check the units in the header; sparse rates are not dense ones",
        )
    rate_column = by_meaning.get("rate")
    return GemmRow(
        line=number,
        dtype=_dtype(text("dtype"), where),
        m=m,
        n=n,
        k=k,
        batch=batch,
        rate_per_s=rate,
        rate_from=rate_from,
        statistic=text("statistic") or (rate_column[2].statistic if rate_column else None),
        time_s=time_s,
        device=text("device"),
        host=text("host"),
        rank=count("rank"),
    )


def _shape(text: str | None, where: str) -> tuple[int, int, int] | None:
    if text is None:
        return None
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise InputError(
            f"{text!r} is not a shape", where=where, fix="write it as MxNxK, for example 8192x8192x8192"
        )
    return int(match[1]), int(match[2]), int(match[3])


def _dtype(text: str | None, where: str) -> str | None:
    if text is None:
        return None
    plain = text.lower().removeprefix("torch.")
    if plain not in _DTYPE_OF:
        raise unknown_name("dtype", text, _DTYPE_OF, where=where)
    return _DTYPE_OF[plain]
