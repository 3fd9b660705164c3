"""`assay verify`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.app.options import json_option
from assay.app.say import say_json


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUN")
@click.option(
    "--annex",
    "annex_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The annex that was signed (Markdown or HTML).",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the answer."
)
@json_option
def verify(run: Path, annex_file: Path | None, lang: str, as_json: bool) -> int:
    """Check that a run is whole, which hardware it came from, and that it follows an annex.

    Exit code 0: whole, and made as the annex asks. 1: changed after it ended, or made otherwise. 3: it did
    not end, or a required clause was not measured.
    """
    from assay import __version__
    from assay.api.annexing import verify as check
    from assay.catalog.messages import Texts
    from assay.report.verification import answer, plain_text

    verified = check(run, annex_file=annex_file)
    if as_json:
        told = answer(verified, assay_version=__version__)
        say_json(told)
    else:
        click.echo(plain_text(verified, Texts(lang)), nl=False)
    return verified.verdict.exit_code
