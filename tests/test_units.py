"""Units: what is read, what is refused, and how values are printed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import units
from assay.errors import UnitError


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("400 Gbit/s", 50e9, "B/s"),
        ("400 Gb/s", 50e9, "B/s"),
        ("400Gbps", 50e9, "B/s"),
        ("50 GB/s", 50e9, "B/s"),
        ("1 GiB/s", 2**30, "B/s"),
        ("312 TFLOPS", 312e12, "FLOP/s"),
        ("312 TFLOP/s", 312e12, "FLOP/s"),
        ("16 MiB", 16 * 2**20, "B"),
        ("16 MB", 16e6, "B"),
        ("10 us", 10e-6, "s"),
        ("10 µs", 10e-6, "s"),
        ("30 min", 1800.0, "s"),
        ("30 d", 30 * 86400.0, "s"),
        ("1000 kIOPS", 1e6, "1/s"),
        ("3.5 %", 0.035, "1"),
        ("20 CNY/h", 20.0, "CNY/h"),
        ("1.98 GHz", 1.98e9, "Hz"),
    ],
)
def test_reads_what_people_write(text, value, unit):
    measure = units.parse(text)
    assert measure.value == pytest.approx(value)
    assert measure.unit == unit


@pytest.mark.parametrize(
    "text", ["400 gbps", "400 GBPS", "5 furlong", "GB/s", "", "1 e", "nan GB/s", "inf s"]
)
def test_never_guesses(text):
    with pytest.raises(UnitError):
        units.parse(text)


def test_a_sloppy_unit_names_both_readings():
    with pytest.raises(UnitError, match="differ by 8"):
        units.parse("400 gb/s")


def test_a_bare_number_is_refused_where_a_unit_matters():
    with pytest.raises(UnitError, match="has no unit"):
        units.parse(400, unit="B/s")
    assert units.parse(0.85, unit="1").value == 0.85


def test_the_wrong_dimension_is_named():
    with pytest.raises(UnitError, match="bandwidth, one direction, but time is wanted"):
        units.parse("400 Gbit/s", unit="s")


def test_the_place_is_told():
    with pytest.raises(UnitError) as caught:
        units.parse("5 parsec", where="promises.yaml:7")
    assert str(caught.value).startswith("promises.yaml:7: ")


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("16Mi", 2**24), ("16MiB", 2**24), ("16MB", 16_000_000), (1024, 1024)]
)
def test_sizes(text, value):
    assert units.parse_bytes(text) == value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (312e12, "FLOP/s", "312 TFLOP/s"),
        (50e9, "B/s", "50 GB/s"),
        (0.0000084, "s", "8.4 µs"),
        (0.982, "1", "98.2 %"),
        (2**24, "B", "16 MiB"),
        (640e9, "B", "640 GB"),
        (1800, "s", "30 min"),
        (0.0, "s", "0 s"),
        (None, "s", "–"),
        (-0.0005, "s", "-500 µs"),
        (1234567.0, "count", "1,234,567"),
        (999.9999e9, "B/s", "1,000 GB/s"),
        ("H100", "text", "H100"),
    ],
)
def test_prints_what_people_say(value, unit, text):
    assert units.show(value, unit) == text


@given(st.floats(1e-12, 1e18), st.sampled_from(["B/s", "FLOP/s", "W", "Hz"]))
def test_what_is_printed_is_read_back(value, unit):
    text = units.show(value, unit, digits=12).replace(",", "")
    assert units.parse(text, unit=unit).value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("step_time_s", "s"), ("peak_flop_per_s", "FLOP/s"), ("link_Bps", "B/s"), ("ranks", None)],
)
def test_the_unit_of_a_name(name, unit):
    assert units.unit_of_name(name) == unit


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("400 Gb", "'GB' or 'Gbit'"),
        ("400 GBps", "'GB/s' or 'Gbit/s'"),
        ("50 gB/s", "'GB/s' or 'Gbit/s'"),
        ("16 mib", "'MiB' or 'Mibit'"),
        ("400 Gbits/s", "write 'Gbit/s'"),
        ("5 kbytes", "write 'kB'"),
    ],
)
def test_bits_and_bytes_are_never_guessed(text, fix):
    with pytest.raises(UnitError) as caught:
        units.parse(text)
    assert fix in str(caught.value)
