"""`assay plan risk`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from assay.app.answers import show_answer
from assay.app.plan.options import job_of, job_options, progress_bar, shown_options


@click.command()
@click.option("--cluster", required=True, metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of it.  [default: all]")
@job_options
@click.option("--days", type=float, help="Length of the run.  [default: what the tokens take]")
@click.option("--fleet", metavar="NAME", help="Whose published failure rate: llama-3, meta-rsc-1, …")
@click.option(
    "--save", metavar="TIME", help="What a checkpoint blocks training.  [default: by storage and layout]"
)
@click.option("--interval", metavar="TIME", help="Work between checkpoints.  [default: the best]")
@click.option(
    "--repair", default="24 h", show_default=True, metavar="TIME", help="Until a failed node is back."
)
@click.option(
    "--detect", default="2 min", show_default=True, metavar="TIME", help="Restart: until a failure is seen."
)
@click.option(
    "--drain", default="30 s", show_default=True, metavar="TIME", help="Restart: until the job is down."
)
@click.option(
    "--reschedule", default="2 min", show_default=True, metavar="TIME", help="Restart: until nodes are there."
)
@click.option(
    "--load",
    default="2 min",
    show_default=True,
    metavar="TIME",
    help="Restart: start-up beside reading weights.",
)
@click.option("--storage", default="better", show_default=True, metavar="CLASS", help="good, better or best.")
@click.option("--blocking", is_flag=True, help="Checkpoints are written while training waits.")
@click.option("--runs", type=click.IntRange(1, 10000), default=40, show_default=True, help="Simulated lives.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the simulation.")
@shown_options
def risk(
    cluster: str,
    nodes: int | None,
    days: float | None,
    fleet: str | None,
    save: str | None,
    interval: str | None,
    repair: str,
    detect: str,
    drain: str,
    reschedule: str,
    load: str,
    storage: str,
    blocking: bool,
    runs: int,
    seed: int,
    lang: str,
    html: Path | None,
    as_json: bool,
    **said: Any,
) -> int:
    """Failures, the checkpoint interval, spares, goodput and time lost, with ranges from published fleets.

    The interval by Young, by availability, and the best of the simulation stand side by side; infant
    mortality, lemon nodes, correlated faults, missing spares and elastic jobs are simulated each alone.
    """
    from assay.api.planning import RiskOptions, plan_risk
    from assay.plan.reliability import Restart
    from assay.report.plan.risk import answer, page
    from assay.units import parse

    def seconds(text: str) -> float:
        return parse(text, unit="s").value

    options = RiskOptions(
        fleet=fleet,
        save_s=None if save is None else seconds(save),
        interval_s=None if interval is None else seconds(interval),
        days=days,
        repair_s=seconds(repair),
        restart=Restart(
            detect_s=seconds(detect),
            drain_s=seconds(drain),
            reschedule_s=seconds(reschedule),
            load_s=seconds(load),
        ),
        storage=storage,
        asynchronous=not blocking,
        runs=runs,
        seed=seed,
    )
    job = job_of(said)
    with progress_bar("simulated cases") as progress:
        done = plan_risk(cluster, nodes, job, options, progress=progress)
    show_answer(
        lambda texts: answer(done, texts),
        lambda texts: page(done, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0
