"""`assay qualify`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.app.launched import launched, measure_options, this_job
from assay.app.options import json_option, judging, measuring
from assay.app.say import say_json

if TYPE_CHECKING:
    from assay.codec.claims import Claims
    from assay.domain.criterion import Profile


@click.command()
@measuring
@launched
@judging
@click.option(
    "--until-decided", is_flag=True, help="Add restarts while a criterion is undecided, without peeking bias."
)
@click.option(
    "--annex",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The annex that was signed: its criteria, promises and restarts; the run records its digest.",
)
@json_option
def qualify(
    profile: str | Profile | None,
    claims: Path | Claims | None,
    lang: str,
    until_decided: bool,
    annex: Path | None,
    as_json: bool,
    strict_exit: bool,
    **asked: Any,
) -> int:
    """Measure this machine, judge it, and write a report.

    Without a profile the machine is held against itself: siblings must be alike and none may be missing.
    Exit code 0 pass, 1 fail, 3 undecided or not measured.
    """
    began_s = time.time()
    from assay import api
    from assay.api.annexing import signed
    from assay.app.progress import RunProgress
    from assay.report.terminal import print_report

    digest = None
    if annex:
        if profile or claims:
            raise click.UsageError(
                "the annex has the criteria and the promises: leave --profile and --claims out"
            )
        terms = signed(annex)[0]
        profile, claims, digest = terms.profile, terms.claims, terms.digest
        asked["restarts"] = asked["restarts"] or terms.restarts
    job = this_job(asked)
    if job and job.rank:
        out, wait_s = asked["resume"] or asked["out"], asked["wait_s"]
        return api.attend(job, out=out, wait_s=wait_s, profile=profile, claims=claims, lang=lang)
    options = dataclasses.replace(measure_options(asked, job=job, began_s=began_s), annex=digest)
    with RunProgress() as progress:
        judged = api.qualify(
            options,
            profile=profile,
            claims=claims,
            lang=lang,
            until_decided=until_decided,
            watcher=progress,
        )
    if as_json:
        say_json(judged.answer("qualify"))
    else:
        print_report(judged.data)
    return judged.exit_code if strict_exit or not job else 0
