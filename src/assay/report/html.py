"""The report as one HTML file that opens offline: no script, no request, light and dark, print."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from assay.domain.message import Message
from assay.domain.reading import Reading
from assay.domain.verdict import Judgement
from assay.report import view
from assay.report.data import ReportData
from assay.report.environment import FactRow, FactValue, environment, subjects_text
from assay.report.gauge import gauge
from assay.report.page import LANG, embedded, page_environment
from assay.report.pictures import figures
from assay.report.transport import transports

#: A criterion with more subjects than this lists the worst ones.
SUBJECTS_LISTED = 48
_EVENTS_LISTED = 40
#: Events that say only that all went as planned.
_ROUTINE = ("task_started", "task_done", "worker_started")


def render_html(data: ReportData, *, answer_json: str | None = None) -> str:
    """The page as text. `answer_json` is the command's JSON answer, embedded for other
    programs where the page stays small enough with it.

    Needs Jinja2, Altair and vl-convert; raises `EnvironmentLackError` with the fix where they are not.
    """
    env = page_environment(data.texts)
    markup = env.globals["svg"]

    def gauge_of(judgement: Judgement) -> Any:
        return markup(gauge(judgement, label=_gauge_label(data, judgement)))

    env.globals.update(
        gauge=gauge_of, view=view, interval=view.interval_text, value=view.value_text,
        who=lambda row, v: _who(data, row, v),
    )  # fmt: skip
    page = env.get_template("report.html.j2")
    return embedded(answer_json, str(page.render(**_context(data))))


def _context(data: ReportData) -> dict[str, Any]:
    """Names that the template uses, already worked out."""
    return {
        "data": data,
        "texts": data.texts,
        "lang": LANG[data.texts.lang],
        "verdict": data.assessment.verdict.value,
        "counts": view.count_verdicts(data.assessment.judgements),
        "total": len(data.assessment.judgements),
        "deciding": view.deciding(data),
        "findings": view.findings(data),
        "criteria": view.criteria(data),
        "listed": SUBJECTS_LISTED,
        "odd": view.odd_ones(data),
        "figures": figures(data),
        "unjudged": _unjudged(data),
        "shortfalls": data.shortfalls,
        "environment": environment(data.facts),
        "transports": transports(data.attested.values(), data.texts),
        "events": tuple(e for e in data.events if e.kind not in _ROUTINE)[:_EVENTS_LISTED],
        "date": _time(data.info.created_s),
        "time": _time,
    }


def _unjudged(data: ReportData) -> list[tuple[view.Summary, str]]:
    """Summaries, each with what tells its recipe from the others of its quantity."""
    kept = view.folded(view.unjudged(data))
    return [(s, view.apart(s.recipe, [o.recipe for o in kept if o.quantity == s.quantity])) for s in kept]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _gauge_label(data: ReportData, judgement: Judgement) -> str:
    measured: Reading | None = judgement.measured
    spread = view.interval_text(measured)
    return data.texts.say(
        Message(
            "report.gauge",
            (
                ("value", view.value_text(measured)),
                ("interval", f" ({spread})" if spread else ""),
                ("bound", view.bound_text(judgement, data.texts)),
            ),
        )
    )


def _who(data: ReportData, row: FactRow, value: FactValue) -> str:
    """Who has a value: the count where it is everybody, else the names."""
    if len(row.values) == 1 and len(value.subjects) > 2:
        return data.texts.say(Message.of("report.all_subjects", subjects=len(value.subjects)))
    return subjects_text(value.subjects)
