"""The annex says what was agreed, in two languages with one digest, and carries its terms as data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from annexes import PROFILE, terms

from assay.api.annexing import annex
from assay.catalog.messages import LANGUAGES, Texts
from assay.errors import InputError
from assay.qualify.annex import changed_lines, document, read_terms, to_markdown
from assay.report.annex_page import annex_html

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKLOAD = "Llama 3.1 70B, BF16, sequences of 8,192 tokens, 1,024 cards, 15 T tokens"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_examples_are_what_the_command_writes(lang: str) -> None:
    _, text = annex("h100-sxm", EXAMPLES / "promises.yaml", workload=WORKLOAD, lang=lang)
    assert text == (EXAMPLES / f"annex-{lang}.md").read_text(encoding="utf-8"), (
        "if the change is meant, write examples/annex-*.md anew (docs/annex.md)"
    )


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("render", [to_markdown, annex_html])
def test_every_text_is_there_and_filled_in(lang: str, render) -> None:
    text = render(document(terms(workload="a 7B model"), Texts(lang)))
    shown = text[: text.index("<!-- assay-annex")]
    assert re.findall(r"annex\.[a-z_.]+", shown) == []
    assert re.findall(r"\{\w+\}", re.sub(r"<style>.*?</style>", "", shown, flags=re.S)) == []
    for said in ("600 TFLOP/s", "665 TFLOP/s", "99.5 %", "a 7B model", "8192x8192x8192"):
        assert said in shown


def test_both_languages_and_forms_carry_the_same_terms() -> None:
    agreed = terms(workload="x --> y <b>")
    for lang in LANGUAGES:
        doc = document(agreed, Texts(lang))
        for text in (to_markdown(doc), annex_html(doc)):
            read = read_terms(text, where="annex")
            assert read.digest == agreed.digest
            assert read.workload == agreed.workload


@pytest.mark.parametrize(
    "other",
    [
        {"profile": PROFILE.replace("600", "601")},
        {"profile": PROFILE.replace("guarded_buyer", "simple")},
        {"restarts": 3},
        {"workload": "else"},
    ],
)
def test_other_terms_have_another_digest(other: dict[str, object]) -> None:
    assert terms(**other).digest != terms().digest  # type: ignore[arg-type]


def test_terms_that_were_changed_are_refused() -> None:
    text = to_markdown(document(terms(), Texts("en")))
    with pytest.raises(InputError, match="terms were changed"):
        read_terms(text.replace("600 TFLOP/s\\n", "500 TFLOP/s\\n"), where="a.md")
    with pytest.raises(InputError, match="no terms in this file"):
        read_terms("# A contract", where="a.md")


def test_words_that_were_changed_are_found_and_blanks_may_be_filled() -> None:
    written = to_markdown(document(terms(), Texts("en")))
    signed = written.replace("| Buyer | ________________________ |", "| Buyer | Example University |")
    assert changed_lines(written, signed) == ()
    (line,) = changed_lines(written, signed.replace("at least 600 TFLOP/s", "at least 500 TFLOP/s"))
    assert "600 TFLOP/s" in line


def test_what_no_clause_tests_is_said() -> None:
    text = to_markdown(document(terms(), Texts("en")))
    untested = text[text.index("tested by no clause") :]
    assert "service.availability" in untested
    assert "gemm.bf16.rate" not in untested[: untested.index("Signatures")]


def test_a_bar_in_a_name_does_not_break_the_table() -> None:
    assert "| Vendor | Example \\| Cloud |" in to_markdown(document(terms(), Texts("en")))


def test_no_restarts_are_refused() -> None:
    with pytest.raises(InputError, match="restarts 0"):
        terms(restarts=0)
