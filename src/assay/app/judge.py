"""`assay judge`."""

from __future__ import annotations

import gc
from pathlib import Path

import click

from assay.app.options import json_option, judging
from assay.app.say import say_json


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="RUN|FILE…"
)
@judging
@click.option("--partial", is_flag=True, help="Accept a run whose last line was cut off.")
@click.option("--collective", metavar="OP", help="What an nccl-tests file ran, where it does not say so.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report as one HTML file.",
)
@json_option
def judge(
    paths: tuple[Path, ...],
    profile: str | None,
    claims: Path | None,
    lang: str,
    partial: bool,
    collective: str | None,
    html: Path | None,
    as_json: bool,
) -> int:
    """Judge a recorded run again, or results that other tools made.

    A RUN is a folder that assay wrote; a run over several machines may have one on each, and all are given
    together. A FILE is recognised by its content: nccl-tests text or JSON, fio
    JSON, nvbandwidth text or JSON, perftest text, or a CSV of matrix multiplications. Several files of one
    benchmark are its restarts. Exit code 0 pass, 1 fail, 3 undecided or not measured.
    """
    # A large run is records that live until the process ends, without cycles: walking them takes a third
    # of the time.
    gc.disable()
    from assay import api
    from assay.api.reporting import write_page
    from assay.report.terminal import print_report

    judged = api.judge(
        paths, profile=profile, claims=claims, partial=partial, collective=collective, lang=lang
    )
    if html:
        judged = write_page(judged, html, command="judge")
    if as_json:
        say_json(judged.answer("judge"))
    else:
        print_report(judged.data)
    return judged.exit_code
