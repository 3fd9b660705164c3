"""Tables of GEMM results."""

from __future__ import annotations

import pytest
from format_samples import sample
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, InputError
from assay.formats.gemm_table import GemmRow, parse


def row_of(*lines: str) -> GemmRow:
    return parse(lines, "g.csv")[0].rows[0]


def test_a_table_of_eight_cards():
    (table,) = parse(sample("gemm_mamf.csv"), "g.csv")
    assert (len(table.rows), table.comments) == (8, (1,))
    row = table.rows[0]
    assert (row.line, row.host, row.device, row.dtype, row.m, row.statistic) == (
        3,
        "node07",
        "0",
        "bf16",
        8192,
        "median",
    )
    assert row.rate_per_s == pytest.approx(745.1e12)
    assert row.time_s == pytest.approx(2 * 8192**3 / 745.1e12, rel=1e-5)


@pytest.mark.parametrize(
    ("title", "factor"),
    [
        ("TFLOPS", 1e12),
        ("tflop/s", 1e12),
        ("GFLOPs", 1e9),
        ("tflops_mean", 1e12),
        ("Max TFLOP/s", 1e12),
        ("TOPS", 1e12),
        ("TFLOP per s", 1e12),
    ],
)
def test_names_of_the_rate(title: str, factor: float):
    assert row_of(f"m;n;k;{title}", "64;64;64;1.5").rate_per_s == pytest.approx(1.5 * factor)


@pytest.mark.parametrize(
    ("title", "unit_s"), [("time_us", 1e-6), ("time (ms)", 1e-3), ("Latency [µs]", 1e-6), ("duration_s", 1.0)]
)
def test_a_rate_is_worked_out_from_a_time_with_its_unit(title: str, unit_s: float):
    row = row_of(f"shape,{title}", "128x256x512,4")
    assert (row.rate_from, row.n) == ("time", 256)
    assert row.rate_per_s == pytest.approx(2 * 128 * 256 * 512 / (4 * unit_s))


@pytest.mark.parametrize("title", ["time", "perf", "FLOPS", "Throughput"])
def test_a_unit_is_never_guessed(title: str):
    with pytest.raises(InputError, match="does not say its unit"):
        parse([f"m,n,k,{title}", "1,1,1,1"], "g.csv")


def test_unknown_columns_are_listed_with_a_suggestion():
    with pytest.raises(InputError, match="unknown columns: 'tflosp', 'colour'") as caught:
        parse(["m,n,k,tflosp,colour", "1,1,1,1,red"], "g.csv")
    assert "did you mean 'tflops'" in str(caught.value)


def test_a_rate_that_contradicts_its_time_is_refused_with_the_arithmetic():
    with pytest.raises(
        InputError, match=r"2·1000·1000·1000 FLOP in 0\.001 s is 2 TFLOP/s, but the table says 4"
    ):
        parse(["m,n,k,tflops,time_ms", "1000,1000,1000,4,1"], "g.csv")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["m,n,k,tflops", "1,1,1"], "3 cells in this row, but the header has 4"),
        (["m,n,k,tflops", "1,1,1,fast"], "not a positive number"),
        (["m,n,k,tflops", "1,1,1,-3"], "not a positive number"),
        (["m,n,k,tflops", "1.5,1,1,3"], "not a whole number"),
        (["m,n,k,time_us", "-2,1,1,3"], "not a whole number"),
        (["m,n,k,tflops", '1,1,1,"3'], "not a row of CSV"),
        (["m,n,k,tflops", "1,1,1,"], "no rate"),
        (["m,n,k,tflops"], "no result row"),
        (["m,n,k", "1,1,1"], "neither a rate nor a time"),
        (["m,m,tflops", "1,1,1"], "two columns mean the same: m"),
        (["shape,tflops", "big,1"], "not a shape"),
        (["dtype,tflops", "bf61,1"], "did you mean"),
        ([], "no result row"),
    ],
)
def test_what_cannot_be_read_is_refused(lines: list[str], message: str):
    with pytest.raises(AssayError, match=message):
        parse(lines, "g.csv")


@given(
    st.lists(
        st.tuples(st.integers(1, 65536), st.integers(1, 65536), st.integers(1, 65536), st.floats(1e-3, 1e4)),
        min_size=1,
    )
)
def test_what_is_printed_is_read_back(rows: list[tuple[int, int, int, float]]):
    lines = ["M,N,K,dtype,TFLOPS", *(f"{m},{n},{k},torch.float16,{rate!r}" for m, n, k, rate in rows)]
    (table,) = parse(lines, "g.csv")
    assert [(row.m, row.n, row.k) for row in table.rows] == [row[:3] for row in rows]
    for row, (*_, rate) in zip(table.rows, rows, strict=True):
        assert row.rate_per_s == pytest.approx(rate * 1e12)
        assert row.dtype == "fp16"
