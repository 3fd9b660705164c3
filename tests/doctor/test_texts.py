"""The doctor's words: compiled as written, and the same codes and placeholders in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from babel.messages.pofile import read_po

import assay.catalog.messages as messages
from assay.catalog.messages import LANGUAGES, Texts, placeholders

LOCALE = Path(messages.__file__).parent / "locale"


def po_texts(lang: str, domain: str = "doctor") -> dict[str, str]:
    with (LOCALE / lang / "LC_MESSAGES" / f"{domain}.po").open("rb") as file:
        return {str(m.id): str(m.string) for m in read_po(file, abort_invalid=True) if m.id}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_compiled_texts_are_those_of_the_source(lang: str) -> None:
    stale = [code for code, text in po_texts(lang).items() if Texts(lang).label(code) != text]
    assert stale == [], "run python -m assay.catalog.messages"


def test_languages_have_the_same_codes_and_placeholders() -> None:
    en, zh = po_texts("en"), po_texts("zh")
    assert set(en) == set(zh)
    assert [code for code in en if placeholders(en[code]) != placeholders(zh[code])] == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_code_stands_in_two_catalogues(lang: str) -> None:
    assert set(po_texts(lang)) & set(po_texts(lang, "assay")) == set()
