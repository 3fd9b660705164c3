"""The diagnosis as a page: the action first, offline, safe against what logs hold, in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from case_files import DATA, cases, diagnosed
from click.testing import CliRunner

from assay.app.doctor import doctor
from assay.catalog.messages import LANGUAGES, Texts
from assay.report.diagnosis_page import diagnosis_html


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_says_what_the_terminal_says_and_asks_for_nothing(lang: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["--lang", lang, "--html", str(page), str(DATA / "inputs" / "gpu-04-xid45-caused-by.txt")]
    result = CliRunner().invoke(doctor, words, standalone_mode=False)
    text = page.read_text(encoding="utf-8")
    assert result.return_value == 1
    first = result.stdout.splitlines()[0]
    assert f'<h1 id="verdict-word">{first}</h1>' in text
    assert "gpu:0000:dc:00" in text
    assert re.findall(r"<script|src=|href=\"(?!#)|url\(|@import", text) == []
    assert "prefers-color-scheme: dark" in text


def test_text_of_a_log_stays_text() -> None:
    text = (
        "[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, pid=7, name=<script>alert(1)</script>, GPU has fallen off.\n"
    )
    page = diagnosis_html(diagnosed([("<b>x</b>", text)]), Texts("en"), assay_version="0")
    assert "<script" not in page
    assert "<b>x" not in page
    assert "&lt;script&gt;" in page


def test_every_case_has_a_page() -> None:
    for case in cases("symptom+shortlist", "healthy", "no-fault", "root-likely"):
        page = diagnosis_html(diagnosed(case.texts()), Texts("zh"), assay_version="0")
        assert page.count("<article") == page.count("</article>")
