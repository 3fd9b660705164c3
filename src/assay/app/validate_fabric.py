"""`assay validate collectives` and `assay validate choices`: how wrong the network's model is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.answers import show_answer
from assay.app.options import json_option, page_options
from assay.app.scores import print_validation
from assay.codec.answer import headed
from assay.codec.text_file import read_lines, read_text
from assay.units import percent

if TYPE_CHECKING:
    from assay.catalog.messages import Texts
    from assay.domain.cluster import Node
    from assay.fabric.validate import ChoiceValidation
    from assay.report.answer_page import Page

#: So many points where the choices differ are listed, the most costly first.
_WORST = 30

files_argument = click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@click.command()
@files_argument
@click.option(
    "--cross", type=click.Choice(["source"]), default=None, help="Leave each source out when fitting."
)
@page_options
@json_option
def collectives(files: Sequence[Path], cross: str | None, html: Path | None, lang: str, as_json: bool) -> int:
    """Predicted against measured, per row and by group: collectives, and copies from point to point.

    Columns as in validation/collectives.
    """
    from assay.fabric.point_to_point import recognise, score_points
    from assay.fabric.published import read_published
    from assay.fabric.validate import validate_collectives, with_rows

    rows, points = [], []
    for file in files:
        lines = read_lines(file)
        if recognise(lines[0].split(",") if lines else ()):
            points += score_points(lines, str(file))
        else:
            rows += read_published(lines, str(file))
    result = with_rows(validate_collectives(rows, cross=cross == "source"), points)
    print_validation(result, command="validate collectives", as_json=as_json, html=html, lang=lang)
    return 0


@click.command()
@files_argument
@page_options
@json_option
def choices(files: Sequence[Path], html: Path | None, lang: str, as_json: bool) -> int:
    """Modelled against real choices of NCCL (JSON as in validation/nccl_choices, the XML beside it)."""
    from assay.fabric.validate import validate_choices

    texts = [(str(file), read_text(file)) for file in files if file.suffix == ".json"]
    result = validate_choices(texts, _Topologies(files))
    show_answer(
        lambda _: choices_answer(result),
        lambda texts: _page(result, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0


class _Topologies:
    """Reads the XML that a file of choices names, from the folder of the files; each once."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._folders = list(dict.fromkeys(file.parent for file in files))
        self._known: dict[str, Node] = {}

    def __call__(self, name: str) -> Node:
        from assay.errors import InputError
        from assay.formats.nccl_topo import parse_topology

        if name not in self._known:
            found = [folder / name for folder in self._folders if (folder / name).is_file()]
            if not found:
                raise InputError(
                    f"no file {name!r} beside the choices", fix="put the topology XML in the same folder"
                )
            self._known[name] = parse_topology(read_lines(found[0]), str(found[0]))
        return self._known[name]


def choices_answer(result: ChoiceValidation) -> dict[str, object]:
    """The JSON object of a validation of choices."""
    rows = [
        {
            "id": row.id,
            "file": row.file,
            "line": row.line,
            "groups": list(row.groups),
            "unit": row.unit,
            "measured": row.measured,
            "predicted": row.predicted,
            "low": None,
            "high": None,
            "error_frac": None,
            "agree": row.agree,
            "regret_frac": row.regret_frac,
            "skipped": row.skipped,
        }
        for row in result.rows
    ]
    groups = {
        name: {
            "n": g.n,
            "skipped": g.skipped,
            "agreement_frac": g.agreement_frac,
            "median_regret_frac": g.median_regret_frac,
            "graphs_equal_frac": g.graphs_equal_frac,
        }
        for name, g in result.groups.items()
    }
    return headed("validate choices") | {"rows": rows, "groups": groups}


#: Goals of a validation of choices: points that agree, regret, graphs that are equal.
_GOALS = ("≥ 95 %", "< 5 %", "≥ 90 %")


def _page(result: ChoiceValidation, texts: Texts) -> Page:
    from assay.domain.message import Message
    from assay.report.answer_page import Page, Section, Table

    label = texts.label
    rows: list[tuple[str, ...]] = [(label("validation.goal"), "", *_GOALS)]
    for name, g in result.groups.items():
        shown = (g.agreement_frac, g.median_regret_frac, g.graphs_equal_frac)
        rows.append((name, str(g.n), *map(percent, shown)))
    heads = tuple(label(f"choices.head.{head}") for head in ("group", "points", "agree", "regret", "graphs"))
    sections = [
        Section(
            title=label("choices.groups"),
            lines=(label("choices.caption"),),
            table=Table(headers=heads, rows=tuple(rows)),
        )
    ]
    apart = [row for row in result.rows if row.skipped is None and not row.agree]
    if apart:
        worst = sorted(apart, key=lambda row: -(row.regret_frac or 0.0))[:_WORST]
        cells = tuple((r.id, r.measured, r.predicted or "–", percent(r.regret_frac)) for r in worst)
        heads = tuple(label(f"choices.head.{head}") for head in ("point", "nccl", "ours", "regret"))
        table = Table(headers=heads, rows=cells, words=frozenset({0, 1, 2}))
        sections.append(Section(title=label("choices.apart"), table=table))
    every = result.groups["all"]
    lead = Message.of("choices.lead", points=every.n, agree=percent(every.agreement_frac))
    return Page(
        kind="validation.title",
        title=label("choices.title"),
        lead=(texts.say(lead),),
        sections=tuple(sections),
    )
