"""How a command ends whose answer is a page of sections: JSON or text on stdout, and HTML where asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.say import say_wrote

if TYPE_CHECKING:
    from assay.catalog.messages import Texts
    from assay.report.answer_page import Page


def show_answer(
    answer: Callable[[Texts], dict[str, object]],
    page: Callable[[Texts], Page],
    *,
    lang: str,
    html: Path | None,
    as_json: bool,
) -> None:
    """Print the answer as JSON or text, and write the page where one is asked for."""
    from assay.catalog.messages import Texts
    from assay.report.answer_page import plain_text

    texts = Texts(lang)
    said = json.dumps(answer(texts), indent=1, ensure_ascii=False, allow_nan=False)
    if html is not None:
        write_page(html, page(texts), texts, answer_json=said)
    click.echo(said if as_json else plain_text(page(texts)), nl=as_json)


def write_page(file: Path, page: Page, texts: Texts, *, answer_json: str) -> None:
    """Write a page as one HTML file, and say so; needs the report extra."""
    from assay.codec.text_file import write_text
    from assay.report.answer_page import render_html

    write_text(file, render_html(page, texts, answer_json=answer_json))
    say_wrote(file)
