"""`assay verify`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.app.answers import write_page
from assay.app.options import json_option, page_options


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="RUN")
@click.option(
    "--annex",
    "annex_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The annex that was signed (Markdown or HTML).",
)
@page_options
@json_option
def verify(run: Path, annex_file: Path | None, html: Path | None, lang: str, as_json: bool) -> int:
    """Check that a run is whole, which hardware it came from, and that it follows an annex.

    Exit code 0: whole, and made as the annex asks. 1: changed after it ended, or made otherwise. 3: it did
    not end, or a required clause was not measured.
    """
    from assay import __version__
    from assay.api.annexing import verify as check
    from assay.catalog.messages import Texts
    from assay.report.verification import answer, page, plain_text

    verified = check(run, annex_file=annex_file)
    texts = Texts(lang)
    told = json.dumps(answer(verified, assay_version=__version__), indent=1, ensure_ascii=False)
    if html:
        write_page(html, page(verified, texts), texts, answer_json=told)
    click.echo(told if as_json else plain_text(verified, texts), nl=as_json)
    return verified.verdict.exit_code
