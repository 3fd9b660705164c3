"""Device records: invariants at birth, derived bandwidths, reasons for what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.device import Gpu, PcieGeneration
from assay.errors import InputError

GPU: dict[str, Any] = {
    "id": "x1",
    "name": "X 1",
    "vendor": "V",
    "source": "paper",
    "architecture": "arch",
    "form": "sxm",
    "nvml_names": ("X 1",),
    "memory_bytes": 2**36,
    "memory_Bps": 2e12,
    "peak_flop_per_s": {"fp16": 4e14, "fp8": 8e14},
    "int8_op_per_s": 8e14,
    "sm_count": 100,
    "boost_clock_Hz": 1.5e9,
    "tensor_clock_Hz": 1.5e9,
    "link": "nvlink",
    "nvlink_generation": 4,
    "links": 18,
    "link_Bps": 25e9,
    "pcie_generation": 5,
    "pcie_lanes": 16,
    "tdp_W": 500.0,
}
PCIE5 = PcieGeneration(
    id="pcie-5",
    name="PCIe 5",
    vendor="PCI-SIG",
    source="paper",
    generation=5,
    lane_transfer_per_s=32e9,
    data_bits=128,
    coded_bits=130,
)


def test_derived_values() -> None:
    gpu = Gpu(**GPU)
    assert gpu.links_Bps == 450e9
    assert gpu.peak("fp8") == 8e14
    assert gpu.peak("int8") == 8e14
    assert gpu.peak("fp4") is None


def test_a_card_without_links_has_no_link_bandwidth() -> None:
    gpu = Gpu(**GPU | {"link": None, "nvlink_generation": None, "links": None, "link_Bps": None})
    assert gpu.links_Bps is None


def test_absence_has_a_reason() -> None:
    gpu = Gpu(**GPU | {"missing": {"peak_flop_per_s.fp32": "not printed"}})
    assert gpu.why_no_peak("fp32") == "not printed"
    assert gpu.why_no_peak("fp4") == "the arch architecture has no fp4 unit"
    assert gpu.why_no_peak("fp16") is None


def test_origin_of_a_field_falls_back_to_the_device() -> None:
    gpu = Gpu(**GPU | {"sources": {"peak_flop_per_s": "a", "peak_flop_per_s.fp8": "b", "tdp_W": "c"}})
    assert gpu.source_id("peak_flop_per_s.fp16") == "a"
    assert gpu.source_id("peak_flop_per_s.fp8") == "b"
    assert gpu.source_id("tdp_W") == "c"
    assert gpu.source_id("sm_count") == "paper"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "X 1"}, "not lower-case"),
        ({"memory_Bps": 0.0}, "memory_Bps = 0 is not positive"),
        ({"memory_Bps": float("nan")}, "memory_Bps = nan is not positive"),
        ({"tdp_W": -1.0}, "tdp_W = -1 is not positive"),
        ({"peak_flop_per_s": {"fp16": 0.0}}, "peak of fp16 = 0 is not positive"),
        ({"peak_flop_per_s": {"fp15": 1.0}}, "unknown dtype 'fp15'"),
        ({"peak_flop_per_s": {"fp8": 1.0}}, "no fp16 peak"),
        ({"form": "card"}, "form 'card' is none of"),
        ({"link": "wire"}, "link 'wire' is unknown"),
        ({"links": None}, "must go together"),
        ({"link": "xgmi"}, "link xgmi with NVLink generation 4"),
        ({"pcie_lanes": None}, "PCIe generation 5 with None lanes"),
        ({"sm_count": None}, "sm_count is None without a reason"),
        ({"missing": {"tdp_W": "secret"}}, "has a value and a reason"),
        ({"sm_count": None, "missing": {"sm_count": " "}}, "gives no reason"),
        ({"sources": {"peak_flop_per_s.fp15": "a"}}, "no field 'peak_flop_per_s.fp15'"),
    ],
)
def test_an_impossible_gpu_is_refused_with_the_numbers(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Gpu(**GPU | change)


@given(st.integers(min_value=1, max_value=31))
def test_more_lanes_carry_proportionally_more(lanes: int) -> None:
    assert PCIE5.one_way_Bps(lanes + 1) / PCIE5.one_way_Bps(lanes) == pytest.approx((lanes + 1) / lanes)


def test_a_link_has_at_least_one_lane() -> None:
    with pytest.raises(InputError, match="0 lanes"):
        PCIE5.one_way_Bps(0)
