"""An answer as data: a title, what it comes to, and sections; shown as 80 columns of text or as HTML."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from assay.catalog.messages import Texts
from assay.report.page import LANG, embedded, page_environment

WIDTH = 80
#: The column that names a row keeps so many cells.
_NAME_WIDTH = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under headers; columns in `words` are text and stand left, all others are numbers.

    `wide` columns are only in HTML: 80 columns of a terminal do not hold them.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset({0})
    wide: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of a page. `figures` are drawn only for HTML; `blocks` are (name, text) to paste."""

    title: str
    lines: tuple[str, ...] = ()
    table: Table | None = None
    blocks: tuple[tuple[str, str], ...] = ()
    figures: tuple[Callable[[], str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The answer first (`lead`), then what it rests on; `kind` is the code of what stands at the top."""

    kind: str = "plan.page"
    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = field(default=())


def plain_text(page: Page) -> str:
    """80 columns; what the lead says stands first."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    console.print(Text(page.title))
    for line in page.lead:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    for section in page.sections:
        console.print()
        console.print(Text(section.title))
        for line in section.lines:
            console.print(Padding(Text(line), (0, 0, 0, 2)))
        if section.table:
            console.print(_rich(section.table))
        for name, text in section.blocks:
            console.print(Padding(Text(f"— {name}"), (0, 0, 0, 2)))
            console.print(Padding(Text(text), (0, 0, 0, 4)))
    if page.notes:
        console.print()
    for line in page.notes:
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _rich(table: Table) -> RichTable:
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, padding=(0, 1))
    kept = [at for at in range(len(table.headers)) if at not in table.wide]
    first = min(table.words, default=-1)
    for at in kept:
        # Numbers never break; words give way, the first of them last.
        text = at in table.words
        name = table.headers[at]
        longest = max((cell_len(row[at]) for row in table.rows), default=0)
        least = min(longest, _NAME_WIDTH) if at == first else None
        shown.add_column(
            name, justify="left" if text else "right", no_wrap=not text, overflow="fold", min_width=least
        )
    for row in table.rows:
        shown.add_row(*(Text(row[at]) for at in kept))
    return shown


def render_html(page: Page, texts: Texts, *, answer_json: str) -> str:
    """The page as one file without a script or request, the JSON answer in it for other programs.

    Needs Jinja2, Altair and vl-convert; raises `EnvironmentLackError` with the fix where they are not.
    """
    env = page_environment(texts)
    markup = env.globals["svg"]
    drawn = {id(s): [markup(figure()) for figure in s.figures] for s in page.sections}
    text = env.get_template("answer.html.j2").render(
        page=page, drawn=lambda section: drawn[id(section)], lang=LANG[texts.lang]
    )
    return embedded(answer_json, str(text))
