"""The shipped device data against physics: ratios, counts times rates, and an origin for every number."""

from __future__ import annotations

import dataclasses
import re

import pytest

from assay.catalog import devices
from assay.domain.device import PEAK_DTYPES, Device, Gpu, Nic, Switch

# Dense FLOP per clock and SM (AMD: compute unit), FMA counted as two. NVIDIA: the architecture papers of
# V100, A100, H100, Ada and RTX Blackwell; data-centre Blackwell from its datasheet's ratios. AMD: the
# CDNA 3 and CDNA 4 papers. GeForce halves tensor rates with FP32 accumulation, hence ada-geforce
# and blackwell-geforce.
FLOP_PER_CLOCK = {
    "volta": {"fp64": 64, "fp32": 128, "fp16": 1024},
    "ampere": {"fp64": 64, "fp64_tc": 128, "fp32": 128, "tf32": 1024, "fp16": 2048, "int8": 4096},
    "hopper": {
        "fp64": 128,
        "fp64_tc": 256,
        "fp32": 256,
        "tf32": 2048,
        "fp16": 4096,
        "fp8": 8192,
        "int8": 8192,
    },
    "ada": {"fp32": 256, "tf32": 512, "fp16": 1024, "fp8": 2048, "int8": 2048},
    "ada-geforce": {"fp64": 4, "fp32": 256, "tf32": 256, "fp16": 512, "fp8": 1024, "int8": 2048},
    "blackwell-rtx": {"fp32": 256, "tf32": 512, "fp16": 1024, "fp8": 2048, "fp4": 4096, "int8": 2048},
    "blackwell-geforce": {"fp32": 256, "tf32": 256, "fp16": 512, "fp8": 1024, "fp4": 4096, "int8": 2048},
    "blackwell": {"fp64": 128, "fp64_tc": 128, "fp32": 256, "tf32": 4096, "fp16": 8192, "fp8": 16384},
    "blackwell-ultra": {"fp32": 256, "tf32": 4096, "fp16": 8192, "fp8": 16384},
    "cdna3": {
        "fp64": 128,
        "fp64_tc": 256,
        "fp32": 256,
        "tf32": 1024,
        "fp16": 2048,
        "fp8": 4096,
        "int8": 4096,
    },
    "cdna4": {
        "fp64": 128,
        "fp64_tc": 128,
        "fp32": 256,
        "fp16": 4096,
        "fp8": 8192,
        "fp4": 16384,
        "int8": 8192,
    },
}
#: Rates that follow the vector clock; FP64 tensor operations run at it too (H100 architecture paper).
VECTOR = {"fp64", "fp64_tc", "fp32"}
#: Cut by export rules, not by SMs and clocks.
CUT = {"h800-sxm": {"fp64", "fp64_tc"}, "h800-pcie": {"fp64", "fp64_tc"}}
#: All links of one device, both directions, as the vendors print it, in GB/s.
PRINTED_LINK_TOTAL = {
    "v100-sxm2-16gb": 300,
    "v100-sxm2-32gb": 300,
    "a100-sxm-40gb": 600,
    "a100-sxm-80gb": 600,
    "a100-pcie-40gb": 600,
    "a100-pcie-80gb": 600,
    "a800-sxm-80gb": 400,
    "a800-pcie-80gb": 400,
    "h100-sxm": 900,
    "h100-pcie": 600,
    "h100-nvl": 600,
    "h800-sxm": 400,
    "h800-pcie": 400,
    "h20": 900,
    "h20-141gb": 900,
    "h200-sxm": 900,
    "h200-nvl": 900,
    "b200": 1800,
    "gb200": 1800,
    "b300": 1800,
    "gb300": 1800,
    "mi300x": 896,
    "mi355x": 1075.2,
    "ascend-910b-376t": 392,
    "ascend-910b-313t": 392,
    "ascend-910c": 784,
}
#: What nvidia-smi printed on running cards, MiB (sources h20-nvidia-smi, h200-nvl-clock, b300-observed,
#: aiconfigurator-rtx-pro-6000).
SEEN_MIB = {"h20": 97871, "h200-nvl": 143771, "b300": 275040, "rtx-pro-6000-server": 97887}

ALL_GPUS = pytest.mark.parametrize("gpu", devices.gpus(), ids=lambda one: one.id)
ALL_DEVICES = pytest.mark.parametrize("device", devices.devices(), ids=lambda one: one.id)


def _architecture(gpu: Gpu) -> str:
    return {"rtx-4090": "ada-geforce", "rtx-5090": "blackwell-geforce"}.get(gpu.id, gpu.architecture)


@ALL_GPUS
def test_formats_of_one_unit_keep_their_ratios(gpu: Gpu) -> None:
    fp16 = gpu.peak("fp16")
    assert fp16 is not None
    if gpu.architecture != "volta":
        assert gpu.peak("bf16") == fp16
    for dtype, ratio in (("tf32", 0.5), ("fp8", 2.0)):
        peak = gpu.peak(dtype)
        if peak is not None:
            assert peak == pytest.approx(fp16 * ratio, rel=0.015), f"{dtype} should be {ratio} x fp16"
    fp8, fp4, int8 = gpu.peak("fp8"), gpu.peak("fp4"), gpu.peak("int8")
    if fp4 is not None and fp8 is not None:
        # Blackwell Ultra trades int8 and FP64 for FP4; GeForce halves fp8 with FP32 accumulation, not fp4.
        ratio = {"blackwell-ultra": 3.0, "blackwell-geforce": 4.0}.get(_architecture(gpu), 2.0)
        assert fp4 == pytest.approx(fp8 * ratio, rel=0.01)
    if int8 is not None and gpu.architecture != "blackwell-ultra":
        geforce = gpu.id in ("rtx-4090", "rtx-5090")
        assert int8 == pytest.approx(fp16 * (4.0 if geforce else 2.0), rel=0.015)


@ALL_GPUS
def test_double_precision_is_never_faster_than_single(gpu: Gpu) -> None:
    fp64, fp64_tc, fp32 = gpu.peak("fp64"), gpu.peak("fp64_tc"), gpu.peak("fp32")
    if fp64 is not None and fp32 is not None:
        assert fp64 <= fp32 / 1.9
    if fp64_tc is not None and fp64 is not None and fp32 is not None:
        assert fp64 <= fp64_tc <= fp32 * 1.001


@ALL_GPUS
def test_peaks_are_units_times_clock(gpu: Gpu) -> None:
    rates = FLOP_PER_CLOCK.get(_architecture(gpu), {})
    checked = 0
    for dtype, per_clock in rates.items():
        peak = gpu.peak(dtype)
        clock = gpu.boost_clock_Hz if dtype in VECTOR else gpu.tensor_clock_Hz
        if peak is None or clock is None or gpu.sm_count is None or dtype in CUT.get(gpu.id, ()):
            continue
        assert gpu.sm_count * per_clock * clock == pytest.approx(peak, rel=0.02), f"{gpu.id} {dtype}"
        checked += 1
    unknown = {"boost_clock_Hz", "tensor_clock_Hz", "sm_count"} & set(gpu.missing)
    assert checked or unknown, "no peak could be checked, and nothing says why"


@pytest.mark.parametrize("gpu", [one for one in devices.gpus() if one.sm_count], ids=lambda one: one.id)
def test_a_sparse_figure_would_need_an_impossible_clock(gpu: Gpu) -> None:
    fp16 = gpu.peak("fp16")
    assert fp16 is not None
    assert gpu.sm_count is not None
    needed_Hz = fp16 / (gpu.sm_count * FLOP_PER_CLOCK[_architecture(gpu)]["fp16"])
    assert needed_Hz <= 1.01 * (gpu.boost_clock_Hz or 2.1e9), f"{gpu.id}: fp16 needs {needed_Hz:.3g} Hz"


@ALL_GPUS
def test_links_times_rate_is_half_the_printed_total(gpu: Gpu) -> None:
    if gpu.links_Bps is None:
        assert gpu.id not in PRINTED_LINK_TOTAL
        return
    assert 2 * gpu.links_Bps == pytest.approx(PRINTED_LINK_TOTAL[gpu.id] * 1e9, rel=1e-6)
    if gpu.nvlink_generation is not None:
        assert gpu.link_Bps == devices.nvlink(gpu.nvlink_generation).link_Bps


@ALL_GPUS
def test_memory_is_plausible(gpu: Gpu) -> None:
    assert gpu.memory_bytes % 2**30 == 0
    assert 16 <= gpu.memory_bytes / 2**30 <= 512
    assert 0.8e12 <= gpu.memory_Bps <= 10e12
    # Reading the whole memory once takes 10 to 65 ms on every accelerator so far.
    assert 0.010 <= gpu.memory_bytes / gpu.memory_Bps <= 0.065
    if gpu.id in SEEN_MIB:
        assert 0.99 <= SEEN_MIB[gpu.id] * 2**20 / gpu.memory_bytes <= 1.0


@ALL_GPUS
def test_host_link_and_power_are_plausible(gpu: Gpu) -> None:
    if gpu.pcie_generation is not None and gpu.pcie_lanes is not None:
        host_Bps = devices.pcie(gpu.pcie_generation).one_way_Bps(gpu.pcie_lanes)
        assert host_Bps < gpu.memory_Bps
        if gpu.links_Bps is not None:
            assert host_Bps < gpu.links_Bps
    if gpu.tdp_W is not None:
        assert 200 <= gpu.tdp_W <= 2000


@pytest.mark.parametrize(
    ("generation", "x16_GBps"), [(1, 4.0), (2, 8.0), (3, 15.75), (4, 31.5), (5, 63.0), (6, 121.0)]
)
def test_pcie_generations_give_their_known_x16_bandwidth(generation: int, x16_GBps: float) -> None:
    assert devices.pcie(generation).one_way_Bps(16) == pytest.approx(x16_GBps * 1e9, rel=0.002)


@pytest.mark.parametrize("nic", devices.nics(), ids=lambda one: one.id)
def test_a_port_fits_through_the_slot(nic: Nic) -> None:
    slot_Bps = devices.pcie(nic.pcie_generation).one_way_Bps(nic.pcie_lanes)
    assert nic.rate_Bps <= slot_Bps, f"{nic.id}: a port of {nic.rate_Bps:g} B/s in a slot of {slot_Bps:g} B/s"


@pytest.mark.parametrize("switch", devices.switches(), ids=lambda one: one.id)
def test_switch_ports_carry_the_links_they_are_for(switch: Switch) -> None:
    if switch.protocols == ("nvlink",):
        assert switch.port_Bps in {one.link_Bps for one in devices.nvlinks()}
    else:
        assert switch.port_Bps * 8 / 1e9 in {100, 200, 400, 800}


@pytest.mark.parametrize(
    ("name", "one_way_tbit_s"), [("qm8700", 8.0), ("qm9700", 25.6), ("q3400", 115.2), ("sn5600", 51.2)]
)
def test_switches_have_their_printed_capacity(name: str, one_way_tbit_s: float) -> None:
    assert devices.switch(name).total_Bps * 8 == pytest.approx(one_way_tbit_s * 1e12)


def test_newer_generations_are_not_slower() -> None:
    nvlink = [one.link_Bps for one in sorted(devices.nvlinks(), key=lambda one: one.generation)]
    pcie = [one.one_way_Bps() for one in sorted(devices.pcies(), key=lambda one: one.generation)]
    assert nvlink == sorted(nvlink)
    assert pcie == sorted(set(pcie))


def test_names_are_unique() -> None:
    for entries in (devices.gpus(), devices.nics(), devices.switches()):
        devices.names_of(entries)
    printed = [name for gpu in devices.gpus() for name in gpu.nvml_names]
    assert len(printed) == len(set(printed))
    assert all(devices.gpu_by_nvml_name(name) is gpu for gpu in devices.gpus() for name in gpu.nvml_names)
    hca_types = [name for nic in devices.nics() for name in nic.hca_types]
    assert len(hca_types) == len(set(hca_types))


@ALL_DEVICES
def test_every_value_has_a_source_with_a_date(device: Device) -> None:
    numbers = [
        entry.name
        for entry in dataclasses.fields(device)
        if isinstance(getattr(device, entry.name), int | float)
    ]
    if isinstance(device, Gpu):
        numbers += [f"peak_flop_per_s.{dtype}" for dtype in device.peak_flop_per_s]
    assert numbers
    for path in numbers:
        assert re.match(r"(19|20)\d\d", devices.source_of(device, path).date), path


def test_no_source_is_unused_and_no_override_repeats_the_default() -> None:
    used = {name for one in devices.devices() for name in (one.source, *one.sources.values())}
    assert used == set(devices.sources())
    idle = [one.id for one in devices.devices() if one.source in one.sources.values()]
    assert not idle, f"{idle}: an override names the default source"


@ALL_GPUS
def test_an_override_is_for_a_field_that_has_a_value(gpu: Gpu) -> None:
    assert all(gpu.value(path) is not None for path in gpu.sources)
    assert all(gpu.why_no_peak(dtype) or gpu.peak(dtype) for dtype in (*PEAK_DTYPES, "int8"))
