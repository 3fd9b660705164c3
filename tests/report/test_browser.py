"""The page in a real browser: it opens without a complaint in light and in dark, wide and narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_examples import gpu_node

from assay.report.html import render_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(render_html(gpu_node()), encoding="utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_opens_in_silence_and_fits(browser, page_file: Path, scheme: str, width: int) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("h1").bounding_box()["y"] < 300
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_in_pictures_contrast_with_the_page(browser, page_file: Path, scheme: str) -> None:  # type: ignore[no-untyped-def]
    """WCAG contrast of every text in the charts against the figure's surface, at least 4.5."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    worst = page.evaluate(
        """() => {
          const linear = v => v / 255 <= .04045 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
          const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(linear);
            return .2126 * r + .7152 * g + .0722 * b; };
          const back = light(getComputedStyle(document.querySelector('figure')).backgroundColor);
          const texts = [...document.querySelectorAll('figure:not([id^=pairs]) svg text')];
          return Math.min(...texts.map(t => { const l = light(getComputedStyle(t).fill);
            return (Math.max(l, back) + .05) / (Math.min(l, back) + .05); }));
        }"""
    )
    assert worst >= 4.5
    context.close()
