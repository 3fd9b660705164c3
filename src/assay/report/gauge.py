"""A small picture of one judgement: the bound, the interval, and what was claimed and predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.sax.saxutils import quoteattr

from assay.domain.criterion import Op
from assay.domain.verdict import Judgement

WIDTH, HEIGHT, _PAD = 150, 22, 8
_MIDDLE = HEIGHT / 2


def gauge(judgement: Judgement, *, label: str) -> str:
    """SVG text, or nothing where there is no number or no bound to hold it against.

    Left is less, right is more, linear between the smallest and the largest value that it shows.
    """
    measured = judgement.measured
    if measured is None or measured.number is None or judgement.bound is None:
        return ""
    # A spread and a departure from siblings are fractions, whatever the unit of the quantity.
    fraction = judgement.criterion.op in (Op.SPREAD_AT_MOST, Op.UNIFORM)
    if measured.unit != ("1" if fraction else judgement.unit):
        return ""
    every = [*_values(judgement)]
    least, most = min(every), max(every)
    if most == least:
        return ""
    scale = (WIDTH - 2 * _PAD) / (most - least)

    def at(value: float) -> float:
        return round(_PAD + (value - least) * scale, 1)

    return (
        f'<svg class="gauge" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label={quoteattr(label)}>'
        + "".join(_parts(judgement, at))
        + "</svg>"
    )


def _values(judgement: Judgement) -> Iterator[float]:
    for reading in (judgement.measured, judgement.claimed, judgement.predicted):
        if reading is not None:
            yield from (v for v in (reading.number, reading.low, reading.high) if v is not None)
    yield from (v for v in (judgement.bound, judgement.high) if v is not None)


def _parts(judgement: Judgement, at: Callable[[float], float]) -> Iterator[str]:
    """From back to front: where it holds, the track, the bound, promises, interval, value."""
    left, right = _PAD, WIDTH - _PAD
    bound = at(judgement.bound or 0.0)
    upper = at(judgement.high) if judgement.high is not None else right
    start, end = {Op.AT_LEAST: (bound, right), Op.WITHIN: (bound, upper)}.get(
        judgement.criterion.op, (left, bound)
    )
    width = round(max(end - start, 0.0), 1)
    yield f'<rect class="holds" x="{start}" y="3" width="{width}" height="{HEIGHT - 6}" rx="2"/>'
    yield f'<line class="track" x1="{left}" x2="{right}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>'
    for value in (judgement.bound, judgement.high):
        if value is not None:
            yield f'<line class="bound" x1="{at(value)}" x2="{at(value)}" y1="2" y2="{HEIGHT - 2}"/>'
    if judgement.claimed is not None and judgement.claimed.number is not None:
        x = at(judgement.claimed.number)
        yield f'<path class="claimed" d="M{x} {_MIDDLE - 2}l-4 -6h8z"/>'
    if judgement.predicted is not None and judgement.predicted.number is not None:
        yield f'<circle class="predicted" cx="{at(judgement.predicted.number)}" cy="{_MIDDLE}" r="3.2"/>'
    measured = judgement.measured
    if measured is not None and measured.low is not None and measured.high is not None:
        x1, x2 = at(measured.low), at(measured.high)
        yield f'<line class="interval" x1="{x1}" x2="{x2}" y1="{_MIDDLE}" y2="{_MIDDLE}"/>'
    if measured is not None and measured.number is not None:
        yield f'<circle class="value" cx="{at(measured.number)}" cy="{_MIDDLE}" r="3.6"/>'
