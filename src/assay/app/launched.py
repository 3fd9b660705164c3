"""What `qualify` and `measure` share where a launcher started many of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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
            help="Measure these hosts over ssh: one a line, with its address where ssh has another name.",
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
