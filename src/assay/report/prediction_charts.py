"""Pictures of predictions as SVG text: bars of terms, a pipeline's timeline, predicted against measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.report.charts import WIDTH, Words, svg_of
from assay.report.extras import load
from assay.report.ink import ACCENT, FAIL, INK, MUTED, SERIES, axis, axis_unit, chart_of

#: More points than this make a page slow; every so many-th is drawn.
POINTS_AT_MOST = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One term with the text at the end of its bar; `total` stands apart from the terms that add up to it."""

    label: str
    value: float
    text: str
    total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One pass on a lane of the timeline; `kind` colours it."""

    lane: int
    begin_s: float
    end_s: float
    kind: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One measured value beside its prediction and 80 % interval."""

    group: str
    measured: float
    predicted: float
    low: float | None = None
    high: float | None = None


def bars(every: Sequence[Bar], *, unit: str, words: Words, bound: float | None = None) -> str:
    """Horizontal bars in the order given; `bound` is a dashed line, a limit."""
    alt = load("altair")
    factor, name = axis_unit([*(bar.value for bar in every), bound or 0.0], unit)
    rows: list[dict[str, Any]] = [
        {"label": bar.label, "value": bar.value / factor, "text": bar.text, "total": bar.total}
        for bar in every
    ]
    most = max([row["value"] for row in rows] + [(bound or 0.0) / factor])
    scale = alt.Scale(domain=[0, 1.16 * most], nice=False)
    x = alt.X("value:Q", title=f"{words.x} ({name})" if name else words.x, scale=scale, axis=axis(grid=True))
    order = [row["label"] for row in rows]
    y = alt.Y(
        "label:N",
        sort=order,
        title=None,
        axis=axis(ticks=False, domain=False, labelColor=INK, labelLimit=260),
    )
    colour = alt.Color("total:N", scale=alt.Scale(domain=[False, True], range=[ACCENT, MUTED]), legend=None)
    layers = [
        chart_of(rows).mark_bar(height=14, cornerRadiusEnd=2).encode(x=x, y=y, color=colour),
        chart_of(rows).mark_text(align="left", dx=6, color=INK).encode(x=x, y=y, text="text:N"),
    ]
    if bound is not None:
        rule = chart_of([{"bound": bound / factor}]).mark_rule(color=FAIL, strokeDash=[6, 3], strokeWidth=1.4)
        layers.append(rule.encode(x=alt.X("bound:Q", scale=scale)))
    return svg_of(alt.layer(*layers).properties(width=WIDTH - 220, height=alt.Step(24)), words)


def timeline(spans: Sequence[Span], *, words: Words, kinds: Sequence[str]) -> str:
    """Passes as boxes on a lane a stage, time to the right; boxes wide enough carry their number."""
    alt = load("altair")
    end = max(span.end_s for span in spans)
    factor, name = axis_unit([end], "s")
    lanes = 1 + max(span.lane for span in spans)
    rows: list[dict[str, Any]] = [
        {"lane": span.lane, "top": span.lane + 0.08, "low": span.lane + 0.92, "begin": span.begin_s / factor,
         "end": span.end_s / factor, "kind": span.kind, "text": span.text,
         "middle": (span.begin_s + span.end_s) / 2 / factor, "level": span.lane + 0.5}
        for span in spans
    ]  # fmt: skip
    scale = alt.Scale(domain=[0, end / factor], nice=False)
    x = alt.X("begin:Q", title=f"{words.x} ({name})", scale=scale, axis=axis(grid=True))
    stages = [lane + 0.5 for lane in range(lanes)]
    named = axis(values=stages, labelExpr="floor(datum.value)", grid=False)
    down = alt.Scale(domain=[lanes, 0])
    y = alt.Y("top:Q", scale=down, title=words.y, axis=named)
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(kinds), range=list(SERIES[: len(kinds)])),
        legend=alt.Legend(orient="top", title=None),
    )
    boxes = chart_of(rows).mark_rect(opacity=0.85).encode(x=x, x2="end:Q", y=y, y2="low:Q", color=colour)
    wide = [row for row in rows if row["text"] and (row["end"] - row["begin"]) * factor / end > 0.018]
    height = max(110, 34 * lanes)
    middle, level = alt.X("middle:Q", scale=scale), alt.Y("level:Q", scale=down)
    texts = chart_of(wide).mark_text(color="#ffffff", fontSize=10).encode(x=middle, y=level, text="text:N")
    return svg_of(alt.layer(boxes, texts).properties(width=WIDTH - 80, height=height), words)


def scatter(dots: Sequence[Dot], *, unit: str, words: Words, ideal: str) -> str:
    """Predicted over measured, both logarithmic, with the 80 % interval of each and the line of equality."""
    alt = load("altair")
    some = dots[:: -(-len(dots) // POINTS_AT_MOST)]
    factor, name = axis_unit([max(dot.measured for dot in some)], unit)
    rows: list[dict[str, Any]] = [
        {"group": dot.group, "measured": dot.measured / factor, "predicted": dot.predicted / factor,
         "low": (dot.low or dot.predicted) / factor, "high": (dot.high or dot.predicted) / factor}
        for dot in some
    ]  # fmt: skip
    ends = [f(row["measured"] for row in rows) for f in (min, max)]
    span = [f(row[key] for row in rows for key in ("measured", "low", "high")) for f in (min, max)]
    scale = alt.Scale(type="log", domain=[span[0] * 0.9, span[1] * 1.1], nice=False)
    x = alt.X(
        "measured:Q",
        scale=scale,
        title=f"{words.x} ({name})",
        axis=axis(grid=True, tickCount=6, format="~g"),
    )
    y = alt.Y(
        "predicted:Q",
        scale=scale,
        title=f"{words.y} ({name})",
        axis=axis(grid=True, tickCount=6, format="~g"),
    )
    groups = list(dict.fromkeys(row["group"] for row in rows))
    colour = alt.Color(
        "group:N",
        sort=groups,
        legend=alt.Legend(orient="right", title=None, labelLimit=230),
        scale=alt.Scale(domain=groups, range=[SERIES[at % len(SERIES)] for at in range(len(groups))]),
    )
    line = [{"measured": end, "predicted": end} for end in ends]
    low = alt.Y("low:Q", scale=scale)
    name_of = chart_of([line[-1] | {"text": ideal}]).mark_text(align="right", dx=-8, dy=-6, color=MUTED)
    layers = [
        chart_of(rows).mark_rule(strokeWidth=1, opacity=0.28).encode(x=x, y=low, y2="high:Q", color=colour),
        chart_of(rows).mark_circle(size=22, opacity=0.75).encode(x=x, y=y, color=colour),
        chart_of(line).mark_line(color=INK, strokeDash=[5, 4], strokeWidth=1.3).encode(x=x, y=y),
        name_of.encode(x=x, y=y, text="text:N"),
    ]
    return svg_of(alt.layer(*layers).properties(width=WIDTH - 330, height=420), words)
