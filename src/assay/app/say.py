"""How a command speaks: lines of 80 columns or one JSON object on stdout, what it does on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner with the seconds on stderr while something takes long; on terminals only, leaving nothing."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(what), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        bar.add_task(what, total=None)
        yield
