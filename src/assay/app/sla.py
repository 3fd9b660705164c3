"""`assay sla`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from assay.app.answers import write_page
from assay.app.options import json_option, ledger_option, page_options
from assay.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        given = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no time; write 2026-11-01 or 2026-11-01T08:30") from None
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


@click.command()
@ledger_option
@click.option("--from", "from_s", callback=_time, metavar="TIME", help="Begin of the window, in UTC.")
@click.option("--to", "to_s", callback=_time, metavar="TIME", help="End of the window.")
@click.option(
    "--contract",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The contract's terms (YAML).  [default: 99.9 % of node time]",
)
@page_options
@json_option
def sla(
    ledger: Path,
    from_s: float | None,
    to_s: float | None,
    contract: Path | None,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Was the promised service given? Availability, response times, goodput, credit, from the ledger.

    The window is all that was watched unless --from and --to say otherwise. Exit code 0 the promise was
    kept, 1 it was missed, 3 nothing was watched.
    """
    from assay import __version__
    from assay.api.watching import service_of
    from assay.catalog.messages import Texts
    from assay.report import incidents as shown
    from assay.report.service_page import service_page

    service, terms, habit = service_of(ledger, from_s=from_s, to_s=to_s, contract=contract)
    texts = Texts(lang)
    answer = shown.answer(
        "sla", assay_version=__version__, **shown.service_object(service, terms, texts, habit)
    )
    told = json.dumps(answer, indent=1, ensure_ascii=False)
    if html:
        page = service_page(service, terms, texts, habit)
        write_page(html, page, texts, answer_json=told)
    click.echo(told if as_json else shown.plain_service(service, terms, texts, habit), nl=as_json)
    counted = service.node_frac if terms.basis == "node" else service.job_frac
    if counted is None:
        return EXIT_UNDECIDED
    return EXIT_OK if counted >= terms.available_frac else EXIT_NO
