"""A diagnosis as one HTML file that opens offline: no script, no request, light and dark, print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.catalog.messages import Texts
from assay.doctor.diagnose import Diagnosis, Outcome
from assay.doctor.timeline import timeline
from assay.report.diagnosis import action, answer, verdict_label
from assay.report.extras import load

_LANG = {"en": "en", "zh": "zh-Hans"}
#: The mark and the colours of the verdict on the page.
_LOOKS = {Outcome.FAULT: "fail", Outcome.NONE: "pass", Outcome.UNDECIDED: "undecided"}
_MOMENTS_SHOWN = 100


def diagnosis_html(diagnosis: Diagnosis, texts: Texts, *, assay_version: str) -> str:
    """The page as text; needs Jinja2, else `EnvironmentLackError`."""
    jinja2 = load("jinja2")
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("assay.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.globals.update(t=texts.label)
    told: Mapping[str, Any] = answer(diagnosis, texts, assay_version=assay_version)
    open_ones = [finding for finding in told["findings"] if finding["follows_from"] is None]
    first = diagnosis.first
    page = env.get_template("diagnosis.html.j2").render(
        told,
        lang=_LANG[texts.lang],
        version=assay_version,
        looks=_LOOKS[diagnosis.verdict],
        action=action(diagnosis, texts),
        summed_up=verdict_label(diagnosis),
        first=first and next(f for f in open_ones if f["code"] == first.code),
        open=open_ones,
        echoes={
            cause["code"]: [
                (f["code"], f["title"]) for f in told["findings"] if f["follows_from"] == cause["code"]
            ]
            for cause in open_ones
        },
        story=timeline(diagnosis.facts, most=_MOMENTS_SHOWN),
    )
    return str(page) + "\n"
