"""`assay plan layout`."""

from __future__ import annotations

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
@click.option("--cluster", required=True, metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of it.  [default: all]")
@job_options
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="Layouts to rank.")
@click.option(
    "--offer", metavar="ID", help="The offer that the bills are for.  [default: the system's cheapest]"
)
@money_options
@shown_options
def layout(
    cluster: str,
    nodes: int | None,
    count: int,
    offer: str | None,
    lang: str,
    html: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """The best parallel layouts: tp, pp, vpp, dp, cp, ep, sharding, recomputation, micro-batch, precision.

    Ranked by tokens a second, each explained in a line, with the Pareto front of speed against memory and the
    flags of Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed and FSDP. A degree in --layout is kept as it
    is.
    """
    from assay.api.pricing import plan_layouts
    from assay.report.plan.layout import answer, page

    job = job_of(said)
    with progress_bar("layouts") as progress:
        done = plan_layouts(cluster, nodes, job, money_of(said), count=count, offer=offer, progress=progress)
    show_answer(
        lambda texts: answer(done, texts),
        lambda texts: page(done, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0
