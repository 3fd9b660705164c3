"""`assay doctor`."""

from __future__ import annotations

import json

import click

from assay.app.options import json_option


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER|ARCHIVE]…")
@click.option("--explain", metavar="CODE", help="Say what a finding code means, and end.")
@click.option("--timeline", is_flag=True, help="Show the merged story of the job across ranks.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the answer."
)
@json_option
def doctor(paths: tuple[str, ...], explain: str | None, timeline: bool, lang: str, as_json: bool) -> int:
    """From logs, dumps, counters and traces to the cause, the evidence and the fix.

    Give files, folders, support bundles (.tar.gz, .zip), or nothing to read standard input. Kinds are
    recognised by content. Exit code 0 nothing wrong, 1 a cause found, 3 a symptom with a shortlist.
    """
    from assay import __version__
    from assay.api.doctoring import doctor as examine
    from assay.catalog.messages import Texts
    from assay.doctor.timeline import timeline as merged
    from assay.report import diagnosis as shown

    texts = Texts(lang)
    if explain:
        click.echo(shown.explained(explain, texts), nl=False)
        return 0
    diagnosis = examine(paths)
    if as_json:
        click.echo(
            json.dumps(
                shown.answer(diagnosis, texts, assay_version=__version__), indent=1, ensure_ascii=False
            )
        )
        return diagnosis.verdict.exit_code
    click.echo(shown.plain_text(diagnosis, texts), nl=False)
    if timeline:
        click.echo("\n" + shown.story(merged(diagnosis.facts)), nl=False)
    return diagnosis.verdict.exit_code
