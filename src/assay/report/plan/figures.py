"""Pictures of plans: cost bars, the Pareto front, and the fabric as it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from assay.plan.growth import Stage
from assay.report.charts import WIDTH, Words
from assay.report.extras import load
from assay.report.ink import ACCENT, MUTED, SERIES, to_svg


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A part of a row: whose row, which part, how much."""

    row: str
    part: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One layout: its speed and memory, and whether it is on the front."""

    name: str
    speed: float
    memory_GB: float
    front: bool


def bars(every: Sequence[Bar], *, words: Words, number: str = "~s") -> str:
    """Stacked bars, a row each in the order given, parts in theirs; `number` is the axis's format."""
    alt = load("altair")
    rows = list(dict.fromkeys(bar.row for bar in every))
    parts = list(dict.fromkeys(bar.part for bar in every))
    data = [
        {"row": bar.row, "part": bar.part, "value": bar.value, "order": parts.index(bar.part)}
        for bar in every
    ]
    colours = [SERIES[at % len(SERIES)] for at in range(len(parts))]
    chart = (
        alt.Chart(alt.Data(values=data))
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=words.x, stack="zero", axis=alt.Axis(grid=True, format=number)),
            y=alt.Y(
                "row:N",
                sort=rows,
                title=None,
                axis=alt.Axis(ticks=False, domain=False, labelLimit=230, minExtent=200),
            ),
            color=alt.Color(
                "part:N",
                sort=parts,
                scale=alt.Scale(domain=parts, range=colours),
                legend=alt.Legend(orient="top", title=None, columns=5, labelLimit=180),
            ),
            order=alt.Order("order:Q"),
        )
        .properties(width=WIDTH - 240, height=alt.Step(26))
    )
    return to_svg(chart, name=words.name, title=words.title, description=words.description)


def pareto(every: Sequence[Dot], *, words: Words, capacity_GB: float) -> str:
    """Speed against memory: the front as a line, the best layouts besides, and the GPU's memory dashed."""
    alt = load("altair")
    data: list[dict[str, Any]] = [
        {"name": d.name, "x": d.memory_GB, "y": d.speed, "front": d.front} for d in every
    ]
    x = alt.X("x:Q", title=words.x, scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(grid=False))
    y = alt.Y("y:Q", title=words.y, scale=alt.Scale(zero=True), axis=alt.Axis(grid=True))
    line = [row for row in data if row["front"]]
    fastest = [max(data, key=lambda row: float(row["y"]))]
    layers = [
        alt.Chart(alt.Data(values=line)).mark_line(color=ACCENT, strokeWidth=2).encode(x=x, y=y),
        alt.Chart(alt.Data(values=line)).mark_circle(color=ACCENT, size=50, opacity=1).encode(x=x, y=y),
        alt.Chart(alt.Data(values=[row for row in data if not row["front"]]))
        .mark_circle(color=MUTED, size=36, opacity=0.8)
        .encode(x=x, y=y),
        alt.Chart(alt.Data(values=[{"x": capacity_GB}]))
        .mark_rule(color=MUTED, strokeDash=[5, 4])
        .encode(x=x),
        alt.Chart(alt.Data(values=fastest))
        .mark_text(align="right", dx=-8, dy=-8)
        .encode(x=x, y=y, text="name:N"),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH - 60, height=300)
    return to_svg(chart, name=words.name, title=words.title, description=words.description)


_BOX, _GAP, _ROW, _MOST_BOXES, _STAGES_A_ROW = 9, 4, 40, 12, 5


def fabric_growth(every: Sequence[Stage], *, words: Words, names: Sequence[str]) -> str:
    """Each stage's tiers as rows of boxes with their counts; many boxes are drawn as a few and the number.

    `names` are the words for core, spine, leaf and nodes.
    """
    parts: list[str] = []
    tall, widest, wide = 4 * _ROW + 50, 0, _MOST_BOXES * (_BOX + _GAP) + 64
    for at, stage in enumerate(every):
        row, column = divmod(at, _STAGES_A_ROW)
        parts.append(_stage(stage, 90 + column * wide, row * tall, wide))
        widest = max(widest, 90 + (column + 1) * wide)
    rows = -(-len(every) // _STAGES_A_ROW)
    labels = "".join(
        f'<text x="0" y="{row * tall + 38 + at * _ROW}" fill="var(--muted)" '
        f'font-size="12">{escape(name)}</text>'
        for row in range(rows)
        for at, name in enumerate(names)
    )
    head = (
        f'<svg role="img" aria-labelledby="{words.name}-title {words.name}-desc" '
        f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest} {rows * tall}" '
        f'style="max-width:{widest}px">'
        f'<title id="{words.name}-title">{escape(words.title)}</title>'
        f'<desc id="{words.name}-desc">{escape(words.description)}</desc>'
    )
    return head + labels + "".join(parts) + "</svg>"


def _tiers(stage: Stage) -> tuple[int, int, int, int]:
    m = stage.materials
    return m.core, m.spine, m.leaf, stage.nodes


def _boxes(count: int) -> int:
    return min(count, _MOST_BOXES)


def _tier_width(count: int) -> int:
    return _boxes(count) * (_BOX + _GAP)


def _stage(stage: Stage, x: int, top: int, width: int) -> str:
    fills = ("var(--series-4)", "var(--series-3)", "var(--series-1)", "var(--muted)")
    drawn, above = [], None
    inner = width - 40
    for at, count in enumerate(_tiers(stage)):
        if not count:
            continue
        y = top + 30 + at * _ROW
        shown = _boxes(count)
        left = x + (inner - _tier_width(count)) / 2
        if above is not None:
            drawn.append(_bundle(above, (left, left + _tier_width(count) - _GAP, y)))
        drawn += [
            f'<rect x="{left + n * (_BOX + _GAP):.1f}" y="{y}" width="{_BOX}" height="{_BOX}" rx="2" '
            f'fill="{fills[at]}"/>'
            for n in range(shown)
        ]
        mark = "" if shown == count else "…"
        drawn.append(
            f'<text x="{left + _tier_width(count) + 2:.1f}" y="{y + 9}" font-size="12" '
            f'fill="currentColor">{mark}{count}</text>'
        )
        above = (left, left + _tier_width(count) - _GAP, y + _BOX)
    drawn.append(
        f'<text x="{x + inner / 2:.1f}" y="{top + 30 + 4 * _ROW}" font-size="12" text-anchor="middle" '
        f'fill="currentColor">{stage.gpus:,} GPU</text>'
    )
    return "".join(drawn)


def _bundle(above: tuple[float, float, float], below: tuple[float, float, float]) -> str:
    """The cables between two tiers, as a band."""
    corners = ((above[0], above[2]), (above[1], above[2]), (below[1], below[2]), (below[0], below[2]))
    points = " ".join(f"{x:.1f},{y}" for x, y in corners)
    return f'<polygon points="{points}" fill="var(--line)" opacity="0.7"/>'
