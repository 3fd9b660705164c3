from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import fake_sysfs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probing import NODE, find

from assay.probe import Roots
from assay.probe.pcie import acs_redirects, bandwidth_Bps, generation, read_bus, read_link

SPEEDS = ["2.5 GT/s", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe"]


@pytest.mark.parametrize(("number", "speed"), list(enumerate(SPEEDS, start=1)))
def test_each_link_speed_is_a_generation(number: int, speed: str) -> None:
    assert generation(speed) == number


def test_bandwidth_grows_with_generation_and_lanes() -> None:
    lanes = [1, 2, 4, 8, 16]
    table = [[bandwidth_Bps(speed, width) for width in lanes] for speed in SPEEDS]
    assert all(a < b for row in table for a, b in pairwise(row))
    assert all(a < b for column in zip(*table, strict=True) for a, b in pairwise(column))
    assert bandwidth_Bps("16.0 GT/s PCIe", 16) == pytest.approx(31.5e9, rel=0.001)


def test_a_narrow_link_shows_beside_what_it_could_be(roots: Roots) -> None:
    device = roots.sys / "bus/pci/devices/0000:1a:00.0"
    fake_sysfs.write(device / "current_link_width", "8")
    fake_sysfs.write(device / "current_link_speed", "16.0 GT/s PCIe")
    facts = read_link(NODE, device)
    assert (find(facts, "pcie.width_current").value, find(facts, "pcie.width_max").value) == (8, 16)
    now, most = find(facts, "pcie.bandwidth_current").value, find(facts, "pcie.bandwidth_max").value
    assert now == pytest.approx(most / 4)


@pytest.mark.parametrize(
    ("name", "text"),
    [("current_link_speed", "Unknown"), ("current_link_speed", "7 GT/s"), ("current_link_width", "63")],
)
def test_a_link_that_tells_nonsense_has_no_bandwidth(roots: Roots, name: str, text: str) -> None:
    device = roots.sys / "bus/pci/devices/0000:1a:00.0"
    fake_sysfs.write(device / name, text)
    bandwidth = find(read_link(NODE, device), "pcie.bandwidth_current")
    assert bandwidth.value is None
    assert bandwidth.reason


def test_the_bus_of_a_healthy_machine(roots: Roots) -> None:
    facts = read_bus(NODE, roots)
    assert find(facts, "pcie.gpus").value == 2
    assert find(facts, "pcie.acs_redirecting_bridges").value == 0
    assert find(facts, "iommu.groups").value == 1
    assert find(facts, "iommu.mode").value == "identity"
    assert find(facts, "iommu.kernel_args").value == "iommu=pt intel_iommu=on"


def test_bridges_that_redirect_peer_traffic_are_counted(top: Path, roots: Roots) -> None:
    fake_sysfs.bridge(top, "0000:00:02.0", acs=fake_sysfs.ACS_REDIRECTING)
    fake_sysfs.bridge(top, "0000:00:03.0", acs=fake_sysfs.ACS_REDIRECTING)
    fake_sysfs.bridge(top, "0000:00:04.0", acs=None)
    assert find(read_bus(NODE, roots), "pcie.acs_redirecting_bridges").value == 2


def test_access_control_is_unknown_where_config_space_is_cut(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "bus/pci/devices/0000:00:01.0/config", bytes(64))
    fact = find(read_bus(NODE, roots), "pcie.acs_redirecting_bridges")
    assert (fact.value, fact.reason) == (None, "needs root: only 64 bytes of config space are readable")


@given(st.binary(min_size=65, max_size=1024))
def test_any_config_space_is_walked_to_an_end(config: bytes) -> None:
    assert acs_redirects(config) in (True, False, None)


def test_a_capability_that_points_to_itself_ends_the_walk() -> None:
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")
    assert acs_redirects(bytes(config)) is None
