"""`assay validate training` and `assay validate kernels`: how wrong the predictor is."""

from __future__ import annotations

from pathlib import Path

import click

from assay.app.options import json_option, page_options
from assay.app.say import waiting
from assay.app.scores import print_validation

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
@page_options
@json_option
def training(
    files: tuple[Path, ...], cross: str | None, rows: bool, html: Path | None, lang: str, as_json: bool
) -> int:
    """Predicted against measured step times of published runs (CSV, also .gz)."""
    from assay.api.validating import validate_training_files

    with waiting("predicting the runs" if cross is None else "fitting, and predicting the runs"):
        result = validate_training_files(files, cross=cross)
    print_validation(result, command="validate training", rows=rows, as_json=as_json, html=html, lang=lang)
    return 0


@click.command()
@_FILES
@click.option(
    "--cross",
    type=click.Choice(["source"]),
    help="Predict each device from the tables of the others (about a minute for all).",
)
@click.option("--rows", is_flag=True, help="Show every row, not only the groups.")
@page_options
@json_option
def kernels(
    files: tuple[Path, ...], cross: str | None, rows: bool, html: Path | None, lang: str, as_json: bool
) -> int:
    """Predicted against measured times of matrix products and attention (CSV, also .gz)."""
    from assay.api.validating import validate_kernel_files

    with waiting("predicting the kernels" if cross is None else "fitting, and predicting the kernels"):
        result = validate_kernel_files(files, cross=cross is not None)
    print_validation(result, command="validate kernels", rows=rows, as_json=as_json, html=html, lang=lang)
    return 0


@click.command()
@_FILES
@click.option("--cluster", required=True, metavar="NAME|FILE|RUN", help="What the jobs ran on.")
@click.option("--base", metavar="NAME", help="The system that a measured run was made on.")
@click.option("--rows", is_flag=True, help="Show every row, not only the groups.")
@page_options
@json_option
def traces(
    files: tuple[Path, ...],
    cluster: str,
    base: str | None,
    rows: bool,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Steps predicted from Kineto traces: each at its own size, and larger jobs from the smallest one."""
    from assay.api.tracing import validate_traces

    result = validate_traces(files, cluster=cluster, base=base)
    print_validation(result, command="validate traces", rows=rows, as_json=as_json, html=html, lang=lang)
    return 0
