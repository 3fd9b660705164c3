"""`assay plan`: which layout, which platform, how many GPUs, what it costs, how to grow, and at what risk."""

from __future__ import annotations

import click

from assay.app.groups import Commands, LazyGroup

COMMANDS: Commands = {
    "layout": ("assay.app.plan.layout", "layout", "The best layouts of a job on a cluster, and their flags."),
    "compare": ("assay.app.plan.compare", "compare", "Platforms for the same training run, all fees named."),
    "size": ("assay.app.plan.size", "size", "How many GPUs of which kind meet a deadline and a budget."),
    "growth": (
        "assay.app.plan.growth",
        "growth",
        "From a few servers to many: fabric, materials, re-cabling, scaling.",
    ),
    "risk": ("assay.app.plan.risk", "risk", "Failures, checkpoint interval, spares, goodput, time lost."),
    "sweep": ("assay.app.plan.sweep", "sweep", "A grid of clusters, workloads and layouts into a table."),
}


@click.group(cls=LazyGroup, lazily=COMMANDS)
def plan() -> None:
    """Plan a training run: layout, platform, size, growth, risk, and grids of all of them.

    Prices are those of the shipped catalogue, dated, or of your own file; nothing is fetched.
    """
