"""How `assay validate` shows errors: a table by group, or the JSON object of every row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assay.domain.score import Validation


def headed(command: str) -> dict[str, object]:
    """What every JSON answer begins with."""
    from assay import __version__
    from assay.codec.answer import SCHEMA_VERSION

    return {"schema_version": SCHEMA_VERSION, "command": command, "assay_version": __version__}


def validation_object(result: Validation, *, command: str) -> dict[str, object]:
    """Every row and group as one JSON object."""
    return headed(command) | {
        "cross": result.cross,
        "rows": [
            {
                "id": row.id,
                "file": row.file,
                "line": row.line,
                "groups": list(row.groups),
                "unit": row.unit,
                "measured": row.measured,
                "predicted": row.predicted,
                "low": row.low,
                "high": row.high,
                "error_frac": row.error_frac,
                "skipped": row.skipped,
                "assumed": list(row.assumed),
            }
            for row in result.rows
        ],
        "groups": {
            name: {
                "n": g.n,
                "skipped": g.skipped,
                "median_abs_error_frac": g.median_abs_error_frac,
                "p90_abs_error_frac": g.p90_abs_error_frac,
                "bias_frac": g.bias_frac,
                "coverage_frac": g.coverage_frac,
            }
            for name, g in result.groups.items()
        },
        "fitted": result.fitted,
    }


def print_validation(result: Validation, *, command: str, as_json: bool, rows: bool = False) -> None:
    """Print a validation as a table, with every row where `rows` is set, or as JSON."""
    if as_json:
        click.echo(json.dumps(validation_object(result, command=command), indent=1))
        return
    click.echo(
        f"{'group':44s} {'n':>6s} {'skip':>5s} {'median':>7s} {'p90':>7s} {'bias':>7s} {'80 % holds':>10s}"
    )
    for name, g in result.groups.items():
        cells = [
            percent(g.median_abs_error_frac),
            percent(g.p90_abs_error_frac),
            percent(g.bias_frac, sign=True),
        ]
        text = " ".join(f"{cell:>7s}" for cell in cells)
        click.echo(f"{name:44s} {g.n:6d} {g.skipped:5d} {text} {percent(g.coverage_frac):>10s}")
    if rows:
        for row in result.rows:
            what = (
                row.skipped or f"{percent(row.error_frac, sign=True)}  measured {row.measured:.5g} {row.unit}"
            )
            click.echo(f"{row.file}:{row.line}: {row.id}  {what}")
    for name, numbers in (result.fitted or {}).items():
        click.echo(f"\nnumbers, {name}: " + ", ".join(f"{key} {value:.3g}" for key, value in numbers.items()))


def percent(value: float | None, *, sign: bool = False) -> str:
    """A fraction as people read it."""
    if value is None:
        return "–"
    return f"{value:+.1%}" if sign else f"{value:.1%}"
