"""What `qualify` and `measure` share where a launcher started many of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from assay.app.options import default_folder

if TYPE_CHECKING:
    from assay.api.measuring import MeasureOptions
    from assay.measure.launchers.job import Job

Command = TypeVar("Command", bound=Callable[..., Any])


def launched(command: Command) -> Command:
    """Over several machines: in a job of torchrun, srun or mpirun, or over ssh."""
    for option in (
        click.option(
            "--strict-exit",
            is_flag=True,
            help="In a job, end with the verdict's exit code; otherwise 0 once a verdict is written.",
        ),
        click.option(
            "--ssh",
            metavar="COMMAND",
            help="With --hosts, what runs a command on {host}.  [default: ssh in batch mode]",
        ),
        click.option(
            "--hosts",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Measure these hosts over ssh: one a line, with its address where ssh has another name, "
            "and the leaf switch above it where that is known.",
        ),
        click.option(
            "--topology",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Slurm's topology.conf: which nodes are below one leaf switch.",
        ),
        click.option(
            "--wait",
            "wait_s",
            type=click.FloatRange(min=1),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait for the ranks of a job, or for hosts, before going on without them.",
        ),
    ):
        command = option(command)
    return command


def this_job(asked: Mapping[str, Any]) -> Job | None:
    """This process's place in a launcher's job, with what was asked checked against it."""
    from assay import api

    if asked["resume"] and asked["out"]:
        raise click.UsageError("--resume goes on in the folder of its run, so --out cannot be given with it")
    if asked["soak_s"] is not None and asked["suite"] != "soak":
        raise click.UsageError("--for says how long a soak takes; give --suite soak with it")
    job = api.this_job()
    for name in ("ranks", "hosts"):
        if job and asked[name] is not None:
            raise click.UsageError(
                f"--{name} cannot be given in a job: {job.launcher} has started {job.world}"
            )
    return job


def measure_options(asked: Mapping[str, Any], *, job: Job | None, began_s: float) -> MeasureOptions:
    """What the options of `measuring` and `launched` ask for."""
    from assay import api

    same = ("ranks", "suite", "restarts", "budget_s", "soak_s", "only", "seed")
    across = ("hosts", "topology", "ssh", "wait_s")
    return api.MeasureOptions(
        out=asked["resume"] or asked["out"] or default_folder(),
        resume=asked["resume"] is not None,
        command=("assay", *sys.argv[1:]),
        command_time_s=began_s,
        job=job,
        **{name: asked[name] for name in (*same, *across)},
    )
