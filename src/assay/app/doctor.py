"""`assay doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.app.options import json_option
from assay.app.say import say_json, say_wrote


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE|FOLDER|ARCHIVE]…")
@click.option("--explain", metavar="CODE", help="Say what a finding code means, and end.")
@click.option(
    "--collect",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.tar.gz",
    help="Gather what this node can tell into a bundle, reading only, and end.",
)
@click.option("--mask", is_flag=True, help="With --collect: mask addresses, ids and secrets.")
@click.option("--live", is_flag=True, help="Ask the running job on this host, or on --hosts, reading only.")
@click.option(
    "--hosts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --live: a file of hosts, asked in parallel through ssh.",
)
@click.option(
    "--ssh",
    metavar="COMMAND",
    help="With --hosts, what runs a command on {host}.  [default: ssh in batch mode]",
)
@click.option("--job", metavar="ID", help="With --live: the hosts of this Slurm job.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the diagnosis as one HTML file that opens offline.",
)
@click.option("--timeline", is_flag=True, help="Show the merged story of the job across ranks.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the answer."
)
@json_option
def doctor(
    paths: tuple[str, ...],
    explain: str | None,
    collect: Path | None,
    mask: bool,
    live: bool,
    hosts: Path | None,
    ssh: str | None,
    job: str | None,
    html: Path | None,
    timeline: bool,
    lang: str,
    as_json: bool,
) -> int:
    """From logs, dumps, counters and traces to the cause, the evidence and the fix.

    Give files, folders, support bundles (.tar.gz, .zip), or nothing to read standard input. Kinds are
    recognised by content. Exit code 0 nothing wrong, 1 a cause found, 3 a symptom with a shortlist.
    """
    from assay import __version__
    from assay.api.collecting import SSH, write_bundle
    from assay.api.doctoring import doctor as examine
    from assay.api.doctoring import doctor_live
    from assay.catalog.messages import Texts
    from assay.doctor.timeline import timeline as merged
    from assay.report import diagnosis as shown

    texts = Texts(lang)
    if explain:
        click.echo(shown.explained(explain, texts), nl=False)
        return 0
    if collect:
        for command in write_bundle(collect, mask=mask):
            click.echo(f"ran {command}", err=True)
        say_wrote(collect)
        return 0
    if live:
        diagnosis = doctor_live(paths, hosts=hosts, job=job, ssh=ssh or SSH)
    else:
        diagnosis = examine(paths)
    if html:
        from assay.codec.text_file import write_text
        from assay.report.diagnosis_page import diagnosis_html

        write_text(html, diagnosis_html(diagnosis, texts, assay_version=__version__))
        say_wrote(html)
    if as_json:
        say_json(shown.answer(diagnosis, texts, assay_version=__version__))
        return diagnosis.verdict.exit_code
    click.echo(shown.plain_text(diagnosis, texts), nl=False)
    if timeline:
        click.echo("\n" + shown.story(merged(diagnosis.facts)), nl=False)
    return diagnosis.verdict.exit_code
