"""`assay incidents`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from assay.app.options import json_option, lang_option, ledger_option
from assay.app.say import say, say_json


@click.command()
@ledger_option
@click.option("--open", "only_open", is_flag=True, help="Only those that are not over.")
@click.option("--ack", metavar="ID", help="Write that you have taken this incident, and end.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the incidents as one HTML page.",
)
@lang_option
@json_option
def incidents(
    ledger: Path, only_open: bool, ack: str | None, html: Path | None, lang: str, as_json: bool
) -> int:
    """List what the watch has noticed: cause, subject, evidence, what to do."""
    from assay import __version__
    from assay.api.watching import acknowledge, incidents_in, write_incident_page
    from assay.catalog.messages import Texts
    from assay.report import incidents as shown

    texts = Texts(lang)
    if ack:
        taken = acknowledge(ledger, ack, time.time())
        say(f"acknowledged {taken.id} {taken.code} {taken.subject}")
        return 0
    found = incidents_in(ledger)
    if only_open:
        found = tuple(one for one in found if one.recovered_s is None)
    if html:
        write_incident_page(html, ledger, found, texts)
    if as_json:
        listed = [shown.incident_object(one, texts) for one in found]
        told = shown.answer("incidents", assay_version=__version__, incidents=listed)
        say_json(told)
    else:
        click.echo(shown.plain_incidents(found, texts), nl=False)
    return 0
