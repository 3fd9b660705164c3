"""A predicted collective as one HTML page: bandwidth and time by size, NCCL's choice, the link that binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.catalog.messages import Texts
from assay.fabric.collective import CollectiveTimes
from assay.report.charts import Point, Words, lines
from assay.report.page import LANG, embedded, page_environment
from assay.units import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """One size of the curve."""

    bytes: float
    time_s: float
    low_s: float
    high_s: float
    algbw_Bps: float
    busbw_Bps: float
    choice: str
    bound_by: str
    measured_s: float | None
    error_frac: float | None


def render_collective(
    times: CollectiveTimes,
    texts: Texts,
    *,
    cluster: str,
    library: str,
    measured_s: Mapping[int, float],
    assay_version: str,
    answer_json: str | None = None,
) -> str:
    """The page as text. Needs the report extra."""
    rows = list(_rows(times, measured_s))
    env = page_environment(texts)
    page = env.get_template("collective.html.j2").render(
        lang=LANG[texts.lang],
        assay_version=assay_version,
        cluster=cluster,
        library=library,
        op=texts.word(times.op),
        ranks=int(times.ranks.flat[0]),
        nodes=int(times.nodes.flat[0]),
        best=max(row.busbw_Bps for row in rows),
        rows=rows,
        percent=percent,
        compared=bool(measured_s),
        picture=_curve(rows, times.op, texts) if len(rows) > 1 else None,
        extrapolated=times.extrapolated,
    )
    return embedded(answer_json, str(page))


def _rows(times: CollectiveTimes, measured_s: Mapping[int, float]) -> Iterator[SizeRow]:
    algbw, busbw = times.algbw_Bps, times.busbw_Bps
    for at in range(times.bytes.size):
        seconds = measured_s.get(int(times.bytes[at]))
        yield SizeRow(
            bytes=float(times.bytes[at]),
            time_s=float(times.time_s[at]),
            low_s=float(times.low_s[at]),
            high_s=float(times.high_s[at]),
            algbw_Bps=float(algbw[at]),
            busbw_Bps=float(busbw[at]),
            choice=f"{times.algorithm[at]}/{times.protocol[at]}".strip("/"),
            bound_by=str(times.bound_by[at]),
            measured_s=seconds,
            error_frac=None if seconds is None else float(times.time_s[at]) / seconds - 1,
        )


def _curve(rows: list[SizeRow], op: str, texts: Texts) -> str:
    """busbw over size, the band of the 80 % interval, a line for each choice so that switches are seen."""
    points = [
        Point(
            line=row.choice or op,
            x=row.bytes,
            y=row.busbw_Bps,
            low=row.busbw_Bps * row.time_s / row.high_s,
            high=row.busbw_Bps * row.time_s / row.low_s,
        )
        for row in rows
        if row.bytes > 0 and row.time_s > 0
    ]
    line = texts.label("report.measured")
    points += [
        Point(line=line, x=row.bytes, y=row.busbw_Bps * row.time_s / row.measured_s)
        for row in rows
        if row.measured_s
    ]
    words = Words(
        name="busbw",
        title=texts.label("collective.busbw"),
        description=texts.label("collective.busbw.caption"),
        x=texts.label("picture.axis.size"),
        y=texts.label("picture.axis.busbw"),
    )
    return lines(points, unit="B/s", words=words)
