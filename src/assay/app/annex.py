"""`assay annex`."""

from __future__ import annotations

from pathlib import Path

import click

from assay.app.options import json_option
from assay.app.say import say, say_json


@click.command()
@click.option(
    "--profile",
    required=True,
    metavar="NAME|FILE",
    help="Criteria: a shipped profile or a file, as in judge.",
)
@click.option(
    "--claims",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The vendor's promises (YAML).",
)
@click.option("--workload", default="", metavar="TEXT", help="What the cluster is bought for.")
@click.option("--restarts", type=int, default=5, show_default=True, help="Process restarts of each clause.")
@click.option("--retest-days", type=int, default=5, show_default=True, help="Days to ask for a retest.")
@click.option("--remedy-days", type=int, default=10, show_default=True, help="Days to put right what failed.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the annex."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "html"]),
    default="md",
    show_default=True,
    help="Markdown or HTML.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it there, not to stdout.",
)
@json_option
def annex(
    profile: str,
    claims: Path,
    workload: str,
    restarts: int,
    retest_days: int,
    remedy_days: int,
    lang: str,
    form: str,
    out: Path | None,
    as_json: bool,
) -> int:
    """Write the acceptance annex that both sides sign before anything is measured.

    It holds a clause for every criterion of the profile: quantity, recipe, statistic, restarts, bound, who
    bears the doubt, retest and remedy, with what is claimed beside it. Its digest names the terms in either
    language; 'assay verify RUN --annex FILE' checks that a run followed them.
    """
    from assay.api.annexing import annex as write
    from assay.api.annexing import save
    from assay.codec.answer import headed

    terms, text = write(
        profile,
        claims,
        workload=workload,
        restarts=restarts,
        retest_days=retest_days,
        remedy_days=remedy_days,
        lang=lang,
        html=form == "html",
    )
    if out:
        save(out, text)
    if as_json:
        answer = headed("annex") | {
            "digest": terms.digest,
            "profile": terms.profile.name,
            "clauses": len(terms.profile.criteria),
            "out": str(out) if out else None,
            "text": None if out else text,
        }
        say_json(answer)
    elif out:
        say(f"{out}  {terms.digest}")
    else:
        click.echo(text, nl=False)
    return 0
