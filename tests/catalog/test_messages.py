"""Texts: both languages say the same things, and numbers are printed in their units."""

from __future__ import annotations

import gettext
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

import assay
import assay.catalog.messages as messages
from assay.catalog.findings import finding, findings
from assay.catalog.messages import DOMAINS, LANGUAGES, Texts, compile_all, placeholders
from assay.domain.finding import Severity
from assay.domain.message import Message
from assay.errors import UnknownNameError

LOCALE = Path(messages.__file__).parent / "locale"


def po_files(lang: str) -> list[Path]:
    return [LOCALE / lang / "LC_MESSAGES" / f"{domain}.po" for domain in DOMAINS]


def po_texts(lang: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for source in po_files(lang):
        with source.open("rb") as file:
            texts |= {str(m.id): str(m.string) for m in read_po(file, abort_invalid=True) if m.id}
    return texts


@pytest.mark.parametrize("lang", LANGUAGES)
def test_compiled_texts_are_those_of_the_source(lang: str) -> None:
    stale = [code for code, text in po_texts(lang).items() if Texts(lang).label(code) != text]
    assert stale == [], "run python -m assay.catalog.messages"


def test_compiling_is_repeatable(tmp_path: Path) -> None:
    source = tmp_path / "zh" / "LC_MESSAGES" / "assay.po"
    source.parent.mkdir(parents=True)
    source.write_bytes((LOCALE / "zh" / "LC_MESSAGES" / "assay.po").read_bytes())
    (compiled,) = compile_all(tmp_path)
    first = compiled.read_bytes()
    compile_all(tmp_path)
    assert compiled.read_bytes() == first
    with compiled.open("rb") as file:
        texts = gettext.GNUTranslations(file)
    assert texts.gettext("verdict.pass") == po_texts("zh")["verdict.pass"]


def test_languages_have_the_same_codes_and_placeholders() -> None:
    en, zh = po_texts("en"), po_texts("zh")
    assert set(en) ^ set(zh) == set()
    unlike = {code for code in en if placeholders(en[code]) != placeholders(zh[code])}
    assert unlike == set()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_text_is_empty_and_no_code_stands_twice(lang: str) -> None:
    assert [code for code, text in po_texts(lang).items() if not text.strip()] == []
    lines = [line for file in po_files(lang) for line in file.read_text(encoding="utf-8").splitlines()]
    codes = [line for line in lines if line.startswith("msgid ") and line != 'msgid ""']
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_finding_has_title_why_and_as_many_fixes_in_each_language(lang: str) -> None:
    for code in findings():
        text = Texts(lang).finding(code)
        assert text.title != code
        assert text.why
        assert len(text.fixes) == len(Texts("en").finding(code).fixes) >= 1


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_quantity_of_the_catalogue_has_a_name(lang: str) -> None:
    source = (resources.files("assay.catalog") / "data" / "quantities.toml").read_text(encoding="utf-8")
    ids = [quantity_id for group in tomllib.loads(source).values() for quantity_id in group]
    filled = [i.replace("<", "").replace(">", "") for i in ids]
    assert [i for i in filled if Texts(lang).quantity(i) == i] == []


def test_numbers_are_printed_in_the_unit_that_their_name_gives() -> None:
    message = Message.of("note.spread_by_chance", quantity="gemm.bf16.rate", cards=8, chance_frac=0.0084)
    said = Texts("en").say(message)
    assert "8 cards" in said
    assert "0.84 %" in said
    assert "BF16 GEMM rate" in said


def test_value_and_bound_take_the_unit_of_the_message() -> None:
    values = {"value": 7.1e14, "bound": 7.4e14, "low": 7e14, "high": 7.2e14, "unit": "FLOP/s", "restarts": 5}
    said = Texts("en").say(Message("reason.fail.at_least", tuple(values.items())))
    assert said == (
        "710 TFLOP/s falls short of the 740 TFLOP/s that is asked for, "
        "95 % interval 700 TFLOP/s to 720 TFLOP/s over 5 restarts."
    )


def test_without_an_interval_none_is_spoken_of() -> None:
    said = Texts("en").say(Message.of("reason.pass.at_most", value=3e-6, bound=1e-5, unit="s", low=None))
    assert said == "3 µs stays within the 10 µs that is allowed."


@pytest.mark.parametrize(("count", "noun"), [(1, "1 more restart would"), (3, "3 more restarts would")])
def test_a_count_takes_the_noun_that_fits(count: int, noun: str) -> None:
    message = Message.of(
        "reason.undecided.straddles", value=0.98, low=0.9, high=1.1, bound=1.0, unit="1", more_restarts=count
    )
    assert noun in Texts("en").say(message)


def test_what_is_not_known_is_left_out_of_an_open_verdict() -> None:
    values = {"value": 0.03, "low": None, "high": None, "bound": 0.03, "unit": "1", "more_restarts": None}
    said = Texts("en").say(Message("reason.undecided.straddles", tuple(values.items())))
    assert said == "3 % against 3 %: the bound lies within the doubt."


def test_a_value_that_is_a_code_is_said_in_words() -> None:
    assert "承诺" in Texts("zh").say(Message.of("reason.not_measured.no_reference", origin="claimed"))


def test_every_code_that_the_program_says_has_a_text() -> None:
    form = re.compile(r'"((?:because|note|reason|lint|report|picture|phrase)\.[a-z_]+(?:\.[a-z_]+)*)"')
    package = Path(assay.__file__).parent
    said = {code for file in package.rglob("*.py") for code in form.findall(file.read_text(encoding="utf-8"))}
    # A file name, not a code.
    said.discard("report.html")
    assert sorted(code for code in said if not Texts("en").has(code)) == []


def test_a_value_that_is_missing_stays_visible() -> None:
    assert "{deviation_frac}" in Texts("en").say(Message.of("reason.fail.outlier", bound=0.05))


def test_an_unknown_code_is_shown_as_itself() -> None:
    assert Texts("zh").label("no.such.code") == "no.such.code"
    assert Texts("zh").finding("NO_SUCH").title == "NO_SUCH"
    assert Texts("zh").quantity("no.such") == "no.such"


def test_quantity_names_fill_in_their_words() -> None:
    assert Texts("en").quantity("gemm.bf16.rate") == "BF16 GEMM rate"
    assert Texts("zh").quantity("collective.all_reduce.busbw") == "all-reduce 总线带宽"
    assert Texts("en").quantity("gpu.nominal_peak.fp16") == "Nominal FP16 peak"


def test_an_unknown_language_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="language 'fr'"):
        Texts("fr")


def test_an_unknown_finding_code_is_refused_with_a_fix() -> None:
    with pytest.raises(UnknownNameError) as caught:
        finding("CLOCK_OFSET")
    assert "CLOCK_OFSET" in caught.value.what
    assert caught.value.fix
    assert finding("CLOCK_OFFSET").severity is Severity.MEDIUM
