"""`assay plan compare`."""

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
@money_options
@click.option(
    "--need",
    default="lab",
    show_default=True,
    metavar="enterprise|lab|trial",
    help="Whose defaults: GPUs, tokens, storage, and which offers are in question.",
)
@click.option(
    "--gpus", type=click.IntRange(min=1), metavar="N", help="GPUs of the run.  [default: the need's]"
)
@click.option("--storage", metavar="CLASS", help="good, better or best.  [default: the need's]")
@click.option(
    "--standard",
    default="rental-guide",
    show_default=True,
    metavar="PROFILE",
    help="What promises must meet.",
)
@click.option("--fleet", metavar="NAME", help="Whose published failure rate: llama-3, meta-rsc-1, …")
@shown_options
def compare(
    need: str,
    gpus: int | None,
    storage: str | None,
    standard: str,
    fleet: str | None,
    lang: str,
    html: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Platforms side by side for the same training run: days, utilisation, speed-up, goodput and the whole
    bill.

    Every fee is a line, named or said to be unnamed. Exit code 1 where no offer can be recommended.
    """
    from assay.api.pricing import compare as compare_offers
    from assay.report.plan.compare import compare_answer, compare_page

    job = job_of(said)
    with progress_bar("offers") as progress:
        done = compare_offers(
            job,
            money_of(said),
            reader=need,
            gpus=gpus,
            storage=storage,
            standard=standard,
            fleet=fleet,
            today=datetime.date.today(),
            progress=progress,
        )
    show_answer(
        lambda texts: compare_answer(done, texts),
        lambda texts: compare_page(done, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0 if any(one.bill is not None for one in done.platforms) else 1
