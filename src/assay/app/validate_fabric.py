"""`assay validate collectives` and `assay validate choices`: how wrong the network's model is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import json_option, page_options
from assay.app.say import say
from assay.app.scores import print_validation
from assay.codec.answer import headed
from assay.codec.text_file import read_lines, read_text
from assay.units import percent

if TYPE_CHECKING:
    from assay.domain.cluster import Node
    from assay.fabric.validate import ChoiceValidation

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
@json_option
def choices(files: Sequence[Path], as_json: bool) -> int:
    """Modelled against real choices of NCCL (JSON as in validation/nccl_choices, the XML beside it)."""
    from assay.fabric.validate import validate_choices

    texts = [(str(file), read_text(file)) for file in files if file.suffix == ".json"]
    result = validate_choices(texts, _Topologies(files))
    say(json.dumps(choices_answer(result), indent=2) if as_json else _agreement(result))
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


def _agreement(result: ChoiceValidation) -> str:
    lines = [f"{'group':<36} {'points':>7} {'agree':>8} {'regret':>8} {'graphs':>8}"]
    lines.append(f"{'goal':<36} {'':>7} {'95.0%':>8} {'<5.0%':>8} {'90.0%':>8}")
    for name, g in result.groups.items():
        shown = (g.agreement_frac, g.median_regret_frac, g.graphs_equal_frac)
        lines.append(f"{name:<36} {g.n:>7} " + " ".join(f"{percent(x):>8}" for x in shown))
    return "\n".join(lines)
