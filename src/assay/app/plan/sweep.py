"""`assay plan sweep`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.app.options import json_option
from assay.app.plan.options import progress_bar
from assay.app.say import say, say_json


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rows as .csv or .parquet; finished pieces lie in FILE.parts, so that a stopped sweep goes on.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Processes here.  [default: one a core]"
)
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler instead: tcp://host:8786.")
@click.option(
    "--piece", type=click.IntRange(min=1), default=4, show_default=True, help="Points of one piece of work."
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language.")
@json_option
def sweep(
    file: Path, out: Path, workers: int | None, scheduler: str | None, piece: int, lang: str, as_json: bool
) -> int:
    """Any grid of clusters, workloads, layouts and assumptions, one row for each combination.

    A point that has no answer is a row with its reason. A worker that dies loses nothing: its piece is done
    again.
    """
    from assay.api.sweeping import sweep as do_sweep
    from assay.catalog.messages import Texts
    from assay.codec.answer import headed
    from assay.domain.message import Message

    with progress_bar("points") as progress:
        done = do_sweep(file, out, workers=workers, scheduler=scheduler, piece=piece, progress=progress)
    if as_json:
        answer = {
            **headed("plan sweep"),
            "file": str(done.file),
            "rows": done.rows,
            "errors": done.errors,
            "done_before": done.done_before,
            "workers_lost": done.workers_lost,
        }
        say_json(answer)
        return 0
    message = Message.of(
        "plan.sweep.done",
        rows=done.rows,
        text=str(done.file),
        errors=done.errors,
        before=done.done_before,
        lost=done.workers_lost,
    )
    say(Texts(lang).say(message))
    return 0
