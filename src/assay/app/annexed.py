"""The option `--annex`: criteria and promises as both sides signed them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from assay.qualify.annex import Terms

Command = TypeVar("Command", bound=Callable[..., Any])


def annex_option(what: str) -> Callable[[Command], Command]:
    """The option, whose help says `what` is taken from the annex."""
    return click.option(
        "--annex",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"The annex that was signed: {what}.",
    )


def terms_of(annex: Path, *, profile: str | None, claims: Path | None) -> Terms:
    """The terms of an annex; wrong use where criteria or promises are given beside it."""
    from assay.api.annexing import signed

    if profile or claims:
        raise click.UsageError(
            "the annex has the criteria and the promises: leave --profile and --claims out"
        )
    return signed(annex)[0]
