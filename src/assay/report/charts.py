"""Pictures as SVG text, from plain records. Each axis says its unit; colours come from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.report.extras import load
from assay.report.ink import ACCENT, FAIL, INK, MUTED, SERIES, axis, axis_unit, chart_of, to_svg
from assay.units import show

#: More subjects than this do not fit as rows: they become points along the axis.
ROWS_AT_MOST = 40
WIDTH = 820
_ODD_AT_MOST, _NAMED_AT_MOST = 100, 12
_SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value/1073741824,'~r')+' GiB' :"
    "datum.value >= 1048576 ? format(datum.value/1048576,'~r')+' MiB' :"
    "datum.value >= 1024 ? format(datum.value/1024,'~r')+' KiB' : datum.value+' B'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Title and description of a picture, and its axis titles, in the reader's language."""

    name: str
    title: str
    description: str
    x: str = ""
    y: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One subject: its value, interval and the values of its restarts. `odd` draws it in red."""

    subject: str
    value: float
    low: float | None = None
    high: float | None = None
    restarts: tuple[float, ...] = ()
    odd: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a named line."""

    line: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


def spots(every: Sequence[Spot], *, unit: str, words: Words, bounds: Sequence[float] = ()) -> str:
    """Dot plot: each restart a dot, the value a bar, its interval a line; bounds dashed.

    One row for each subject up to `ROWS_AT_MOST`; beyond, subjects stand along the x axis.
    """
    numbers = [v for s in every for v in (s.value, s.low, s.high, *s.restarts) if v is not None]
    factor, name = axis_unit([*numbers, *bounds], unit)
    draw = _rows if len(every) <= ROWS_AT_MOST else _crowd
    return svg_of(draw(every, factor, _with_unit(words.x, name), [b / factor for b in bounds]), words)


def _rows(every: Sequence[Spot], factor: float, title: str, bounds: Sequence[float]) -> Any:
    alt = load("altair")
    order = [s.subject for s in every]
    x = alt.X(
        "value:Q", scale=alt.Scale(zero=False, nice=True, padding=12), title=title, axis=axis(grid=True)
    )
    y = alt.Y("subject:N", sort=order, title=None, axis=axis(ticks=False, domain=False, labelColor=INK))
    colour = alt.Color("odd:N", scale=alt.Scale(domain=[False, True], range=[ACCENT, FAIL]), legend=None)
    main = [_row(s, factor) for s in every]
    restarts = [{"subject": s.subject, "value": v / factor, "odd": s.odd} for s in every for v in s.restarts]
    layers = [
        chart_of([row for row in main if row["low"] is not None])
        .mark_rule(strokeWidth=2.5, opacity=0.5)
        .encode(x=alt.X("low:Q", title=title), x2="high:Q", y=y, color=colour),
        chart_of(restarts).mark_circle(size=34, opacity=0.55).encode(x=x, y=y, color=colour),
        chart_of(main).mark_tick(thickness=3, size=14).encode(x=x, y=y, color=colour),
    ]
    layers += [_bound(bound, "x") for bound in bounds]
    return alt.layer(*layers).properties(width=WIDTH - 110, height=alt.Step(20 if len(every) > 12 else 26))


def _crowd(every: Sequence[Spot], factor: float, title: str, bounds: Sequence[float]) -> Any:
    """A thousand marks would be 150 kB of SVG; one line through them is a tenth, and shows patterns too."""
    alt = load("altair")
    rows = [_row(s, factor) | {"at": i} for i, s in enumerate(every)]
    middle = float(np.median([row["value"] for row in rows]))
    odd = sorted((row for row in rows if row["odd"]), key=lambda row: -abs(row["value"] - middle))
    x = alt.X("at:Q", axis=axis(labels=False, ticks=False, grid=False), title=f"n = {len(every)}")
    y = alt.Y(
        "value:Q", scale=alt.Scale(zero=False, nice=True, padding=10), title=title, axis=axis(grid=True)
    )
    name = chart_of(odd[:_NAMED_AT_MOST]).mark_text(align="left", dx=7, color=FAIL)
    layers = [
        chart_of(rows).mark_line(strokeWidth=1, color=ACCENT).encode(x=x, y=y),
        chart_of(odd[:_ODD_AT_MOST]).mark_circle(size=40, opacity=1, color=FAIL).encode(x=x, y=y),
        name.encode(x=x, y=y, text="subject:N"),
    ]
    layers += [_bound(bound, "y") for bound in bounds]
    return alt.layer(*layers).properties(width=WIDTH - 60, height=240)


def lines(points: Sequence[Point], *, unit: str, words: Words) -> str:
    """Lines over message size, log₂ x, with intervals as bands and a shape for each line."""
    alt = load("altair")
    factor, name = axis_unit([p.high or p.y for p in points], unit)
    order = list(dict.fromkeys(p.line for p in points))
    rows = [
        {"line": p.line, "x": p.x, "y": p.y / factor,
         "low": (p.low if p.low is not None else p.y) / factor,
         "high": (p.high if p.high is not None else p.y) / factor}
        for p in points
    ]  # fmt: skip
    ticks = _powers(min(p.x for p in points), max(p.x for p in points))
    x = alt.X("x:Q", scale=alt.Scale(type="log", base=2, nice=False), title=words.x,
              axis=axis(values=ticks, labelExpr=_SIZE_LABEL, grid=False))  # fmt: skip
    title = _with_unit(words.y, name)
    y = alt.Y("y:Q", title=title, scale=alt.Scale(zero=True), axis=axis(grid=True))
    legend = alt.Legend(orient="top", title=None)
    colour = alt.Color("line:N", sort=order, legend=legend, scale=alt.Scale(domain=order, range=list(SERIES)))
    shape = alt.Shape("line:N", sort=order, legend=legend, scale=alt.Scale(domain=order))
    band = (
        chart_of(rows)
        .mark_area(opacity=0.18)
        .encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour)
    )
    line = chart_of(rows).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    dots = (
        chart_of(rows).mark_point(size=32, filled=True, opacity=1).encode(x=x, y=y, color=colour, shape=shape)
    )
    return svg_of(alt.layer(band, line, dots).properties(width=WIDTH - 60, height=270), words)


def distribution(
    samples: NDArray[np.float64], *, unit: str, words: Words, marks: Sequence[tuple[str, float]]
) -> str:
    """Histogram over a log axis with named marks (p50, p99, max), and below it the samples in order.

    Counts are on a symmetric log axis, so that one spike among thousands is still seen.
    """
    alt = load("altair")
    factor, name = axis_unit([float(np.median(samples))], unit)
    scaled = samples[samples > 0] / factor
    named = [(mark, value / factor, show(value, unit)) for mark, value in marks]
    panels = alt.vconcat(
        _histogram(scaled, named, _with_unit(words.x, name), words.y), _in_order(scaled, name), spacing=14
    )
    return svg_of(panels.resolve_scale(x="independent"), words)


def _histogram(scaled: NDArray[np.float64], marks: Sequence[tuple[str, float, str]], x: str, y: str) -> Any:
    alt = load("altair")
    edges = np.geomspace(scaled.min() * 0.98, scaled.max() * 1.02, 121)
    counts, _ = np.histogram(scaled, bins=edges)
    bars = [
        {"from": float(a), "to": float(b), "count": int(count), "zero": 0}
        for (a, b), count in zip(pairwise(edges), counts, strict=True)
        if count
    ]
    scale = alt.Scale(type="log", domain=[float(edges[0]), float(edges[-1])], nice=False)
    across = alt.X("from:Q", scale=scale, title=x, axis=axis(grid=False, format="~r", tickCount=8))
    symlog = alt.Scale(type="symlog", constant=1)
    up = alt.Y("count:Q", scale=symlog, title=y, axis=axis(grid=True, values=_counts(int(counts.max()))))
    layers = [
        chart_of(bars).mark_rect(color=ACCENT, opacity=0.8).encode(x=across, x2="to:Q", y=up, y2="zero:Q")
    ]
    height = 190
    for i, (mark, value, text) in enumerate(marks):
        row = [{"value": value, "text": f"{mark} {text}"}]
        at = alt.X("value:Q", scale=scale)
        # Above the plot; the leftmost stands highest, so that no line crosses another's name.
        top = -4 - 16 * (len(marks) - 1 - i)
        left = value > float(np.sqrt(edges[0] * edges[-1]))
        rule = chart_of(row).mark_rule(color=INK, strokeDash=[3, 2])
        name = chart_of(row).mark_text(
            align="right" if left else "left", baseline="top", dx=-5 if left else 5, fontWeight=600
        )
        layers.append(rule.encode(x=at, y=alt.value(top - 12), y2=alt.value(height)))
        layers.append(name.encode(x=at, y=alt.value(top - 12), text="text:N"))
    return alt.layer(*layers).properties(width=WIDTH - 60, height=height)


def _in_order(scaled: NDArray[np.float64], unit: str) -> Any:
    alt = load("altair")
    rows = [{"at": i, "value": value} for i, value in _thin(scaled)]
    decades = [10.0**k for k in range(int(np.floor(np.log10(scaled.min()))), int(np.log10(scaled.max())) + 1)]
    up = alt.Scale(
        type="log", nice=False, domain=[min(decades[0], float(scaled.min())), float(scaled.max()) * 1.1]
    )
    return (
        chart_of(rows)
        .mark_line(strokeWidth=0.8, color=ACCENT)
        .encode(
            x=alt.X("at:Q", title="n", axis=axis(grid=False, tickCount=6), scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=unit, scale=up, axis=axis(grid=True, values=decades, format="~r")),
        )
        .properties(width=WIDTH - 60, height=96)
    )


def scaling(points: Sequence[Point], *, words: Words, ideal: str) -> str:
    """Speed-up over ranks, both log₂, against the ideal line; efficiency stands at each point."""
    alt = load("altair")
    rows = [
        {
            "x": p.x,
            "y": p.y,
            "low": p.low,
            "high": p.high,
            "text": show(p.y / p.x * points[0].x / points[0].y, "1"),
        }
        for p in points
    ]
    line = [{"x": p.x, "y": points[0].y * p.x / points[0].x} for p in points]
    ticks = [p.x for p in points]
    log = alt.Scale(type="log", base=2, nice=False, padding=14)
    x = alt.X("x:Q", scale=log, title=words.x, axis=axis(values=ticks, grid=False, format="d"))
    y = alt.Y("y:Q", scale=log, title=words.y, axis=axis(values=ticks, grid=True, format="~r"))
    names = [{"x": p["x"], "y": p["y"], "text": ideal} for p in line[-1:]]
    layers = [
        chart_of(line).mark_line(color=MUTED, strokeDash=[5, 4]).encode(x=x, y=y),
        chart_of(names).mark_text(color=MUTED, align="right", dx=-10, dy=-2).encode(x=x, y=y, text="text:N"),
        chart_of(rows).mark_line(color=ACCENT, strokeWidth=2.2).encode(x=x, y=y),
        chart_of([r for r in rows if r["low"] is not None])
        .mark_rule(color=ACCENT)
        .encode(x=x, y="low:Q", y2="high:Q"),
        chart_of(rows).mark_circle(color=ACCENT, size=60, opacity=1).encode(x=x, y=y),
        chart_of(rows[1:]).mark_text(align="left", dx=6, dy=14).encode(x=x, y=y, text="text:N"),
    ]
    return svg_of(alt.layer(*layers).properties(width=WIDTH - 260, height=320), words)


def _row(spot: Spot, factor: float) -> dict[str, Any]:
    low = spot.low / factor if spot.low is not None else None
    high = spot.high / factor if spot.high is not None else None
    return {"subject": spot.subject, "value": spot.value / factor, "low": low, "high": high, "odd": spot.odd}


def _bound(value: float, channel: str) -> Any:
    alt = load("altair")
    rule = chart_of([{"bound": value}]).mark_rule(color=INK, strokeDash=[6, 3], strokeWidth=1.4)
    return rule.encode(**{channel: alt.X("bound:Q") if channel == "x" else alt.Y("bound:Q")})


def _thin(samples: NDArray[np.float64], *, most: int = 1500) -> list[tuple[int, float]]:
    """At most `most` samples in order: of each stretch the highest, so that no spike is lost."""
    if len(samples) <= most:
        return list(enumerate(samples.tolist()))
    starts = np.linspace(0, len(samples), most + 1, dtype=int)
    picks = [a + int(np.argmax(samples[a:b])) for a, b in pairwise(starts)]
    return [(i, float(samples[i])) for i in picks]


def _counts(most: int) -> list[int]:
    return [0] + [10**k for k in range(len(str(most)))]


def _powers(low: float, high: float) -> list[float]:
    """Powers of two from low to high, every second, third, … so that about eight remain."""
    first, last = int(np.ceil(np.log2(low))), int(np.floor(np.log2(high)))
    step = max(1, round((last - first) / 7))
    return [2.0**k for k in range(first, last + 1, step)]


def _with_unit(title: str, unit: str) -> str:
    return f"{title} ({unit})" if unit else title


def svg_of(chart: Any, words: Words) -> str:
    """The SVG of a chart with its words."""
    return to_svg(chart, name=words.name, title=words.title, description=words.description)
