"""The clock benchmark, run for real, with clocks that are right, ahead, fast, and set meanwhile."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.measure.benchmarks.clock import Exchange, combine, drift

SHORT = {"exchanges": 120, "drift_s": 0.3}


def only(readings):
    (reading,) = readings
    return reading


def test_ranks_of_one_host_have_the_same_clock(run_benchmark):
    measured = run_benchmark("clock", ranks=3, **SHORT)
    assert measured.outcome.whole
    offsets = measured.readings("clock.offset", reference="rank:0")
    assert [r["subject"] for r in offsets] == ["rank:1", "rank:2"]
    for reading in offsets:
        assert reading["low"] <= 0 <= reading["high"]
        assert reading["low"] <= reading["value"] <= reading["high"]
        assert reading["n"] == reading["samples"]["count"] == 120
    for reading in measured.readings("clock.drift"):
        assert reading["low"] <= 0 <= reading["high"]


def test_a_clock_that_is_ahead_is_found(run_benchmark):
    measured = run_benchmark("clock", corrupt="clock_ahead", **SHORT)
    offset = only(measured.readings("clock.offset"))
    assert offset["low"] <= 0.25 <= offset["high"]
    assert offset["high"] - offset["low"] < 0.05


def test_a_clock_that_is_ahead_and_fast_is_found_by_its_offset_and_drift(run_benchmark):
    measured = run_benchmark("clock", worker=fake_time_on_rank_1("+0.25 x1.05"), **(SHORT | {"drift_s": 0.6}))
    assert measured.outcome.whole, measured.reasons()
    # Since it started, this clock has gained some more.
    offset = only(measured.readings("clock.offset"))
    assert offset["low"] > 0.25
    gained = only(measured.readings("clock.drift"))
    assert gained["low"] <= 0.05 <= gained["high"]
    assert gained["low"] > 0


def fake_time_on_rank_1(faketime):
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("needs libfaketime: apt-get install faketime")
    fake = f'LD_PRELOAD={libraries[0]} FAKETIME="{faketime}"'
    script = f'[ "$2" = 1 ] && export {fake}; exec {sys.executable} -m assay.measure.worker "$@"'
    return ("sh", "-c", script, "sh")


def test_a_clock_that_is_set_meanwhile_is_not_measured(run_benchmark):
    measured = run_benchmark("clock", corrupt=True, **SHORT)
    assert not measured.valued()
    assert measured.outcome.failed == (0, 1)
    assert measured.reasons() == {"the wall clock was set while it was compared (on rank 1)"}


def test_one_rank_has_no_clock_to_compare_with(run_benchmark):
    measured = run_benchmark("clock", ranks=1, **SHORT)
    assert not measured.valued()
    assert measured.reasons() == {"one rank has no other clock to compare with"}


delays_s = st.floats(1e-6, 1e-2)


@given(st.floats(-10, 10), st.lists(st.tuples(delays_s, delays_s), min_size=1, max_size=30))
def test_the_bounds_hold_the_true_offset_however_the_delay_is_split(offset_s, delays):
    exchanges = [Exchange(offset_s, go_s, offset_s + go_s + back_s) for go_s, back_s in delays]
    found = combine(exchanges)
    assert found.low_s <= offset_s <= found.high_s
    lowest_s = min(go_s + back_s for go_s, back_s in delays)
    assert found.high_s - found.low_s >= 0.999 * lowest_s


def test_drift_is_the_change_of_the_offset_over_the_time_between():
    first = combine([Exchange(0.10, 0.0002, 0.1004)])
    last = combine([Exchange(10.15, 10.0002, 10.1504)])
    value, low, high = drift(first, last)
    assert value == pytest.approx(0.005)
    assert low < value < high
