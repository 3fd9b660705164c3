"""`assay watch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.app.options import json_option, lang_option
from assay.app.say import say_json
from assay.errors import EXIT_NO, EXIT_OK
from assay.units import parse

if TYPE_CHECKING:
    from assay.catalog.messages import Texts
    from assay.domain.incident import Change
    from assay.watch.interval import Habit


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]…")
@click.option("--job", "mode", flag_value="job", help="Follow the logs of a running job: PATHs or folders.")
@click.option("--node", "mode", flag_value="node", help="Run as this node's exporter for Prometheus.")
@click.option("--cluster", "mode", flag_value="cluster", help="Watch a cluster; PATH is assay-watch.yaml.")
@click.option("--replay", "mode", flag_value="replay", help="Run over recorded events; PATHs are JSON lines.")
@click.option(
    "--supervise", "mode", flag_value="supervise", help="Run a job, restart it without nodes that fail."
)
@click.option("--rules", "mode", flag_value="rules", help="Write Prometheus alerting rules, and end.")
@click.option("--dashboard", "mode", flag_value="dashboard", help="Write a Grafana dashboard, and end.")
@click.option(
    "--ledger",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the books are kept.  [default: assay-ledger.jsonl; none for --replay]",
)
@click.option(
    "--pattern", metavar="REGEX", help="--job: how a step is logged, with (?P<step>…), (?P<loss>…)."
)
@click.option("--from-start", is_flag=True, help="--job: also read what the logs hold already.")
@click.option(
    "--storage",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="--job, --node: probe the latency of this folder.",
)
@click.option("--slurm", metavar="JOBID", help="--job: follow this Slurm job and its nodes too.")
@click.option(
    "--clock-log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="--job, --node: the log of ptp4l on this node.",
)
@click.option(
    "--textfile",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="--job: keep metrics of the job here, for node_exporter's textfile collector.",
)
@click.option("--for", "for_", metavar="TIME", help="Stop after this time, as '10 min'.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="--node: the address to listen on.")
@click.option("--port", type=int, default=9466, show_default=True, help="--node: the port to listen on.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="--node: answer only who sends this bearer token.",
)
@click.option("--peers", metavar="H=ADDR,…", help="--node: probe these nodes, this one among them.")
@click.option("--peer-port", type=int, default=9467, show_default=True, help="--node: port of the probes.")
@click.option("--host", help="--node: the name of this node.  [default: its host name]")
@click.option("--own-network", is_flag=True, help="--node: only ranks of this network namespace.")
@lang_option
@json_option
def watch(
    paths: tuple[Path, ...],
    mode: str | None,
    ledger: Path | None,
    pattern: str | None,
    from_start: bool,
    storage: Path | None,
    slurm: str | None,
    clock_log: Path | None,
    textfile: Path | None,
    for_: str | None,
    bind: str,
    port: int,
    token_file: Path | None,
    peers: str | None,
    peer_port: int,
    host: str | None,
    own_network: bool,
    lang: str,
    as_json: bool,
) -> int:
    """Is it still what we qualified? Notices within seconds, keeps the books, says what to do.

    Changes are printed as they come (with --json one object a line); --replay prints the incidents. Exit
    code 0 no incident, 1 there was one.
    """
    from assay.catalog.messages import Texts
    from assay.codec.text_file import read_text

    texts = Texts(lang)
    for_s = parse(for_, unit="s", where="--for").value if for_ else None
    if mode == "replay":
        return _replay(paths, ledger, texts, as_json)
    if mode in ("rules", "dashboard"):
        return _written(mode, texts)
    if mode == "node":
        token = read_text(token_file).strip() if token_file else None
        return _export(
            bind=bind, port=port, token=token, storage=storage, peers=_peers(peers), peer_port=peer_port,
            host=host, own_network=own_network, clock_log=clock_log,
        )  # fmt: skip
    tell = _teller(texts, as_json)
    if mode == "supervise":
        return _supervise(paths, tell, for_s)
    if mode == "job":
        from assay.api.following import follow_job

        done = follow_job(
            [str(path) for path in paths], tell, ledger=ledger or Path("assay-ledger.jsonl"), pattern=pattern,
            storage=storage, from_start=from_start, for_s=for_s, slurm=slurm, clock_log=clock_log,
            textfile=textfile, advise=_adviser(texts, as_json),
        )  # fmt: skip
    elif mode == "cluster":
        from assay.api.acting import actor
        from assay.api.following import follow_cluster
        from assay.codec.watching import load_watch

        if len(paths) != 1:
            raise click.UsageError("--cluster takes one file, assay-watch.yaml")
        plan = load_watch(paths[0])
        done = follow_cluster(plan, tell, ledger=ledger, for_s=for_s, act=actor(plan, texts))
    else:
        raise click.UsageError("say what to watch: --job, --node, --cluster or --replay")
    return EXIT_NO if done.incidents else EXIT_OK


def _supervise(paths: tuple[Path, ...], tell: Callable[[Change], None], for_s: float | None) -> int:
    from assay.api.recovering import supervise
    from assay.codec.watching import load_recovery

    if len(paths) != 1:
        raise click.UsageError("--supervise takes one file that describes the job")
    ended = supervise(load_recovery(paths[0]), tell, lambda text: click.echo(text, err=True), for_s=for_s)
    return EXIT_OK if ended else EXIT_NO


def _replay(paths: tuple[Path, ...], ledger: Path | None, texts: Texts, as_json: bool) -> int:
    from assay import __version__
    from assay.api.watching import replay
    from assay.report import incidents as shown

    done = replay(paths, ledger=ledger)
    if as_json:
        told = shown.answer(
            "watch",
            assay_version=__version__,
            incidents=[shown.incident_object(one, texts) for one in done.incidents],
            spent=shown.spent_object(done.spent),
            duplicates=done.order.duplicates,
            late=done.order.late,
        )
        say_json(told)
    else:
        click.echo(shown.plain_incidents(done.incidents, texts, spent=done.spent), nl=False)
    return EXIT_NO if done.incidents else EXIT_OK


def _written(mode: str, texts: Texts) -> int:
    """Rules as YAML, a dashboard as JSON: both are what the other program wants."""
    from assay.codec.document import write_yaml
    from assay.watch.dashboard import dashboard
    from assay.watch.rules import rules_file
    from assay.watch.settings import Settings

    if mode == "rules":
        click.echo(write_yaml(rules_file(Settings(), texts)), nl=False)
    else:
        say_json(dashboard())
    return EXIT_OK


def _export(**options: Any) -> int:
    from assay.api.following import export

    exporter = export(**options)
    click.echo(f"metrics on http://{options['bind']}:{exporter.port}/metrics", err=True)
    exporter.serve()
    return EXIT_OK


def _peers(text: str | None) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()] if text else []
    for name, _, address in pairs:
        if not name.strip() or not address.strip():
            raise click.BadParameter(f"{text!r}; write h0=10.0.0.10,h1=10.0.0.11", param_hint="--peers")
    return {name.strip(): address.strip() for name, _, address in pairs}


def _teller(texts: Texts, as_json: bool) -> Callable[[Change], None]:
    """One line a change, at once."""
    from assay import __version__
    from assay.report import incidents as shown

    def tell(change: Change) -> None:
        if as_json:
            told = shown.answer(
                "watch",
                assay_version=__version__,
                step=change.step.value,
                time_s=change.time_s,
                incident=shown.incident_object(change.incident, texts),
            )
            line = json.dumps(told, ensure_ascii=False)
        else:
            line = shown.change_line(change, texts)
        click.echo(line)
        sys.stdout.flush()

    return tell


def _adviser(texts: Texts, as_json: bool) -> Callable[[Habit], None]:
    """One line when the interval between checkpoints that the measured times ask for has changed."""
    from assay import __version__
    from assay.report import incidents as shown

    def advise(habit: Habit) -> None:
        if as_json:
            told = shown.answer(
                "watch", assay_version=__version__, step="interval", interval=shown.habit_object(habit)
            )
            line = json.dumps(told, ensure_ascii=False)
        else:
            line = shown.habit_line(habit, texts)
        click.echo(line)
        sys.stdout.flush()

    return advise
