"""Incidents as one HTML page that opens offline: cause, evidence, what to do, and the story of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from assay.catalog.messages import Texts
from assay.domain.incident import Change, Incident
from assay.domain.message import Message
from assay.report.extras import load
from assay.report.incidents import when

_LANG = {"en": "en", "zh": "zh-Hans"}


def incident_page(incidents: Sequence[Incident], story: Sequence[Change], texts: Texts) -> str:
    """The page as text, the newest incident first; needs Jinja2, else `EnvironmentLackError`."""
    jinja2 = load("jinja2")
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("assay.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    steps: dict[str, list[tuple[Change, str]]] = defaultdict(list)
    for change in story:
        before = steps[change.incident.id][-1:]
        steps[change.incident.id].append((change, _news(change, before[0][0] if before else None)))
    page = env.get_template("incidents.html.j2")
    return (
        str(
            page.render(
                incidents=sorted(incidents, key=lambda i: -i.opened_s),
                steps=steps,
                texts=texts,
                t=texts.label,
                lasted=lambda i: texts.say(Message.of("watch.lasted", lasted_s=i.recovered_s - i.opened_s)),
                coincides=lambda i: texts.say(
                    Message.of("watch.coincides", ids=", ".join(one[:6] for one in i.coincides))
                ),
                when=when,
                lang=_LANG[texts.lang],
                open=sum(i.recovered_s is None for i in incidents),
            )
        )
        + "\n"
    )


def _news(change: Change, before: Change | None) -> str:
    """What a change brought: the findings that the incident did not have before, else its cause."""
    known = {(f.code, f.subject) for f in before.incident.findings} if before else set()
    new = [f for f in change.incident.findings if (f.code, f.subject) not in known]
    return ", ".join(f"{f.code} {f.subject}" for f in new or [change.incident.lead])
