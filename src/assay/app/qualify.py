"""`assay qualify`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from assay.app.launched import launched
from assay.app.options import default_folder, json_option, judging, measuring


@click.command()
@measuring
@launched
@judging
@click.option(
    "--until-decided", is_flag=True, help="Add restarts while a criterion is undecided, without peeking bias."
)
@json_option
def qualify(
    ranks: int | None,
    suite: str,
    only: tuple[str, ...] | None,
    seed: int,
    out: Path | None,
    resume: Path | None,
    wait_s: float,
    hosts: Path | None,
    ssh: str | None,
    strict_exit: bool,
    profile: str | None,
    claims: Path | None,
    lang: str,
    until_decided: bool,
    as_json: bool,
) -> int:
    """Measure this machine, judge it, and write a report.

    Without a profile the machine is held against itself: siblings must be alike and none may be missing.
    Exit code 0 pass, 1 fail, 3 undecided or not measured.
    """
    began_s = time.time()
    from assay import api
    from assay.app.progress import RunProgress
    from assay.report.terminal import print_report

    if resume and out:
        raise click.UsageError("--resume goes on in the folder of its run, so --out cannot be given with it")
    job = api.this_job()
    if job and ranks is not None:
        raise click.UsageError(f"--ranks cannot be given in a job: {job.launcher} has started {job.world}")
    if job and hosts:
        raise click.UsageError(f"--hosts cannot be given in a job: {job.launcher} has started {job.world}")
    if job and job.rank:
        return api.attend(job, out=resume or out, wait_s=wait_s, profile=profile, claims=claims, lang=lang)
    options = api.MeasureOptions(
        out=resume or out or default_folder(),
        ranks=ranks,
        suite=suite,
        only=only,
        seed=seed,
        resume=resume is not None,
        command=("assay", *sys.argv[1:]),
        command_time_s=began_s,
        job=job,
        hosts=hosts,
        ssh=ssh,
        wait_s=wait_s,
    )
    with RunProgress() as progress:
        judged = api.qualify(
            options, profile=profile, claims=claims, lang=lang, until_decided=until_decided, watcher=progress
        )
    if as_json:
        click.echo(json.dumps(judged.answer("qualify"), indent=1, ensure_ascii=False))
    else:
        print_report(judged.data)
    return judged.exit_code if strict_exit or not job else 0
