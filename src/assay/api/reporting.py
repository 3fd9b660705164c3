"""Writing what was judged: `verdict.json` always, `report.html` where the report extra is installed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from assay.api.judging import Judged
from assay.codec.text_file import write_text
from assay.errors import EnvironmentLackError
from assay.report.html import render_html

_FIX = "free some space, then: assay judge RUN"


def write_report(judged: Judged, folder: Path, *, command: str) -> Judged:
    """Write both into `folder`; the returned record knows where the page lies, or why there is none."""
    text = json.dumps(judged.answer(command), indent=1, ensure_ascii=False)
    write_text(folder / "verdict.json", text + "\n", fix=_FIX)
    try:
        return write_page(judged, folder / "report.html", command=command, fix=_FIX)
    except EnvironmentLackError as lack:
        return dataclasses.replace(
            judged, data=dataclasses.replace(judged.data, report_path=f"– ({lack.what})")
        )


def write_page(judged: Judged, path: Path, *, command: str, fix: str = "give another file") -> Judged:
    """Write the report as one HTML file; raises `EnvironmentLackError` without the report extra."""
    text = json.dumps(judged.answer(command), indent=1, ensure_ascii=False)
    write_text(path, render_html(judged.data, answer_json=text), fix=fix)
    return dataclasses.replace(judged, data=dataclasses.replace(judged.data, report_path=str(path)))
