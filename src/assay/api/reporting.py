"""Writing what was judged: `verdict.json` always, `report.html` where the report extra is installed."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from assay.api.judging import Judged
from assay.errors import EnvironmentLackError, RunError
from assay.report.html import render_html


def write_report(judged: Judged, folder: Path, *, command: str) -> Judged:
    """Write both into `folder`; the returned record knows where the page lies, or why there is none."""
    text = json.dumps(judged.answer(command), indent=1, ensure_ascii=False)
    write_text(folder / "verdict.json", text + "\n")
    try:
        return write_page(judged, folder / "report.html", command=command)
    except EnvironmentLackError as lack:
        return dataclasses.replace(
            judged, data=dataclasses.replace(judged.data, report_path=f"– ({lack.what})")
        )


def write_page(judged: Judged, path: Path, *, command: str) -> Judged:
    """Write the report as one HTML file; raises `EnvironmentLackError` without the report extra."""
    text = json.dumps(judged.answer(command), indent=1, ensure_ascii=False)
    write_text(path, render_html(judged.data, answer_json=text))
    return dataclasses.replace(judged, data=dataclasses.replace(judged.data, report_path=str(path)))


def write_text(path: Path, text: str, *, fix: str = "free some space, then: assay judge RUN") -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as fault:
        raise RunError(f"cannot write {path}: {fault.strerror}", fix=fix) from None
