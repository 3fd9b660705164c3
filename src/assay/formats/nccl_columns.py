"""The columns of nccl-tests' table: which ones a header row names, which ones a row fills."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay.errors import InputError
from assay.formats.lines import is_nothing, real, scaled, whole
from assay.formats.nccl_record import IterationTimes, Placement, Row

_PER_ITER = ("i_min", "i_max", "i_p99", "i_cv%")
_TIMES = ("time", "cputime")
_LEAD = ("size", "count", "type", "redop", "root")
_MEASURED = (*_TIMES, "algbw", "busbw", "#wrong", "error", *_PER_ITER)
_TAIL = ("algo", "proto", "nchannels", "channels", "timestamp")
_DAMAGED = "the line was damaged, as when two programs print at once; run again with output to a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns: those before the first time, those of each placement, those after."""

    line: int
    lead: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    tail: tuple[str, ...]

    @property
    def total(self) -> int:
        """Fields of a full row; a timestamp is printed as a date and a time."""
        return len(self.lead) + sum(map(len, self.groups)) + len(self.tail) + ("timestamp" in self.tail)


def read_header(names: Sequence[str], number: int, where: str) -> Columns:
    """The columns that the header row's `names` announce. Raises `InputError` for an unknown one."""
    strange = [title for title in names if title not in _LEAD + _MEASURED + _TAIL]
    if strange:
        raise InputError(
            f"unknown columns in the header: {', '.join(strange)}",
            where=where,
            fix="run nccl-tests without the option that adds them",
        )
    starts = [i for i, title in enumerate(names) if title in _TIMES]
    end = max((i + 1 for i, title in enumerate(names) if title in _MEASURED), default=0)
    groups = tuple(tuple(names[i:j]) for i, j in pairwise([*starts, end]))
    lead = tuple(names[: starts[0]]) if starts else ()
    complete = all(group[1:3] == ("algbw", "busbw") for group in groups) and set(lead) <= set(_LEAD)
    if len(groups) not in (1, 2) or not complete or lead[:3] != _LEAD[:3]:
        raise InputError(
            f"the header {' '.join(names)!r} does not read: size, count and type, then once or twice time, "
            "algbw and busbw",
            where=where,
            fix=_DAMAGED,
        )
    return Columns(line=number, lead=lead, groups=groups, tail=tuple(names[end:]))


def guess_columns(fields: Sequence[str], number: int, where: str) -> Columns:
    """The columns of a row that stands without a header row: 8, 11, 12 or 13 fields are known."""
    lead = list(_LEAD[:3])
    if len(fields) > 3 and real(fields[3]) is None:
        lead.append("redop")
    rest = fields[len(lead) :]
    # A root is -1 or most often 0; no time is.
    if len(rest) == 9 or (len(rest) == 4 and rest[0] in ("-1", "0")):
        lead.append("root")
        rest = rest[1:]
    group = ("time", "algbw", "busbw", "#wrong")
    if len(rest) not in (3, 4, 8):
        raise InputError(
            f"a row of {len(fields)} fields without a header row above it; 8, 11, 12 and 13 are known",
            where=where,
            fix="keep the lines that start with '#'; they name the columns",
        )
    groups = (group, group) if len(rest) == 8 else (group[: len(rest)],)
    return Columns(line=number, lead=tuple(lead), groups=groups, tail=())


def read_row(line: str, columns: Columns, number: int, where: str) -> Row:
    """The row that the line holds. Raises `InputError` when it does not fit the columns."""
    fields = line.split()
    lead, groups, tail = _fit(line, fields, columns, where)
    values = dict(zip(lead, fields, strict=False))
    position = len(lead)
    placements: list[Placement | None] = []
    for group in groups:
        placements.append(
            _placement(group, fields[position : position + len(group)], where) if group else None
        )
        position += len(group)
    extra = dict(zip(tail, fields[position:], strict=False))
    if "timestamp" in tail:
        extra["timestamp"] = " ".join(fields[-2:])
    root = whole(values["root"]) if "root" in values else None
    size, count = whole(values["size"]), whole(values["count"])
    if size is None or count is None or ("root" in values and root is None):
        raise InputError(
            f"the row does not start with a size, a count and a type: {line.strip()[:60]!r}",
            where=where,
            fix=_DAMAGED,
        )
    redop = values.get("redop")
    return Row(
        line=number,
        bytes=size,
        count=count,
        dtype=values["type"],
        redop=None if redop == "none" else redop,
        root=None if root == -1 else root,
        out_of_place=placements[0],
        in_place=placements[1] if len(placements) > 1 else None,
        algorithm=extra.get("algo"),
        protocol=extra.get("proto"),
        channels=whole(extra.get("nchannels", extra.get("channels", ""))),
        timestamp=extra.get("timestamp"),
    )


def _fit(
    line: str, fields: Sequence[str], columns: Columns, where: str
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """Which columns this row has; a row may lack the reduction (old all-to-all) or the in-place half."""
    lead, groups, tail = columns.lead, columns.groups, columns.tail
    n = len(fields)
    if n == columns.total:
        return lead, groups, tail
    if n == columns.total - 1 and "redop" in lead and "root" not in lead:
        return tuple(title for title in lead if title != "redop"), groups, tail
    if n == columns.total + 3 and not tail:
        return lead, groups, ("algo", "proto", "nchannels")  # rccl-tests, whose header does not name them
    if len(groups) == 2 and n == len(lead) + len(groups[0]):
        # A blank of a whole placement's width stands for the out-of-place half of a replay.
        in_place = re.search(r"\S\s{32,}\S", line) is not None
        return lead, ((), groups[1]) if in_place else groups[:1], ()
    if n == len(lead) + 3:
        return lead, (groups[0][:3],), ()
    raise InputError(
        f"{n} fields in this row, but the header on line {columns.line} names {columns.total} columns",
        where=where,
        fix=_DAMAGED,
    )


def _placement(group: Sequence[str], fields: Sequence[str], where: str) -> Placement | None:
    values = dict(zip(group, fields, strict=True))
    for title, text in values.items():
        if real(text) is None and not is_nothing(text):
            raise InputError(f"{text!r} under {title!r} is not a number", where=where, fix=_DAMAGED)
    number = {title: real(text) for title, text in values.items()}
    time_us = number[group[0]]
    if time_us is None and number["algbw"] is None and number["busbw"] is None:
        return None
    wrong, error = number.get("#wrong"), number.get("error")
    per_iter = [number.get(title) for title in _PER_ITER]
    return Placement(
        time_s=scaled(time_us, 1e-6),
        algbw_Bps=scaled(number["algbw"], 1e9),
        busbw_Bps=scaled(number["busbw"], 1e9),
        wrong=None if wrong is None else round(wrong),
        max_error=error,
        iterations=IterationTimes(
            min_s=scaled(per_iter[0], 1e-6),
            max_s=scaled(per_iter[1], 1e-6),
            p99_s=scaled(per_iter[2], 1e-6),
            cv_frac=scaled(per_iter[3], 1e-2),
        )
        if "i_min" in number
        else None,
    )
