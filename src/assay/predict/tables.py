"""CSV tables of measured figures: a header and rows, each with its line for error messages."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """The cells of one row by column, and where it stands."""

    file: str
    line: int
    cells: dict[str, str]

    @property
    def where(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


def read_table(lines: Iterable[str], *, file: str, needs: Sequence[str]) -> list[TableRow]:
    """Rows of a CSV with a header; an `InputError` names a missing column or a row of the wrong length."""
    reader = csv.reader(lines)
    header = next(reader, None)
    if header is None:
        raise InputError("the file is empty", where=file)
    names = [name.strip() for name in header]
    missing = [name for name in needs if name not in names]
    if missing:
        raise InputError(
            f"column {missing[0]!r} is missing", where=f"{file}:1", fix=f"columns: {', '.join(needs)}"
        )
    rows: list[TableRow] = []
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(names):
            raise InputError(
                f"{len(cells)} cells under {len(names)} columns", where=f"{file}:{reader.line_num}"
            )
        rows.append(
            TableRow(
                file=file, line=reader.line_num, cells=dict(zip(names, map(str.strip, cells), strict=True))
            )
        )
    return rows
