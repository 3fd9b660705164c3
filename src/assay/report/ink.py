"""Colours and axes that the charts share: readable in light and in dark, because the page sets the colours.

A chart is drawn in sentinel colours, which no chart uses otherwise. When the SVG is finished they become
`currentColor` and CSS variables, so one picture serves both themes and print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from assay.report.extras import load

INK, MUTED, GRID, ACCENT = "#010101", "#010102", "#010103", "#010104"
PASS, FAIL, UNDECIDED, SURFACE = "#010105", "#010106", "#010107", "#010108"
SERIES = tuple(f"#01020{i}" for i in range(1, 7))

_CSS = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    ACCENT: "var(--accent)",
    PASS: "var(--pass)",
    FAIL: "var(--fail)",
    UNDECIDED: "var(--undecided)",
    SURFACE: "var(--surface)",
} | {colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, start=1)}

FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'PingFang SC', 'Noto Sans CJK SC', sans-serif"

_CONFIG: dict[str, Any] = {
    "background": None,
    "font": FONT,
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "domainColor": GRID,
        "tickColor": GRID,
        "gridColor": GRID,
        "gridWidth": 0.7,
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 9,
        "labelLimit": 170,
        "labelFlush": False,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gradientStrokeColor": GRID,
        "symbolOpacity": 1,
        "symbolSize": 70,
        "columnPadding": 18,
    },
    "header": {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12},
    "text": {"fontSize": 12, "color": INK},
}

_TIME_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def axis_unit(values: Iterable[float], unit: str) -> tuple[float, str]:
    """(divisor, name) of the unit in which an axis over these base-unit values reads best."""
    largest = max((abs(value) for value in values), default=0.0)
    if unit == "1":
        return 0.01, "%"
    if unit in ("count", "text", "degC"):
        return 1.0, {"degC": "°C"}.get(unit, "")
    steps = _TIME_STEPS if unit == "s" else tuple((f, f"{prefix}{unit}") for f, prefix in _PREFIXES)
    if unit == "1/s":
        steps = tuple((f, f"{prefix}/s".lstrip()) for f, prefix in _PREFIXES)
    return next(((factor, name) for factor, name in steps if largest >= factor), steps[-1])


def axis(**options: Any) -> Any:
    """An Altair axis."""
    return load("altair").Axis(**options)


def chart_of(rows: list[dict[str, Any]]) -> Any:
    """An Altair chart of plain rows, which stay in the picture alone."""
    alt = load("altair")
    return alt.Chart(alt.Data(values=rows))


def to_svg(chart: Any, *, name: str, title: str, description: str) -> str:
    """Render a chart: themed, fitted to the page's width, with a title and description for screen readers.

    `name` keeps the ids inside apart from those of other charts on the page.
    """
    # Vega-Lite itself says what is wrong with a chart; checking it against the schema first takes longer
    # than drawing it.
    spec = chart.to_dict(validate=False)
    spec["config"] = _CONFIG
    svg: str = load("vl_convert").vegalite_to_svg(json.dumps(spec))
    svg = re.sub(r'\b(id="|url\(#|href="#)', rf"\1{name}-", svg)
    svg = re.sub(r"#01010[1-8]|#01020[1-6]", lambda match: _CSS[match[0]], svg)
    size = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox', svg)
    width = size[1] if size else "720"
    head = (
        f'<svg role="img" aria-labelledby="{name}-title {name}-desc" style="max-width:{width}px"'
        ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    )
    svg = re.sub(r'<svg xmlns="[^"]*"(?: xmlns:xlink="[^"]*")?', head, svg, count=1)
    words = (
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    )
    return re.sub(r"(<svg[^>]*>)", lambda match: match[1] + words, svg, count=1)
