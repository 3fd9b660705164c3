"""`assay measure`."""

from __future__ import annotations

import time
from typing import Any

import click

from assay.app.launched import launched, measure_options, this_job
from assay.app.options import json_option, measuring
from assay.app.say import say_json


@click.command()
@measuring
@launched
@json_option
def measure(as_json: bool, strict_exit: bool, **asked: Any) -> int:
    """Run the benchmarks and write a run folder, to be judged now or later."""
    began_s = time.time()
    from assay import api
    from assay.app.progress import RunProgress
    from assay.codec.answer import headed

    job = this_job(asked)
    if job and job.rank:
        return api.attend(job, out=asked["resume"] or asked["out"], wait_s=asked["wait_s"])
    options = measure_options(asked, job=job, began_s=began_s)
    with RunProgress() as progress:
        folder = api.measure(options, watcher=progress)
    if as_json:
        say_json(headed("measure") | {"run": str(folder)})
    else:
        click.echo(f"{folder}\nto judge it: assay judge {folder}")
    return 0
