"""What `qualify` and `measure` share where a launcher started many of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def launched(command: Command) -> Command:
    """How to behave in a job of torchrun, srun or mpirun."""
    for option in (
        click.option(
            "--strict-exit",
            is_flag=True,
            help="In a job, end with the verdict's exit code; otherwise 0 once a verdict is written.",
        ),
        click.option(
            "--wait",
            "wait_s",
            type=click.FloatRange(min=1),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="In a job, how long to wait for its ranks before going on without them.",
        ),
    ):
        command = option(command)
    return command
