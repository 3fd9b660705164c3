"""`assay plan size`."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

from assay.app.answers import show_answer
from assay.app.plan.options import (
    job_of,
    job_options,
    money_of,
    money_options,
    progress_bar,
    shown_options,
)


@click.command()
@job_options
@click.option("--deadline", metavar="21d|DATE", help="When it must be done: days from now, or 2027-03-31.")
@click.option("--budget", metavar="AMOUNT", help="What it may cost, in --currency.")
@click.option(
    "--most-gpus", type=click.IntRange(min=1), default=16384, show_default=True, help="Sizes end here."
)
@click.option(
    "--need", default="lab", show_default=True, metavar="enterprise|lab|trial", help="Whose defaults."
)
@click.option("--storage", metavar="CLASS", help="good, better or best.  [default: the need's]")
@click.option("--fleet", metavar="NAME", help="Whose published failure rate: llama-3, meta-rsc-1, …")
@money_options
@shown_options
def size(
    deadline: str | None,
    budget: str | None,
    most_gpus: int,
    need: str,
    storage: str | None,
    fleet: str | None,
    lang: str,
    html: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """How many GPUs of which kind meet a deadline and a budget: the fewest nodes of each offer that do.

    Of the shipped catalogue only the cheapest offer of each system is sized. Exit code 1 where nothing meets
    it.
    """
    from assay.api.pricing import plan_size
    from assay.report.plan.size import size_answer, size_page

    job = job_of(said)
    with progress_bar("offers") as progress:
        done, terms = plan_size(
            job,
            money_of(said),
            reader=need,
            deadline=deadline,
            budget=budget,
            most_gpus=most_gpus,
            today=datetime.date.today(),
            storage=storage,
            fleet=fleet,
            progress=progress,
        )
    show_answer(
        lambda texts: size_answer(done, terms, texts),
        lambda texts: size_page(done, terms, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0 if done.best is not None else 1
