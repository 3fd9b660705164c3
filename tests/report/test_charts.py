"""Pictures from plain records: axes in readable units, odd ones marked, images where marks are too many."""

from __future__ import annotations

import base64
import re
import struct
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.report.charts import ROWS_AT_MOST, Point, Spot, Words, distribution, lines, scaling, spots
from assay.report.heatmap import Matrix, pair_map, png
from assay.report.ink import axis_unit

WORDS = Words(name="picture", title="A < title", description="what it & shows", x="across", y="up")


def matrix(side: int, **more: object) -> Matrix:
    values = np.random.default_rng(1).normal(1e10, 1e8, (side, side))
    np.fill_diagonal(values, np.nan)
    return Matrix(names=tuple(f"h{i}" for i in range(side)), values=values, unit="B/s", **more)  # type: ignore[arg-type]


def cards(count: int) -> list[Spot]:
    return [Spot(subject=f"c{i}", value=7e14, low=6.9e14, high=7.1e14, odd=i == 3) for i in range(count)]


@pytest.mark.parametrize("count", [1, 2, ROWS_AT_MOST, ROWS_AT_MOST + 1])
def test_spots_say_unit_and_bound_and_mark_the_odd_one(count: int) -> None:
    svg = spots(cards(count), unit="FLOP/s", words=WORDS, bounds=[7.2e14])
    ET.fromstring(svg)
    assert "across (TFLOP/s)" in svg
    assert "stroke-dasharray" in svg
    assert ("var(--fail)" in svg) == (count > 3)


def test_a_thousand_cards_cost_no_more_than_a_small_picture() -> None:
    assert len(spots(cards(1024), unit="FLOP/s", words=WORDS)) < 60_000


def test_lines_label_message_sizes_in_binary_units() -> None:
    points = [Point(line="all-reduce", x=2.0**k, y=1e9 * k, low=1e9 * k, high=1e9 * k) for k in range(3, 31)]
    svg = lines(points, unit="B/s", words=WORDS)
    ET.fromstring(svg)
    assert "up (GB/s)" in svg
    assert re.search(r">\d+ KiB<", svg)
    assert re.search(r">\d+ MiB<", svg)


def test_one_spike_among_thousands_is_seen_and_named() -> None:
    samples = np.full(5000, 30e-6) + np.linspace(0, 1e-6, 5000)
    samples[4321] = 900e-6
    svg = distribution(samples, unit="s", words=WORDS, marks=[("p50", 30.5e-6), ("max", 900e-6)])
    ET.fromstring(svg)
    assert "max 900 µs" in svg
    assert len(svg) < 100_000


def test_scaling_shows_efficiency_against_the_ideal_line() -> None:
    svg = scaling([Point(line="", x=1, y=1.0), Point(line="", x=8, y=7.6)], words=WORDS, ideal="ideal")
    assert ">95 %<" in svg
    assert ">ideal<" in svg


def test_title_and_description_are_escaped_and_ids_are_the_pictures_own() -> None:
    root = ET.fromstring(spots(cards(4), unit="FLOP/s", words=WORDS))
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "A < title"  # type: ignore[union-attr]
    assert root.find(f"{space}desc").text == "what it & shows"  # type: ignore[union-attr]
    assert all(element.get("id", "picture-").startswith("picture-") for element in root.iter())


def test_a_small_map_has_a_mark_per_cell_and_a_large_one_is_an_image() -> None:
    small, large = pair_map(matrix(8), WORDS), pair_map(matrix(128, odd=((17, 93),)), WORDS)
    assert "<image" not in small
    assert large.count("<image") == 1
    assert len(large) < 40_000
    ET.fromstring(large)


def test_the_largest_maps_are_shrunk_and_keep_the_worst_cell() -> None:
    big = matrix(1000)
    big.values[123, 777] = 1e9
    svg = pair_map(big, WORDS)
    assert len(svg) < 150_000
    pixels = decode(base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1]))  # type: ignore[index]
    assert pixels.shape == (256, 256)
    assert (pixels == 1).sum() == 1


@pytest.mark.parametrize("low_is_bad", [True, False])
def test_the_noise_of_a_healthy_machine_keeps_to_the_calm_end_of_the_colours(low_is_bad: bool) -> None:
    svg = pair_map(matrix(64, low_is_bad=low_is_bad), WORDS)
    levels = decode(base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1]))  # type: ignore[index]
    shown = levels[levels > 0]
    assert shown.min() > 32 if low_is_bad else shown.max() < 32


def decode(image: bytes) -> np.ndarray:
    width, height = struct.unpack(">II", image[16:24])
    start = image.index(b"IDAT")
    length = struct.unpack(">I", image[start - 4 : start])[0]
    raw = zlib.decompress(image[start + 4 : start + 4 + length])
    return np.frombuffer(raw, np.uint8).reshape(height, width + 1)[:, 1:]


def test_an_image_keeps_order_and_leaves_holes_empty() -> None:
    pixels = decode(png(np.array([[0.0, 1.0], [np.nan, 0.5]]), 0.0, 1.0))
    assert pixels[0, 0] < pixels[1, 1] < pixels[0, 1]
    assert pixels[1, 0] == 0


def test_a_map_without_values_or_of_a_wrong_shape_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        Matrix(names=("a",), values=np.zeros((2, 2)), unit="s")
    with pytest.raises(InputError, match="no value"):
        Matrix(names=("a",), values=np.array([[np.nan]]), unit="s")


@given(st.floats(min_value=1e-9, max_value=1e18), st.sampled_from(["s", "B/s", "FLOP/s", "Hz", "W", "1/s"]))
def test_an_axis_reads_in_numbers_from_one_to_some_thousands(largest: float, unit: str) -> None:
    factor, name = axis_unit([largest / 3, largest], unit)
    assert name.endswith("s") if unit == "s" else name.endswith(unit.removeprefix("1"))
    assert largest / factor < 1000 or (unit == "s" and name == "s") or name.startswith("E")
    assert largest / factor >= 1 or largest < 1
