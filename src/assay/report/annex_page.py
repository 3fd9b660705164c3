"""The acceptance annex as one HTML page for print; no script, no request."""

from __future__ import annotations

from assay.qualify.annex import BLANK, Document
from assay.report.extras import load

_LANG = {"en": "en", "zh": "zh-Hans"}


def annex_html(doc: Document) -> str:
    """The page as text; needs Jinja2, else `EnvironmentLackError`."""
    jinja2 = load("jinja2")
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("assay.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    embedded = load("markupsafe").Markup(doc.embedded)
    page = env.get_template("annex.html.j2")
    return str(page.render(doc=doc, lang=_LANG[doc.lang], blank=BLANK, embedded=embedded)) + "\n"
