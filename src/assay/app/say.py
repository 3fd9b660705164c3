"""How a command speaks: lines of 80 columns or one JSON object on stdout, what it wrote on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click


def say(text: str, *, hang: int = 2) -> None:
    """Print a paragraph, its further lines `hang` columns in."""
    from assay.report.plain import wrapped

    click.echo(wrapped(text, hang=hang))


def say_json(answer: Mapping[str, object]) -> None:
    """Print the answer as one JSON object."""
    click.echo(json.dumps(answer, indent=1, ensure_ascii=False))


def say_wrote(file: Path) -> None:
    """Tell that a file was written."""
    click.echo(f"wrote {file}", err=True)
