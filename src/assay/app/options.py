"""Options that several commands share, so that each is written and explained once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from assay.units import parse

Command = TypeVar("Command", bound=Callable[..., Any])


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else None


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration with its unit."""
    return None if value is None else parse(value, unit="s", where=param.opts[0]).value


def measuring(command: Command) -> Command:
    """What to measure and where to put it."""
    for option in (
        click.option(
            "--resume",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            metavar="RUN",
            help="Go on with a run that was stopped.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder of the run; it must not hold anything.  [default: runs/<time>]",
        ),
        click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random data."),
        click.option("--only", callback=_names, metavar="NAMES", help="Only these benchmarks: gemm,clock,…"),
        click.option(
            "--budget",
            "budget_s",
            callback=seconds,
            metavar="TIME",
            help="Print the schedule first, and leave out what would not end within this time: 48h, 30min.",
        ),
        click.option(
            "--restarts",
            type=click.IntRange(min=1),
            metavar="N",
            help="Process restarts of each benchmark.  [default: as many as the suite has]",
        ),
        click.option(
            "--for",
            "soak_s",
            callback=seconds,
            metavar="TIME",
            help="How long the soak suite takes: 48h.  [default: 8h]",
        ),
        click.option(
            "--suite",
            type=click.Choice(["quick", "standard", "full", "soak"]),
            default="standard",
            show_default=True,
            help="How much to measure: 3, 5 or 7 process restarts; or one mixed load for a time.",
        ),
        click.option(
            "--ranks", type=int, metavar="N", help="Ranks on this machine.  [default: one per GPU, else 2]"
        ),
    ):
        command = option(command)
    return command


def language_option(of: str) -> Callable[[Command], Command]:
    """In which language the answer is."""
    languages = click.Choice(["en", "zh"])
    return click.option(
        "--lang", type=languages, default="en", show_default=True, help=f"Language of the {of}."
    )


def judging(command: Command) -> Command:
    """By what to judge."""
    for option in (
        language_option("report"),
        click.option(
            "--claims",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Promises to set beside the measurements (YAML).",
        ),
        click.option(
            "--profile",
            metavar="NAME|FILE",
            help="Criteria: a shipped profile ('assay catalog profiles') or a file.  "
            "[default: that of the GPUs found, else self]",
        ),
    ):
        command = option(command)
    return command


def failing(command: Command) -> Command:
    """What is wrong with the fabric or a GPU."""
    for option in (
        click.option(
            "--repeat",
            metavar="HOW",
            help="How lost packets are repeated: lossless, go-back-n, selective, reno, cubic, bbr.",
        ),
        click.option("--ecmp", is_flag=True, help="Flows are hashed onto paths, and collide."),
        click.option(
            "--loss", type=float, default=0.0, metavar="P", help="Part of packets that is lost: 1e-4."
        ),
        click.option(
            "--degrade", multiple=True, metavar="WHAT@PART", help="Slower: link:leaf3-spine1@0.5; repeat it."
        ),
        click.option(
            "--fail",
            multiple=True,
            metavar="WHAT",
            help="Broken: link:leaf3-spine1, switch:spine2, rail:4, nic:node07/mlx5_3, gpu:node89/1@0.8; "
            "repeat it.",
        ),
    ):
        command = option(command)
    return command


def page_options(command: Command) -> Command:
    """Where to write the answer as a page, and in which language."""
    for option in (
        language_option("page"),
        click.option(
            "--html",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write the answer as one HTML file.",
        ),
    ):
        command = option(command)
    return command


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."
)

lang_option = click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the answer."
)

ledger_option = click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("assay-ledger.jsonl"),
    show_default=True,
    metavar="FILE",
    help="The ledger that assay watch writes.",
)


def default_folder() -> Path:
    """A new folder under `runs/`, named by the time."""
    return Path("runs") / time.strftime("%Y%m%dT%H%M%S")
