"""`assay plan growth`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from assay.app.answers import show_answer
from assay.app.plan.options import job_of, job_options, progress_bar, shown_options


@click.command()
@click.option("--cluster", required=True, metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option(
    "--from", "first", type=click.IntRange(min=1), default=4, show_default=True, help="Nodes at first."
)
@click.option(
    "--to", "last", type=click.IntRange(min=1), default=128, show_default=True, help="Nodes at the end."
)
@click.option(
    "--stages", default="", metavar="4,16,64", help="Just these numbers of nodes.  [default: doublings]"
)
@job_options
@shown_options
def growth(
    cluster: str, first: int, last: int, stages: str, lang: str, html: Path | None, as_json: bool, **said: Any
) -> int:
    """Stages from a few servers to a large cluster: topology, bill of materials, what is re-cabled, scaling.

    Ports that management keeps are counted apart; sizes of public reference architectures are named as such.
    """
    from assay.api.planning import plan_growth, stage_sizes
    from assay.report.plan.growth import answer, page

    sizes = stage_sizes(first, last, stages)
    with progress_bar("stages") as progress:
        done = plan_growth(cluster, sizes, job_of(said), progress=progress)
    show_answer(
        lambda texts: answer(done, texts),
        lambda texts: page(done, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0
