"""`assay measure`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from assay import __version__
from assay.app.launched import launched
from assay.app.options import default_folder, json_option, measuring


@click.command()
@measuring
@launched
@json_option
def measure(
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
    as_json: bool,
) -> int:
    """Run the benchmarks and write a run folder, to be judged now or later."""
    began_s = time.time()
    from assay import api
    from assay.app.progress import RunProgress

    if resume and out:
        raise click.UsageError("--resume goes on in the folder of its run, so --out cannot be given with it")
    job = api.this_job()
    if job and ranks is not None:
        raise click.UsageError(f"--ranks cannot be given in a job: {job.launcher} has started {job.world}")
    if job and hosts:
        raise click.UsageError(f"--hosts cannot be given in a job: {job.launcher} has started {job.world}")
    if job and job.rank:
        return api.attend(job, out=resume or out, wait_s=wait_s)
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
        folder = api.measure(options, watcher=progress)
    if as_json:
        answer = {"schema_version": 1, "command": "measure", "assay_version": __version__, "run": str(folder)}
        click.echo(json.dumps(answer))
    else:
        click.echo(f"{folder}\nto judge it: assay judge {folder}")
    return 0
