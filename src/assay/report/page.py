"""What every page shares: the template's surroundings, and the JSON answer inside it."""

from __future__ import annotations

import json
from typing import Any

from assay.catalog.messages import Texts
from assay.domain.message import Message, MessageValue
from assay.report.extras import load
from assay.units import show

#: A page larger than this is refused by some mail servers and slow to open; a test holds it.
SIZE_LIMIT_BYTES = 1_000_000
LANG = {"en": "en", "zh": "zh-Hans"}


def page_environment(texts: Texts) -> Any:
    """Jinja with the shipped templates and what they call: t, say, show, svg.

    Needs the report extra; raises `EnvironmentLackError` with the fix where it is not installed.
    """
    jinja2 = load("jinja2")
    loader = jinja2.PackageLoader("assay.report", "templates")
    env = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )

    def say(code: str, /, **values: MessageValue) -> str:
        return texts.say(Message.of(code, **values))

    env.globals.update(t=texts.label, say=say, show=show, svg=load("markupsafe").Markup)
    return env


def embedded(answer_json: str | None, page: str) -> str:
    """The page with the JSON answer in it, where it does not make it too large."""
    if answer_json is None:
        return page
    # In a script element `</` would end it; \\u003c means the same to a JSON reader.
    compact = json.dumps(json.loads(answer_json), separators=(",", ":"), ensure_ascii=False).replace(
        "<", "\\u003c"
    )
    script = f'<script type="application/json" id="answer">{compact}</script>'
    if len(page.encode()) + len(script.encode()) > SIZE_LIMIT_BYTES:
        return page
    return page.replace("</body>", f"{script}\n</body>")
