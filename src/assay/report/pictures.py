"""Which pictures a run gives, each with its caption and the table of the data in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.criterion import Op
from assay.domain.message import Message
from assay.domain.quantity import Better
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject, natural_key
from assay.domain.verdict import Verdict
from assay.report import charts, heatmap, view
from assay.report.charts import Point, Spot, Words
from assay.report.data import ReportData, Series
from assay.units import show, show_bytes

#: More rows than this are not put into the table under a picture; the worst ones are.
TABLE_ROWS = 64
_SPREADS, _SERIES = 6, 3
#: A quantile needs this many samples: p99 from 300 samples has three above it.
_QUANTILES = (("p50", 0.50, 20), ("p95", 0.95, 60), ("p99", 0.99, 300))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture with its words, and its data as a table.

    `recipe` is that of every value in it, or with `shared` what their recipes have in common. `cut` is
    how many rows there were, where not all are listed.
    """

    name: str
    title: str
    caption: str
    recipe: Recipe
    shared: bool
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    cut: int | None = None


def figures(data: ReportData) -> tuple[Figure, ...]:
    """All pictures of a run, in the order of the page. Needs the packages of the extra `report`."""
    made: list[Figure] = []
    for make in (_spreads, _busbw, _pairs, _latencies, _scaling, _clocks):
        made.extend(make(data))
    return tuple(made)


def _spreads(data: ReportData) -> Iterator[Figure]:
    """Rates per card: judged quantities first, then matrix multiplication, then memory."""
    judged = {j.criterion.quantity for j in data.assessment.judgements}
    groups = [g for g in _groups(data) if g[0].subject.kind in ("gpu", "rank") and len(g) >= 2]
    groups = [g for g in groups if g[0].quantity.startswith(("gemm.", "memory.", "host_device.", "kernel."))]
    groups.sort(key=lambda g: (g[0].quantity not in judged, not g[0].quantity.startswith("gemm.")))
    for number, group in enumerate(groups[:_SPREADS]):
        first, texts = group[0], data.texts
        quantity = texts.quantity(first.quantity)
        name = f"spread-{number}"
        title = texts.say(Message.of("picture.spread.title", name=quantity))
        title += _apart(groups, group)
        many = len(group) > charts.ROWS_AT_MOST
        caption = texts.label("picture.spread.caption_many" if many else "picture.spread.caption")
        bounds = _bounds(data, first)
        if bounds:
            caption += " " + texts.label("picture.bound_dashed")
        words = Words(name=name, title=title, description=caption, x=quantity)
        svg = charts.spots(_spots(data, group), unit=first.unit, words=words, bounds=bounds)
        yield _figure(words, caption, first.recipe, svg, _reading_rows(data, group))


def _apart(groups: Sequence[Sequence[Reading]], group: Sequence[Reading]) -> str:
    """What tells this group's recipe from those of the same quantity, for a title."""
    same = [other[0].recipe for other in groups if other[0].quantity == group[0].quantity]
    telling = view.apart(group[0].recipe, same)
    return f" ({telling})" if telling else ""


def _spots(data: ReportData, group: Sequence[Reading]) -> list[Spot]:
    first = group[0]
    restarts: dict[Subject, list[float]] = defaultdict(list)
    for reading in data.replicates:
        same = reading.quantity == first.quantity and reading.recipe == first.recipe
        if same and reading.number is not None:
            restarts[reading.subject].append(reading.number)
    odd = view.departing(group) | _failed(data, first.quantity)
    return [
        Spot(
            subject=_short(r.subject),
            value=r.number,
            low=r.low,
            high=r.high,
            restarts=tuple(restarts[r.subject]),
            odd=r.subject in odd,
        )
        for r in group
        if r.number is not None
    ]


def _busbw(data: ReportData) -> Iterator[Figure]:
    by_method: dict[str, list[Reading]] = defaultdict(list)
    for reading in _measured(data):
        parts = reading.quantity.split(".")
        if parts[0] == "collective" and parts[-1] == "busbw" and reading.recipe.get("bytes") is not None:
            by_method[str(reading.recipe.get("method") or "other")].append(reading)
    for method, readings in by_method.items():
        texts = data.texts
        title = texts.say(Message.of("picture.busbw.title", method=texts.word(method)))
        code = f"picture.busbw.{method}"
        caption = texts.label(code if texts.has(code) else "picture.busbw.other")
        words = Words(
            name=f"busbw-{method}", title=title, description=caption,
            x=texts.label("picture.axis.size"), y=texts.label("picture.axis.busbw"),
        )  # fmt: skip
        lines = [p for p in (_size_point(data, r) for r in readings) if p is not None]
        if len({p.x for p in lines}) < 2:
            continue
        rows = [
            (data.texts.word(r.quantity.split(".")[1]), show_bytes(float(r.recipe.get("bytes") or 0)),
             view.value_text(r), view.interval_text(r))
            for r in readings
        ]  # fmt: skip
        table = _table(data, ("operation", "message_size", "measured", "interval"), rows)
        recipe = _shared(readings)
        svg = charts.lines(sorted(lines, key=lambda p: p.x), unit="B/s", words=words)
        yield _figure(words, caption, recipe, svg, table, shared=True)


def _size_point(data: ReportData, reading: Reading) -> Point | None:
    size = reading.recipe.get("bytes")
    if reading.number is None or isinstance(size, str | None) or size <= 0:
        return None
    line = data.texts.word(reading.quantity.split(".")[1])
    return Point(line=line, x=float(size), y=reading.number, low=reading.low, high=reading.high)


def _pairs(data: ReportData) -> Iterator[Figure]:
    groups = (g for g in _groups(data) if g[0].quantity.startswith("peer."))
    usual = (g for g in groups if g[0].recipe.get("statistic") not in ("min", "max"))
    for number, group in enumerate(usual):
        cells = [r for r in group if len(r.subject.ends) == 2 and "*" not in r.subject.ends]
        cells = [r for r in cells if r.number is not None]
        names = sorted({end for r in cells for end in r.subject.ends}, key=natural_key)
        if len(names) < 3:
            continue
        texts, first = data.texts, group[0]
        title = texts.say(Message.of("picture.pairs.title", name=texts.quantity(first.quantity)))
        caption = texts.label("picture.pairs.caption")
        words = Words(
            name=f"pairs-{number}", title=title, description=caption,
            x=texts.label("picture.axis.to"), y=texts.label("picture.axis.from"),
        )  # fmt: skip
        odd = view.departing(cells) | _failed(data, first.quantity)
        svg = heatmap.pair_map(_matrix(cells, names, odd), words)
        worst = sorted(cells, key=lambda r: (r.subject not in odd, _goodness(r)))
        rows = [(*r.subject.ends, view.value_text(r), view.interval_text(r)) for r in worst]
        table = _table(data, ("from", "to", "measured", "interval"), rows, most=24)
        yield _figure(words, caption, first.recipe, svg, table)


def _matrix(cells: Sequence[Reading], names: list[str], odd: frozenset[Subject]) -> heatmap.Matrix:
    at = {name: i for i, name in enumerate(names)}
    values = np.full((len(names), len(names)), np.nan)
    marked = []
    for reading in cells:
        i, j = (at[end] for end in reading.subject.ends)
        # A pair has no direction, so it fills both cells; a link only its own.
        for a, b in ((i, j), (j, i)) if reading.subject.kind == "pair" else ((i, j),):
            values[a, b] = reading.number
            if reading.subject in odd:
                marked.append((a, b))
    bad_low = view.better(cells[0].quantity) is not Better.LOWER
    return heatmap.Matrix(
        names=tuple(names), values=values, unit=cells[0].unit, odd=tuple(marked), low_is_bad=bad_low
    )


def _latencies(data: ReportData) -> Iterator[Figure]:
    # Samples of a rate are the times that it was worked out from, and stand under the time already.
    usable = [s for s in data.series if s.unit == "s" and s.quantity.endswith("time")]
    usable = [s for s in usable if len(s.samples) >= 20 and float(s.samples.min()) > 0]
    for number, series in enumerate(usable[:_SERIES]):
        texts = data.texts
        quantity = texts.quantity(series.quantity)
        title = texts.say(Message.of("picture.latency.title", name=quantity))
        telling = view.apart(series.recipe, [s.recipe for s in usable if s.quantity == series.quantity])
        title += f" ({telling})" if telling else ""
        caption = texts.label("picture.latency.caption")
        words = Words(
            name=f"latency-{number}", title=title, description=caption, x=quantity,
            y=texts.label("picture.axis.count"),
        )  # fmt: skip
        marks = _marks(data, series)
        svg = charts.distribution(series.samples, unit=series.unit, words=words, marks=marks)
        rows = [(mark, show(value, series.unit)) for mark, value in marks]
        rows.append((texts.label("report.samples"), f"{len(series.samples):,}"))
        table = _table(data, ("quantile", "value"), rows)
        yield _figure(words, caption, series.recipe, svg, table)


def _marks(data: ReportData, series: Series) -> list[tuple[str, float]]:
    known = [
        (name, float(np.quantile(series.samples, share)))
        for name, share, least in _QUANTILES
        if len(series.samples) >= least
    ]
    return [*known, (data.texts.label("picture.max"), float(series.samples.max()))]


def _scaling(data: ReportData) -> Iterator[Figure]:
    by_setup: dict[Recipe, dict[int, Reading]] = defaultdict(dict)
    for reading in _measured(data):
        ranks = reading.recipe.get("ranks")
        if reading.quantity == "training.tokens_per_s" and isinstance(ranks, int) and reading.number:
            by_setup[reading.recipe.without(("ranks",))][ranks] = reading
    for number, (recipe, by_ranks) in enumerate(by_setup.items()):
        if len(by_ranks) < 2:
            continue
        texts, base = data.texts, min(by_ranks)
        unit = (by_ranks[base].number or 1.0) / base
        points = [_speedup(ranks, by_ranks[ranks], unit) for ranks in sorted(by_ranks)]
        caption = texts.say(Message.of("picture.scaling.caption", base=base))
        words = Words(
            name=f"scaling-{number}", title=texts.label("picture.scaling.title"), description=caption,
            x=texts.label("picture.axis.ranks"), y=texts.label("picture.axis.speedup"),
        )  # fmt: skip
        svg = charts.scaling(points, words=words, ideal=texts.label("picture.ideal"))
        rows = [
            (f"{p.x:g}", view.value_text(by_ranks[int(p.x)]), show(p.y, "count"), show(p.y / p.x, "1"))
            for p in points
        ]
        table = _plain_table(
            (texts.label("report.ranks"), texts.quantity("training.tokens_per_s"), words.y,
             texts.label("report.efficiency")), rows,
        )  # fmt: skip
        yield _figure(words, caption, recipe, svg, table, shared=True)


def _speedup(ranks: int, reading: Reading, unit: float) -> Point:
    low = reading.low / unit if reading.low is not None else None
    high = reading.high / unit if reading.high is not None else None
    return Point(line="", x=ranks, y=(reading.number or 0.0) / unit, low=low, high=high)


def _clocks(data: ReportData) -> Iterator[Figure]:
    for number, group in enumerate(g for g in _groups(data) if g[0].quantity == "clock.offset"):
        texts, first = data.texts, group[0]
        title, caption = texts.label("picture.clock.title"), texts.label("picture.clock.caption")
        words = Words(
            name=f"clock-{number}", title=title, description=caption, x=texts.label("picture.axis.offset")
        )
        bounds = [*_bounds(data, first), *(-bound for bound in _bounds(data, first))]
        svg = charts.spots(_spots(data, group), unit="s", words=words, bounds=bounds)
        yield _figure(words, caption, first.recipe, svg, _reading_rows(data, group))


_Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...], int | None]


def _figure(
    words: Words, caption: str, recipe: Recipe, svg: str, table: _Table, *, shared: bool = False
) -> Figure:
    columns, rows, cut = table
    return Figure(
        name=words.name, title=words.title, caption=caption, recipe=recipe, shared=shared, svg=svg,
        columns=columns, rows=rows, cut=cut,
    )  # fmt: skip


def _reading_rows(data: ReportData, group: Sequence[Reading]) -> _Table:
    many = len(group) > TABLE_ROWS
    order = sorted(group, key=_goodness) if many else group
    rows = [(str(r.subject), view.value_text(r), view.interval_text(r), str(r.n or "–")) for r in order]
    return _table(data, ("subject", "measured", "interval", "samples"), rows)


def _table(
    data: ReportData, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, most: int = TABLE_ROWS
) -> _Table:
    return _plain_table(tuple(data.texts.label(f"report.{column}") for column in columns), rows, most=most)


def _plain_table(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, most: int = TABLE_ROWS
) -> _Table:
    return columns, tuple(rows[:most]), len(rows) if len(rows) > most else None


def _goodness(reading: Reading) -> float:
    """Rises from the worst to the best."""
    value = reading.number or 0.0
    return -value if view.better(reading.quantity) is Better.LOWER else value


def _measured(data: ReportData) -> list[Reading]:
    return [r for r in data.readings if r.origin is Origin.MEASURED]


def _groups(data: ReportData) -> list[tuple[Reading, ...]]:
    return view.by_recipe(r for r in _measured(data) if r.number is not None)


def _bounds(data: ReportData, first: Reading) -> list[float]:
    """Absolute bounds that criteria set for this quantity and recipe."""
    return sorted(
        {
            j.bound
            for j in data.assessment.judgements
            if j.criterion.op in (Op.AT_LEAST, Op.AT_MOST)
            and j.criterion.quantity == first.quantity
            and j.recipe == first.recipe
            and j.bound is not None
        }
    )


def _failed(data: ReportData, quantity_id: str) -> frozenset[Subject]:
    return frozenset(
        j.subject
        for j in data.assessment.judgements
        if j.verdict is Verdict.FAIL and j.criterion.quantity == quantity_id
    )


def _shared(readings: Sequence[Reading]) -> Recipe:
    """What the recipes of all these readings have in common."""
    common = set(readings[0].recipe.items)
    for reading in readings[1:]:
        common &= set(reading.recipe.items)
    return Recipe(tuple(common))


def _short(subject: Subject) -> str:
    return subject.name if subject.kind == "gpu" else f"{subject.kind} {subject.name}"
