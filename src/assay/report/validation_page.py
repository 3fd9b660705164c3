"""How wrong the predictor is, as one HTML page: groups beside their goals, and predicted against measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assay.catalog.messages import Texts
from assay.domain.goal import goal_of
from assay.domain.message import Message
from assay.domain.score import GroupScore, Validation
from assay.predict.calibrate import Residual
from assay.report.charts import Words
from assay.report.page import LANG, embedded, page_environment
from assay.report.prediction_charts import POINTS_AT_MOST, Dot, scatter
from assay.units import percent

#: So many rows with the largest errors are listed.
WORST_LISTED = 30
#: A picture tells so many groups apart.
_GROUPS_APART = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group as the table shows it; `misses` are the goals that it misses."""

    name: str
    score: GroupScore
    goal: str
    misses: tuple[str, ...]


def render_validation(
    result: Validation, texts: Texts, *, command: str, assay_version: str, answer_json: str | None = None
) -> str:
    """The page as text. Needs the report extra."""
    known = [row for row in result.rows if row.error_frac is not None]
    worst = sorted(known, key=lambda row: -abs(row.error_frac or 0.0))[:WORST_LISTED]
    env = page_environment(texts)
    page = env.get_template("validation.html.j2").render(
        lang=LANG[texts.lang],
        command=command,
        assay_version=assay_version,
        cross=result.cross,
        rows=len(known),
        skipped=[row for row in result.rows if row.skipped],
        groups=[_group(name, score, texts) for name, score in result.groups.items()],
        picture=_picture(result, texts) if known else None,
        drawn=Message.of("validation.drawn", shown=min(len(known), POINTS_AT_MOST), all=len(known)),
        texts=texts,
        percent=percent,
        worst=worst,
        fitted=result.fitted or {},
    )
    return embedded(answer_json, str(page))


def _group(name: str, score: GroupScore, texts: Texts) -> GroupRow:
    goal = goal_of(name)
    misses = () if goal is None else goal.misses(score)
    return GroupRow(name=texts.label(name), score=score, goal=str(goal) if goal else "", misses=misses)


def calibration_scatter(residuals: Sequence[Residual], texts: Texts) -> str:
    """Modelled over measured values of the unit that most residuals have, by quantity."""
    unit, _ = Counter(one.unit for one in residuals).most_common(1)[0]
    dots = [
        Dot(group=texts.quantity(one.quantity), measured=one.measured, predicted=one.after)
        for one in residuals
        if one.unit == unit
    ]
    return _scatter(dots, unit, texts)


def _picture(result: Validation, texts: Texts) -> str:
    """Each row by the first of its groups that the picture tells apart."""
    named = [name for name, score in result.groups.items() if score.n][:_GROUPS_APART]
    dots = [
        Dot(
            group=texts.label(next((g for g in row.groups if g in named), "validation.others")),
            measured=row.measured,
            predicted=row.predicted,
            low=row.low,
            high=row.high,
        )
        for row in result.rows
        if row.measured and row.predicted
    ]
    return _scatter(dots, result.rows[0].unit, texts)


def _scatter(dots: Sequence[Dot], unit: str, texts: Texts) -> str:
    words = Words(
        name="scatter",
        title=texts.label("validation.scatter"),
        description=texts.label("validation.scatter.caption"),
        x=texts.label("report.measured"),
        y=texts.label("report.predicted"),
    )
    return scatter(dots, unit=unit, words=words, ideal=texts.label("validation.equal"))
