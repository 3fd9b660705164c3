"""`assay watch`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from assay.app.options import json_option, lang_option
from assay.errors import EXIT_NO, EXIT_OK


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]…")
@click.option("--job", "mode", flag_value="job", help="Follow the logs of a running job: PATHs or folders.")
@click.option("--node", "mode", flag_value="node", help="Run as this node's exporter for Prometheus.")
@click.option("--cluster", "mode", flag_value="cluster", help="Watch a cluster; PATH is assay-watch.yaml.")
@click.option("--replay", "mode", flag_value="replay", help="Run over recorded events; PATHs are JSON lines.")
@click.option("--rules", "mode", flag_value="rules", help="Write Prometheus alerting rules, and end.")
@click.option("--dashboard", "mode", flag_value="dashboard", help="Write a Grafana dashboard, and end.")
@click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the books are kept.  [default: assay-ledger.jsonl; none for --replay]",
)
@lang_option
@json_option
def watch(
    paths: tuple[Path, ...],
    mode: str | None,
    ledger: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Is it still what we qualified? Notices within seconds, keeps the books, says what to do."""
    from assay import __version__
    from assay.api import watching
    from assay.catalog.messages import Texts
    from assay.report import incidents as shown

    texts = Texts(lang)
    if mode == "replay":
        done = watching.replay(paths, ledger=ledger)
        if as_json:
            told = shown.answer(
                "watch",
                assay_version=__version__,
                incidents=[shown.incident_object(one, texts) for one in done.incidents],
                spent=shown.spent_object(done.spent),
                duplicates=done.order.duplicates,
                late=done.order.late,
            )
            click.echo(json.dumps(told, indent=1, ensure_ascii=False))
        else:
            click.echo(shown.plain_incidents(done.incidents, texts, spent=done.spent), nl=False)
        return EXIT_NO if done.incidents else EXIT_OK
    raise click.UsageError("say what to watch: --job, --node, --cluster or --replay")
