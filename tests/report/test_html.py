"""The page: one small file that opens offline, verdict first, in two languages, well formed and safe."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from report_examples import gloo_machine, gpu_node, many_cards, wide

from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.errors import EnvironmentLackError
from assay.report.data import ReportData
from assay.report.html import render_html
from assay.report.page import SIZE_LIMIT_BYTES

VOID = {"meta", "br", "hr", "img", "input", "link"}
MADE: dict[str, Callable[[str], ReportData]] = {
    "gpu-en": gpu_node,
    "gpu-zh": gpu_node,
    "gloo-en": gloo_machine,
    "wide-en": wide,
}


class Page(HTMLParser):
    """Checks that tags nest, and collects what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.images = 0
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if named.get("id"):
            self.ids.append(str(named["id"]))
        self.addresses += [str(v) for k, v in attrs if k in ("src", "href", "xlink:href", "data", "action")]
        self.images += tag == "image"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {name: render_html(make(name[-2:])) for name, make in MADE.items()}


def test_pages_are_well_formed_and_each_id_stands_once(pages: dict[str, str]) -> None:
    for text in pages.values():
        page = Page(text)
        assert len(page.ids) == len(set(page.ids))
        assert text.startswith("<!doctype html>")


def test_pages_load_nothing(pages: dict[str, str]) -> None:
    for text in pages.values():
        foreign = [a for a in Page(text).addresses if not a.startswith(("#", "data:"))]
        assert foreign == []
        assert re.findall(r"url\((?!#)|@import|<script(?! type=\"application/json\")", text) == []


def test_links_and_references_inside_the_page_lead_somewhere(pages: dict[str, str]) -> None:
    for text in pages.values():
        page = Page(text)
        wanted = [a[1:] for a in page.addresses if a.startswith("#")] + re.findall(r"url\(#([^)]+)\)", text)
        assert set(wanted) - set(page.ids) == set()


def test_every_criterion_is_on_the_page(pages: dict[str, str]) -> None:
    for name, make in MADE.items():
        for judgement in make(name[-2:]).assessment.judgements:
            assert f'id="criterion-{judgement.criterion.id}"' in pages[name]


def test_what_explains_a_finding_is_beside_it() -> None:
    data = gpu_node("en")
    slow, *others = data.assessment.findings
    explained = dataclasses.replace(slow, follows_from="GPU_THROTTLED")
    assessment = dataclasses.replace(data.assessment, findings=(explained, *others))
    page = render_html(dataclasses.replace(data, assessment=assessment))
    assert data.texts.say(Message.of("report.follows_from", code="GPU_THROTTLED")) in page


def test_the_verdict_comes_before_the_reasons_and_those_before_the_table(pages: dict[str, str]) -> None:
    order = ["verdict", "why", "findings", "criteria", "odd", "pictures", "unjudged", "shortfall"]
    order += ["environment", "provenance"]
    ids = Page(pages["gpu-en"]).ids
    assert [i for i in ids if i in order] == order


def test_the_language_is_declared_and_spoken(pages: dict[str, str]) -> None:
    assert '<html lang="en">' in pages["gpu-en"]
    assert '<html lang="zh-Hans">' in pages["gpu-zh"]
    assert "不通过" in " ".join(Page(pages["gpu-zh"]).words)
    # No code of a text is left over where a text should be.
    for text in pages.values():
        words = " ".join(Page(text).words)
        assert re.findall(r"\b(?:report|verdict|picture|reason|origin|op|severity)\.[a-z_]+\b", words) == []


def test_hash_and_commands_are_on_the_page(pages: dict[str, str]) -> None:
    data = gpu_node()
    for text in (data.run_hash, data.info.command, data.repeat_command, data.info.run):
        assert text in pages["gpu-en"]


def test_pictures_take_their_colours_from_the_page(pages: dict[str, str]) -> None:
    text = pages["gpu-en"]
    assert "currentColor" in text
    assert re.findall(r"#0101\w\w|#0102\w\w", text) == []
    assert 'fill="white"' not in text


def test_a_picture_has_a_title_a_description_and_its_data(pages: dict[str, str]) -> None:
    text = pages["gpu-en"]
    charts = re.findall(r'<svg role="img" aria-labelledby="([\w-]+)-title ', text)
    assert len(charts) >= 7
    for name in charts:
        assert f'<title id="{name}-title">' in text
        assert f'<desc id="{name}-desc">' in text
    assert text.count('<details class="data">') == len(charts)


def test_pages_stay_small(pages: dict[str, str]) -> None:
    for text in [*pages.values(), render_html(many_cards())]:
        assert len(text.encode()) < SIZE_LIMIT_BYTES


def test_a_wide_pair_map_is_an_image_with_the_odd_cell_listed_first(pages: dict[str, str]) -> None:
    text = pages["wide-en"]
    assert Page(text).images == 1
    table = text[text.index('<details class="data">') :]
    assert re.search(r"<td>h17</td><td class=\"num\">h93</td>", table[: table.index("</tr>", 400)])
    assert len(text.encode()) < 150_000


def test_text_from_outside_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script><img src=x>"
    data = gloo_machine()
    finding = Finding(
        code="<b>X</b>",
        severity=Severity.LOW,
        subject=Subject("node", evil),
        because=Message.of("because.text", text=evil),
    )
    data = dataclasses.replace(
        data,
        assessment=dataclasses.replace(data.assessment, findings=(finding,)),
        repeat_command=evil,
        replicates=(),
    )
    text = render_html(data, answer_json=json.dumps({"text": f"</script>{evil}"}))
    assert "<script>alert" not in text
    assert "<img" not in text
    Page(text)


def test_the_json_answer_can_be_read_back_from_the_page() -> None:
    answer = {"schema_version": 1, "text": "a < b </script>"}
    text = render_html(gloo_machine(), answer_json=json.dumps(answer))
    embedded = re.search(r'<script type="application/json" id="answer">(.*?)</script>', text)
    assert embedded is not None
    assert json.loads(embedded[1]) == answer


@pytest.mark.parametrize("package", ["jinja2", "altair", "vl_convert"])
def test_a_missing_package_is_named_with_the_fix(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvironmentLackError) as caught:
        render_html(gloo_machine())
    assert caught.value.fix == "pip install 'assay[report]'"


def test_an_empty_run_still_gives_a_page() -> None:
    data = gloo_machine()
    bare = dataclasses.replace(
        data, assessment=dataclasses.replace(data.assessment, judgements=()),
        readings=(), replicates=(), facts=(), events=(), series=(), run_hash="",
    )  # fmt: skip
    text = render_html(bare)
    Page(text)
    assert "Not measured" in text
