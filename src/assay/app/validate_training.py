"""`assay validate training` and `assay validate kernels`: how wrong the predictor is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import json_option

if TYPE_CHECKING:
    from assay.domain.score import Validation

_FILES = click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE…",
)


@click.command()
@_FILES
@click.option(
    "--cross",
    type=click.Choice(["source", "fit"]),
    help="Fit the model's numbers again: without each source in turn, or on all rows.",
)
@click.option("--rows", is_flag=True, help="Show every row, not only the groups.")
@json_option
def training(files: tuple[Path, ...], cross: str | None, rows: bool, as_json: bool) -> int:
    """Predicted against measured step times of published runs (CSV, also .gz)."""
    from assay.api.validating import validate_training_files

    result = validate_training_files(files, cross=cross)
    _print(result, command="validate training", rows=rows, as_json=as_json)
    return 0


@click.command()
@_FILES
@click.option("--rows", is_flag=True, help="Show every row, not only the groups.")
@json_option
def kernels(files: tuple[Path, ...], rows: bool, as_json: bool) -> int:
    """Predicted against measured times of matrix products and attention (CSV, also .gz)."""
    from assay.api.validating import validate_kernel_files

    result = validate_kernel_files(files)
    _print(result, command="validate kernels", rows=rows, as_json=as_json)
    return 0


def validation_object(result: Validation, *, command: str) -> dict[str, object]:
    """The JSON object of DESIGN §6, "validation"."""
    from assay import __version__
    from assay.codec.answer import SCHEMA_VERSION

    return {
        "schema_version": SCHEMA_VERSION,
        "command": command,
        "assay_version": __version__,
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


def _print(result: Validation, *, command: str, rows: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(validation_object(result, command=command), indent=1))
        return
    click.echo(
        f"{'group':44s} {'n':>6s} {'skip':>5s} {'median':>7s} {'p90':>7s} {'bias':>7s} {'80 % holds':>10s}"
    )
    for name, g in result.groups.items():
        cells = [
            _percent(g.median_abs_error_frac),
            _percent(g.p90_abs_error_frac),
            _percent(g.bias_frac, sign=True),
        ]
        text = " ".join(f"{cell:>7s}" for cell in cells)
        click.echo(f"{name:44s} {g.n:6d} {g.skipped:5d} {text} {_percent(g.coverage_frac):>10s}")
    if rows:
        for row in result.rows:
            what = (
                row.skipped
                or f"{_percent(row.error_frac, sign=True)}  measured {row.measured:.5g} {row.unit}"
            )
            click.echo(f"{row.file}:{row.line}: {row.id}  {what}")
    for name, numbers in (result.fitted or {}).items():
        click.echo(f"\nnumbers, {name}: " + ", ".join(f"{key} {value:.3g}" for key, value in numbers.items()))


def _percent(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:+.1%}" if sign else f"{value:.1%}"
