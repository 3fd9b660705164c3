"""How `assay validate` shows errors: a table by group, or the JSON object of every row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.app.say import say, say_json, say_wrote
from assay.codec.answer import headed
from assay.domain.goal import goal_of
from assay.units import percent

if TYPE_CHECKING:
    from assay.domain.score import GroupScore, Validation


def validation_object(result: Validation, *, command: str) -> dict[str, object]:
    """Every row and group as one JSON object."""
    return headed(command) | {
        "cross": result.cross,
        "rows": [
            {
                "id": row.id,
                "file": row.file,
                "line": row.line,
                "groups": list(row.groups),
                "unit": row.unit,
                "measured": row.measured,
                "predicted": row.predicted,
                "low": row.low,
                "high": row.high,
                "error_frac": row.error_frac,
                "skipped": row.skipped,
                "assumed": list(row.assumed),
            }
            for row in result.rows
        ],
        "groups": {
            name: {
                "n": g.n,
                "skipped": g.skipped,
                "median_abs_error_frac": g.median_abs_error_frac,
                "p90_abs_error_frac": g.p90_abs_error_frac,
                "bias_frac": g.bias_frac,
                "coverage_frac": g.coverage_frac,
                "goal": _goal(name, g),
            }
            for name, g in result.groups.items()
        },
        "fitted": result.fitted,
    }


def print_validation(
    result: Validation,
    *,
    command: str,
    as_json: bool,
    rows: bool = False,
    html: Path | None = None,
    lang: str = "en",
) -> None:
    """Print a validation as a table, with every row where `rows` is set, or as JSON; `html` is a page."""
    if html:
        from assay.api.pages import write_validation_page

        answer = validation_object(result, command=command)
        write_validation_page(result, html, lang=lang, command=command, answer=answer)
        say_wrote(html)
    if as_json:
        say_json(validation_object(result, command=command))
        return
    heads = " ".join(f"{word:>7s}" for word in ("median", "p90", "bias"))
    say(f"{'group':30s} {'n':>5s} {'skip':>4s} {heads} {'holds':>6s} {'goal':>6s}")
    missed: list[str] = []
    for name, g in result.groups.items():
        goal = goal_of(name)
        misses = () if goal is None else goal.misses(g)
        cells = [
            percent(g.median_abs_error_frac),
            percent(g.p90_abs_error_frac),
            percent(g.bias_frac, sign=True),
        ]
        if len(name) > 30:
            say(name)
        text = " ".join(f"{cell:>7s}" for cell in cells)
        told = "–" if g.coverage_frac is None else f"{g.coverage_frac:.0%}"
        head = f"{name if len(name) <= 30 else '':30s} {g.n:5d} {g.skipped:4d}"
        say(f"{head} {text} {told:>6s} {goal or '–'!s:>6}{' ✗' if misses else ''}")
        missed += [_missed(name, which, g) for which in misses]
    say("holds: measured values inside the 80 % interval; goal: median/p90, %; ✗ misses it")
    if any(goal_of(name) for name in result.groups):
        say("\n".join(["misses:", *missed]) if missed else "misses: none")
    if rows:
        for row in result.rows:
            what = (
                row.skipped or f"{percent(row.error_frac, sign=True)}  measured {row.measured:.5g} {row.unit}"
            )
            say(f"{row.file}:{row.line}: {row.id}  {what}")
    for name, numbers in (result.fitted or {}).items():
        told = ", ".join(f"{key} {value:.3g}" for key, value in numbers.items())
        say(f"\nnumbers, {name}: {told}")


def _goal(name: str, score: GroupScore) -> dict[str, object] | None:
    goal = goal_of(name)
    if goal is None:
        return None
    return {
        "median_abs_error_frac": goal.median_frac,
        "p90_abs_error_frac": goal.p90_frac,
        "misses": list(goal.misses(score)),
    }


def _missed(name: str, which: str, score: GroupScore) -> str:
    value = score.median_abs_error_frac if which == "median" else score.p90_abs_error_frac
    goal = goal_of(name)
    most = None if goal is None else goal.median_frac if which == "median" else goal.p90_frac
    return f"  {name}: {which} {percent(value)}, goal {percent(most)}"
