"""The map of pairs: a mark per cell while it is small, one embedded image above that."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.report.charts import Words
from assay.report.extras import load
from assay.report.ink import FAIL, INK, axis_unit, to_svg

#: A side longer than this makes an image: 128 × 128 marks are 3 MB of SVG, the image is some kilobytes.
MARKS_AT_MOST = 48
#: A side longer than this is shrunk first; each pixel then shows the worst of its block.
_PIXELS_AT_MOST = 256
_LEVELS = 64
_BAD_FRAC, _GOOD_FRAC = 0.15, 0.03
#: From the worst to the best: the many good cells are calm, a bad one is pale and stands out in both themes.
_STOPS = (
    (250, 222, 160), (212, 212, 158), (154, 194, 163), (98, 170, 164),
    (62, 139, 160), (48, 104, 146), (43, 70, 118),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Values from row `i` to column `j`, shape (n, n) in the base unit `unit`; NaN where there is none.

    `odd` are the (row, column) cells to mark. `low_is_bad` says which end is the worst.
    """

    names: tuple[str, ...]
    values: NDArray[np.float64]
    unit: str
    odd: tuple[tuple[int, int], ...] = ()
    low_is_bad: bool = True

    def __post_init__(self) -> None:
        side = len(self.names)
        if self.values.shape != (side, side):
            raise InputError(f"a map of {side} names needs shape ({side}, {side}), not {self.values.shape}")
        if not np.isfinite(self.values).any():
            raise InputError(f"a map of {side} names has no value at all")


def pair_map(matrix: Matrix, words: Words) -> str:
    """SVG of the map; see `MARKS_AT_MOST`."""
    draw = _marks if len(matrix.names) <= MARKS_AT_MOST else _image
    return to_svg(draw(matrix, words), name=words.name, title=words.title, description=words.description)


def _marks(matrix: Matrix, words: Words) -> Any:
    alt = load("altair")
    factor, unit = axis_unit(matrix.values[np.isfinite(matrix.values)].tolist(), matrix.unit)
    low, high = _range(matrix.values / factor, matrix.low_is_bad)
    names, side = list(matrix.names), len(matrix.names)
    rows = [
        {"from": names[i], "to": names[j], "value": float(value) / factor, "odd": (i, j) in matrix.odd,
         "text": f"{value / factor:.3g}",
         "ink": _ink((value / factor - low) / (high - low), matrix.low_is_bad)}
        for (i, j), value in np.ndenumerate(matrix.values) if np.isfinite(value)
    ]  # fmt: skip
    angle = 0 if max(map(len, names)) * 7 < 440 / side else -45
    x = alt.X("to:N", sort=names, title=words.x, axis=alt.Axis(orient="top", labelAngle=angle))
    y = alt.Y("from:N", sort=names, title=words.y)
    colour = alt.Color(
        "value:Q", title=unit, scale=alt.Scale(domain=[low, high], range=_hexes(matrix.low_is_bad))
    )
    data = alt.Data(values=rows)
    layers = [alt.Chart(data).mark_rect(cornerRadius=2 if side <= 16 else 0).encode(x=x, y=y, color=colour)]
    if side <= 12:
        for ink in ("#ffffff", "#1a1a1a"):
            on = alt.Chart(alt.Data(values=[row for row in rows if row["ink"] == ink]))
            layers.append(on.mark_text(fontSize=11, color=ink).encode(x=x, y=y, text="text:N"))
    odd = alt.Chart(alt.Data(values=[row for row in rows if row["odd"]]))
    layers.append(odd.mark_rect(filled=False, stroke=FAIL, strokeWidth=2.5).encode(x=x, y=y))
    step = 58 if side <= 12 else 480 / side
    return alt.layer(*layers).properties(width=step * side, height=step * side * (0.6 if side <= 12 else 1))


def _image(matrix: Matrix, words: Words) -> Any:
    alt = load("altair")
    factor, unit = axis_unit(matrix.values[np.isfinite(matrix.values)].tolist(), matrix.unit)
    low, high = _range(matrix.values / factor, matrix.low_is_bad)
    pixels = base64.b64encode(png(_shrink(matrix) / factor, low, high, low_is_bad=matrix.low_is_bad)).decode(
        "ascii"
    )
    side, size = len(matrix.names), 480
    ends = alt.Data(values=[{"at": 0, "value": low}, {"at": side, "value": high}])
    domain = alt.Scale(domain=[0, side], nice=False)
    ticks = [float(tick) for tick in np.linspace(0, side - 1, 5, dtype=int)]
    names = ",".join(f"'{name}'" for name in (_quoted(matrix.names[int(tick)]) for tick in ticks))
    label = f"[{names}][indexof([{','.join(map(str, ticks))}], datum.value)]"
    axis = {"values": ticks, "labelExpr": label, "grid": False}
    x = alt.X("at:Q", scale=domain, title=words.x, axis=alt.Axis(orient="top", **axis))
    y = alt.Y("at:Q", scale=alt.Scale(domain=[side, 0], nice=False), title=words.y, axis=alt.Axis(**axis))
    picture = alt.Chart(alt.Data(values=[{}])).mark_image(
        width=size, height=size, align="left", baseline="top", aspect=False, smooth=False
    )
    picture = picture.encode(x=alt.value(0), y=alt.value(0), url=alt.value(f"data:image/png;base64,{pixels}"))
    colour = alt.Color(
        "value:Q", title=unit, scale=alt.Scale(domain=[low, high], range=_hexes(matrix.low_is_bad))
    )
    scale = alt.Chart(ends).mark_point(opacity=0).encode(x=x, y=y, color=colour)
    spots = alt.Data(values=[{"x": j + 0.5, "y": i + 0.5} for i, j in matrix.odd])
    rings = alt.Chart(spots).mark_point(size=120, color=FAIL, strokeWidth=2.5, filled=False)
    rings = rings.encode(x=alt.X("x:Q", scale=domain), y=alt.Y("y:Q"))
    frame = alt.Chart(alt.Data(values=[{}])).mark_rect(filled=False, stroke=INK, strokeOpacity=0.3)
    frame = frame.encode(x=alt.value(0), x2=alt.value(size), y=alt.value(0), y2=alt.value(size))
    return alt.layer(picture, frame, scale, rings).properties(width=size, height=size)


def png(values: NDArray[np.float64], low: float, high: float, *, low_is_bad: bool = True) -> bytes:
    """An indexed PNG, one pixel for each value; NaN is transparent.

    Written by hand: 20 lines against a package that the report would need for nothing else.
    """
    height, width = values.shape
    level = np.nan_to_num((values - low) / ((high - low) or 1.0) * (_LEVELS - 1))
    index = 1 + np.clip(np.rint(level), 0, _LEVELS - 1).astype(np.uint8)
    index[~np.isfinite(values)] = 0
    # Each line of pixels starts with the number of its filter: 0, none.
    raw = np.hstack([np.zeros((height, 1), np.uint8), index]).tobytes()
    palette = bytes([0, 0, 0]) + b"".join(bytes(colour) for colour in _ramp(_LEVELS, low_is_bad))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", bytes([0])),
        (b"IDAT", zlib.compress(raw, 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _shrink(matrix: Matrix) -> NDArray[np.float64]:
    """At most `_PIXELS_AT_MOST` a side; a block is shown by its worst value, so none is averaged away."""
    side = len(matrix.names)
    if side <= _PIXELS_AT_MOST:
        return matrix.values
    starts = np.linspace(0, side, _PIXELS_AT_MOST, endpoint=False, dtype=int)
    empty, worst = (np.inf, np.minimum) if matrix.low_is_bad else (-np.inf, np.maximum)
    filled = np.where(np.isfinite(matrix.values), matrix.values, empty)
    small: NDArray[np.float64] = worst.reduceat(worst.reduceat(filled, starts, axis=0), starts, axis=1)
    return np.where(np.isfinite(small), small, np.nan)


def _range(values: NDArray[np.float64], low_is_bad: bool) -> tuple[float, float]:
    """Lowest and highest value of the colours: at least 15 % to the bad side of the median, 3 % to the good.

    Otherwise the noise of a healthy machine would take the whole ramp and look like faults.
    """
    median = float(np.nanmedian(values))
    below, above = (_BAD_FRAC, _GOOD_FRAC) if low_is_bad else (_GOOD_FRAC, _BAD_FRAC)
    low = min(float(np.nanmin(values)), median - below * abs(median))
    high = max(float(np.nanmax(values)), median + above * abs(median))
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _ramp(levels: int, low_is_bad: bool) -> list[tuple[int, int, int]]:
    """Colours from the lowest value to the highest."""
    stops = np.array(_STOPS if low_is_bad else _STOPS[::-1], dtype=float)
    at = np.linspace(0, len(stops) - 1, levels)
    channels = [np.interp(at, range(len(stops)), stops[:, channel]) for channel in range(3)]
    return [(int(r), int(g), int(b)) for r, g, b in np.stack(channels, axis=1)]


def _hexes(low_is_bad: bool) -> list[str]:
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in _ramp(len(_STOPS), low_is_bad)]


def _ink(share: float, low_is_bad: bool) -> str:
    """Light text on the dark cells, which are the good ones. `share` runs from lowest to highest."""
    return "#ffffff" if (share if low_is_bad else 1 - share) > 0.6 else "#1a1a1a"


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
