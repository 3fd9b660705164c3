"""Kernel models: physical laws on random shapes, and accuracy on the carried tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predict_fixtures import carried

from assay.catalog.devices import gpu
from assay.errors import InputError
from assay.predict.kernels import attention_rates, attention_time_s, fit_error, gemm_rates, gemm_time_s
from assay.predict.tables import TableRow
from assay.predict.validate_kernels import GEMM_NEEDS, validate_kernels

DEVICES = ["a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "gb200", "gb300", "l40s", "rtx-pro-6000-server"]
sides = st.integers(1, 20000)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(DEVICES), sides, sides, sides)
def test_a_product_is_never_faster_than_peak_or_memory(device: str, m: int, n: int, k: int) -> None:
    card = gpu(device)
    rates = gemm_rates([card], ["bf16"])
    time = float(gemm_time_s(rates, m, n, k)[0])
    assert time >= 2 * m * n * k / (1.2 * card.peak_flop_per_s["bf16"])
    assert time >= 2 * (m * k + k * n + m * n) / (1.25 * card.memory_Bps)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(DEVICES), sides, sides, sides, st.integers(1, 4))
def test_a_deeper_product_is_never_faster(device: str, m: int, n: int, k: int, times: int) -> None:
    rates = gemm_rates([gpu(device)], ["bf16"])
    assert gemm_time_s(rates, m, n, k * times)[0] >= gemm_time_s(rates, m, n, k)[0] * (1 - 1e-9)


@settings(deadline=None, max_examples=25)
@given(sides, sides, sides)
def test_a_sustained_clock_is_not_faster_than_a_burst_of_the_same_kernel(m: int, n: int, k: int) -> None:
    rates = gemm_rates([gpu("h100-sxm")], ["bf16"])
    burst = gemm_time_s(rates, m, n, k, sustained=False)[0] - rates.launch_s[0]
    if burst < 10e-3:
        assert gemm_time_s(rates, m, n, k)[0] >= burst * (1 - 1e-9)


def test_an_empty_product_takes_no_time() -> None:
    assert gemm_time_s(gemm_rates([gpu("h100-sxm")], ["bf16"]), 0, 128, 128)[0] == 0


def test_h100_sustains_what_it_is_known_to_sustain() -> None:
    rates = gemm_rates([gpu("h100-sxm")], ["bf16"])
    rate = 2 * 8192.0**3 / float(gemm_time_s(rates, 8192, 8192, 8192)[0])
    assert 650e12 < rate < 790e12


def test_many_products_at_once_equal_each_alone() -> None:
    rates = gemm_rates([gpu("h100-sxm"), gpu("b200")], ["fp8", "fp8"])
    m = np.array([[128.0, 4096.0], [333.0, 8192.0]])
    both = gemm_time_s(rates, m, 1024, 4096)
    alone = gemm_time_s(gemm_rates([gpu("b200")], ["fp8"]), 8192, 1024, 4096)
    assert both.shape == (2, 2)
    assert both[1, 1] == pytest.approx(alone[0])


def test_a_dtype_the_device_lacks_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="a100-sxm-80gb has no fp8 rate"):
        gemm_rates([gpu("a100-sxm-80gb")], ["fp8"])


def test_a_device_without_a_table_has_a_wider_error() -> None:
    assert fit_error(gpu("mi300x"), "bf16")[1] > fit_error(gpu("h100-sxm"), "bf16")[1]


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(DEVICES),
    st.integers(1, 8),
    st.sampled_from([512, 1024, 4096]),
    st.sampled_from([64, 128, 256]),
)
def test_longer_sequences_cost_more_than_in_proportion(
    device: str, batch: int, length: int, width: int
) -> None:
    rates = attention_rates([gpu(device)])
    one = attention_time_s(rates, batch, length, 32, 8, width)[0]
    assert attention_time_s(rates, batch, 2 * length, 32, 8, width)[0] >= 2 * one * (1 - 1e-9)


@pytest.mark.parametrize("device", ["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "gb200", "gb300"])
def test_gemm_error_on_the_carried_table(device: str) -> None:
    rows = carried("kernels", f"gemm_{device}.csv.gz", GEMM_NEEDS)[::7]
    for name, score in validate_kernels(rows).groups.items():
        if score.n and name != "gemm":
            assert score.median_abs_error_frac is not None
            assert score.median_abs_error_frac < 0.07, name
            assert score.p90_abs_error_frac is not None
            assert score.p90_abs_error_frac < 0.2, name


def test_the_rows_of_the_rtx_pro_6000_are_scored_as_stated() -> None:
    found = validate_kernels(carried("kernels", "gemm_rtx_pro_6000_server.csv.gz", GEMM_NEEDS))
    for dtype in ("bf16", "fp8", "fp8-block", "nvfp4"):
        score = found.groups[f"gemm rtx-pro-6000-server {dtype}"]
        assert score.skipped == 0
        said = fit_error(gpu("rtx-pro-6000-server"), dtype)
        assert (score.median_abs_error_frac, score.p90_abs_error_frac) == pytest.approx(said, abs=0.005)


def _row(**cells: str) -> TableRow:
    plain = {"device": "NVIDIA H200", "dtype": "bfloat16", "m": "512", "n": "512", "k": "512"}
    return TableRow(file="own.csv", line=2, cells=plain | {"latency_ms": "0.01"} | cells)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"device": "NVIDIA X1"}, "device 'NVIDIA X1' is not in the catalogue"),
        ({"device": ""}, "device '(no device)' is not in the catalogue"),
        ({"dtype": "int2"}, "dtype 'int2' is not modelled"),
        ({"dtype": "nvfp4"}, "h200-sxm has no fp4 rate"),
        ({"m": "many"}, "m = 'many' is not a number"),
        ({"k": "0"}, "k = '0' is not a positive number"),
        ({"latency_ms": ""}, "latency_ms = '' is not a number"),
    ],
)
def test_a_row_that_cannot_be_predicted_is_kept_and_says_why(cells: dict[str, str], reason: str) -> None:
    good, odd = validate_kernels([_row(), _row(**cells)]).rows
    assert good.skipped is None
    assert odd.predicted is None
    assert reason in str(odd.skipped)


def test_a_device_without_a_table_is_predicted_from_its_datasheet_with_a_wide_range() -> None:
    known, new = validate_kernels([_row(), _row(device="AMD Instinct MI300X")]).rows
    ranges = [float(row.high or 0) / float(row.low or np.inf) for row in (known, new)]
    assert ranges[1] > 1.3 * ranges[0] > 1


def test_only_what_is_timed_again_and_again_is_found_in_the_l2() -> None:
    rates = gemm_rates([gpu("l40s")], ["bf16"])
    small = 1024, 256, 1024
    again = gemm_time_s(rates, *small, sustained=False)[0] - rates.launch_s[0]
    assert gemm_time_s(rates, *small)[0] > again
