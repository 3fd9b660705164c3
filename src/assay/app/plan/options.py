"""Options and endings that the commands of `assay plan` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from assay.api.planning import JobOptions, Progress
    from assay.api.pricing import MoneyOptions

Command = TypeVar("Command", bound=Callable[..., Any])


def job_options(command: Command) -> Command:
    """What is trained."""
    return _all(
        command,
        click.option(
            "--workload",
            required=True,
            metavar="NAME|FILE",
            help="A shipped model or job, a Hugging Face config.json, Megatron-LM arguments, or YAML.",
        ),
        click.option("--tokens", type=float, help="Tokens to be seen.  [default: 20 a weight]"),
        click.option(
            "--global-batch", type=int, metavar="N", help="Sequences of a step.  [default: 4M tokens]"
        ),
        click.option(
            "--seq-len", type=click.IntRange(min=1), help="Tokens of a sequence.  [default: the model's]"
        ),
        click.option(
            "--task", type=click.Choice(["pretrain", "sft", "lora"]), default="pretrain", show_default=True
        ),
        click.option("--stack", metavar="NAME", help="Framework: megatron, torchtitan, fsdp, deepspeed, …"),
        click.option(
            "--layout", default="", metavar="tp=8,…", help="Degrees that are fixed; the others are searched."
        ),
        click.option(
            "--precision",
            metavar="NAME",
            help="bf16, fp8-current, fp8-block, mxfp8, nvfp4, or any.",
        ),
        click.option(
            "--steps", type=float, help="Steps of a job of phases (a stencil, an FFT, a rendering)."
        ),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of such a job."
        ),
    )


def money_options(command: Command) -> Command:
    """Whose prices."""
    return _all(
        command,
        click.option(
            "--offers",
            multiple=True,
            default=("catalog",),
            show_default=True,
            metavar="FILE|catalog",
            help="Price lists: YAML, TOML, or CSV of gpuhunt or SkyPilot; may be said again.",
        ),
        click.option("--only", default="", metavar="ID,…", help="Only these offers."),
        click.option("--currency", default="USD", show_default=True, help="Currency of the answer."),
        click.option(
            "--rates",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Exchange rates with their date.  [default: shipped, USD and CNY]",
        ),
    )


def shown_options(command: Command) -> Command:
    """How the answer is shown."""
    return _all(
        command,
        click.option(
            "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language."
        ),
        click.option(
            "--html",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Write the answer as one HTML file that opens offline.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."),
    )


def _all(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def job_of(said: dict[str, Any]) -> JobOptions:
    """The job options among a command's values, taken out of them."""
    from assay.api.planning import JobOptions

    names = (
        *("workload", "tokens", "global_batch", "seq_len", "task", "stack"),
        *("layout", "precision", "steps", "settings"),
    )
    return JobOptions(**{name: said.pop(name) for name in names})


def money_of(said: dict[str, Any]) -> MoneyOptions:
    """The money options among a command's values, taken out of them."""
    from assay.api.pricing import MoneyOptions

    only = tuple(name.strip() for name in said.pop("only").split(",") if name.strip())
    return MoneyOptions(
        offers=tuple(said.pop("offers")),
        only=only,
        currency=said.pop("currency").strip().upper(),
        rates=said.pop("rates"),
    )


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A bar on stderr, on a terminal only; it leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn(what),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
