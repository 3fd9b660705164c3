"""Looking up shipped hardware, and what a broken data file says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.catalog import devices
from assay.catalog.tables import read_records, shipped_text
from assay.domain.device import Gpu, Source, Switch
from assay.errors import AssayError, InputError, UnknownNameError

SWITCH = """
[switch.s1]
name = "One"
vendor = "V"
source = "paper"
family = "F"
protocols = ["ethernet"]
ports = 4
port_Bps = "100 Gbit/s"
reduction = "SHARP"
"""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("h100", "h100-sxm"),
        ("H100-SXM", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("a100", "a100-sxm-80gb"),
        ("a100_pcie_40gb", "a100-pcie-40gb"),
        ("b200", "b200"),
        ("mi300x", "mi300x"),
    ],
)
def test_people_may_say_a_gpu_in_several_ways(said: str, meant: str) -> None:
    assert devices.gpu(said).id == meant


@pytest.mark.parametrize(
    ("printed", "meant"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_driver_names_lead_to_the_device(printed: str, meant: str) -> None:
    found = devices.gpu_by_nvml_name(printed)
    assert found is not None
    assert found.id == meant


@pytest.mark.parametrize("printed", ["NVIDIA A100-SXM4-80GB MIG 1g.10gb", "GRID V100D-8Q", "", "NVIDIA"])
def test_an_unknown_driver_name_is_none_and_never_a_guess(printed: str) -> None:
    assert devices.gpu_by_nvml_name(printed) is None


def test_nics_switches_and_links_are_found() -> None:
    assert devices.nic("cx7").id == "connectx-7"
    assert devices.switch("quantum-2").id == "qm9700"
    assert devices.nvlink(4).link_Bps == 25e9
    assert devices.pcie(5).encoding == "128b/130b"


def test_a_near_miss_suggests() -> None:
    with pytest.raises(UnknownNameError, match="unknown GPU 'h100-sxm6'") as caught:
        devices.gpu("h100-sxm6")
    assert "'h100-sxm'" in str(caught.value)
    with pytest.raises(UnknownNameError, match="unknown NVLink generation '9'"):
        devices.nvlink(9)


def test_a_number_leads_to_its_document() -> None:
    h100 = devices.gpu("h100")
    assert devices.source_of(h100, "tdp_W").id == "h100-datasheet"
    assert devices.source_of(h100, "peak_flop_per_s.bf16").id == "hopper-whitepaper"
    h800 = devices.gpu("h800")
    assert devices.source_of(h800, "peak_flop_per_s.fp64").id == "h800-report"
    assert devices.source_of(h800, "peak_flop_per_s.fp16").id == "hopper-whitepaper"
    with pytest.raises(UnknownNameError, match="unknown field of h100-sxm 'power'"):
        devices.source_of(h100, "power")


def test_every_document_states_whether_it_was_read() -> None:
    assert {one.verified for one in devices.sources().values()} == {True, False}


def test_two_entries_may_not_share_a_name() -> None:
    one = read_records(SWITCH, file="x.toml", table="switch", kind=Switch)["s1"]
    with pytest.raises(InputError, match="'s1' names both s1 and s1"):
        devices.names_of([one, one])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("ports = 4", "port = 4", r"x\.toml:2: unknown key 'port'\n  fix: did you mean 'port"),
        ("ports = 4", "", r"x\.toml:2: key 'ports' is missing"),
        ("ports = 4", "ports = 0", r"x\.toml:2: s1: ports = 0 is not positive"),
        ("ports = 4", "ports = true", "ports = True is not int"),
        ("ports = 4", 'ports = "4"', "ports = '4' is not int"),
        ('"100 Gbit/s"', "12.5e9", r"port_Bps = 12500000000\.0 has no unit"),
        ('"100 Gbit/s"', '"100 GHz"', "is frequency, but bandwidth"),
        ('["ethernet"]', '"ethernet"', "protocols = 'ethernet' is not a list of text"),
        ('["ethernet"]', '["token-ring"]', "protocol 'token-ring' is none of"),
        ('reduction = "SHARP"', "", "reduction is None without a reason"),
        ("[switch.s1]", "[switch.S1]", "'S1' is not lower-case"),
        ("[switch.s1]", "[switch.s1", "is not TOML"),
        ("[switch.s1]", "[swtch.s1]", r"has no \[switch.<id>\] section"),
        ("ports = 4", 'ports = 4\nsources = { prts = "p" }', "there is no field 'prts'"),
        ("ports = 4", "ports = 4\nsources = { a.b = 1 }", "write a dotted key in quotes"),
    ],
)
def test_a_broken_file_names_file_and_key(old: str, new: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_records(SWITCH.replace(old, new), file="x.toml", table="switch", kind=Switch)


@given(st.integers(min_value=0, max_value=2000), st.sampled_from(["", "?", "]", "\n", '"', "= 1", "[x]\n"]))
def test_damage_anywhere_in_a_data_file_is_a_clean_error_or_harmless(place: int, junk: str) -> None:
    text = shipped_text("gpus_blackwell.toml")
    damaged = text[:place] + junk + text[place + 7 :]
    said = "gpus_blackwell.toml: harmless"
    try:
        read_records(damaged, file="gpus_blackwell.toml", table="gpu", kind=Gpu)
    except AssayError as error:
        said = str(error)
    assert said.startswith("gpus_blackwell.toml")


def test_a_source_needs_a_date_and_an_address() -> None:
    good = '[source.a]\ntitle = "T"\nurl = "https://example.org"\ndate = "2024-05"\nverified = true\n'
    assert read_records(good, file="s.toml", table="source", kind=Source)["a"].date == "2024-05"
    for old, new in (("2024-05", "May 2024"), ("2024-05", "2024-13"), ("https://", ""), ('"T"', '" "')):
        with pytest.raises(InputError, match=r"s\.toml:1"):
            read_records(good.replace(old, new), file="s.toml", table="source", kind=Source)
