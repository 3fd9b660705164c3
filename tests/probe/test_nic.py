from __future__ import annotations

from pathlib import Path

import fake_sysfs
import pytest
from probing import find

from assay.probe import Roots
from assay.probe.nic import is_saturated, link_rate_Bps, read_nics

PORT = "port:h/mlx5_1[1]"


def test_a_port_is_read_in_base_units(roots: Roots) -> None:
    facts = read_nics("h", roots)
    expected = {
        "nic.hca_type": "MT4129",
        "nic.fw_ver": "28.39.2048",
        "nic.node_guid": "a088:c203:00e0:0001",
        "nic.driver": "mlx5_core",
        "nic.interface": "ib1",
        "port.state": "ACTIVE",
        "port.phys_state": "LinkUp",
        "port.link_layer": "InfiniBand",
        "port.rate": pytest.approx(50e9),
        "port.counter.port_xmit_packets": 2,
        "port.counter.port_rcv_data": 4,
        "port.hw_counter.packet_seq_err": 1,
        "port.saturated_counters": "none",
        "pcie.generation_current": 5,
        "pcie.width_max": 16,
        "pcie.numa_node": 1,
    }
    assert find(facts, "nic.rdma_adapters").value == 2
    assert {key: find(facts, key, PORT).value for key in expected} == expected
    assert find(facts, "port.counter.port_rcv_data", PORT).unit == "B"


def test_counters_at_their_end_are_named(roots: Roots) -> None:
    counters = roots.sys / "class/infiniband/mlx5_1/ports/1/counters"
    fake_sysfs.write(counters / "link_downed", "255")
    fake_sysfs.write(counters / "port_xmit_discards", "65535")
    fake_sysfs.write(counters / "port_xmit_wait", "4294967295")
    fake_sysfs.write(counters / "port_xmit_packets", "65535")
    facts = read_nics("h", roots)
    assert find(facts, "port.counter.link_downed", PORT).value == 255
    saturated = find(facts, "port.saturated_counters", PORT)
    assert saturated.value == "link_downed port_xmit_discards port_xmit_wait"


@pytest.mark.parametrize(
    ("counter", "value", "expected"),
    [
        ("symbol_error", 65535, True),
        ("symbol_error", 255, False),
        ("link_error_recovery", 255, True),
        ("local_link_integrity_errors", 15, True),
        ("port_xmit_wait", 2**32 - 1, True),
        ("port_xmit_data", 2**32 - 1, False),
        ("out_of_sequence", 255, False),
    ],
)
def test_the_end_of_a_counter_depends_on_its_width(counter: str, value: int, expected: bool) -> None:
    assert is_saturated(counter, value) is expected


@pytest.mark.parametrize(
    ("text", "gigabit_per_s"),
    [("400 Gb/sec (4X NDR)", 400), ("2.5 Gb/sec (1X SDR)", 2.5), ("100 Gb/sec (4X EDR)", 100)],
)
def test_the_rate_of_a_port_is_read(text: str, gigabit_per_s: float) -> None:
    assert link_rate_Bps(text) == pytest.approx(gigabit_per_s * 1e9 / 8)


def test_a_rate_that_is_not_understood_is_a_reason(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "class/infiniband/mlx5_1/ports/1/rate", "fast")
    rate = find(read_nics("h", roots), "port.rate", PORT)
    assert rate.value is None
    assert rate.reason is not None
    assert "'fast'" in rate.reason


def test_adapters_come_in_the_order_of_their_numbers(top: Path, roots: Roots) -> None:
    for index in (2, 10):
        fake_sysfs.adapter(top, index)
    subjects = [str(fact.subject) for fact in read_nics("h", roots) if fact.key == "port.state"]
    assert subjects == [f"port:h/mlx5_{i}[1]" for i in (0, 1, 2, 10)]


def test_an_interface_of_a_container_has_no_slot(roots: Roots) -> None:
    facts = read_nics("h", roots)
    assert find(facts, "net.rate", "port:h/eth0").value == pytest.approx(25e9 / 8)
    assert find(facts, "net.mtu", "port:h/eth0").value == 9000
    assert find(facts, "net.tx_bytes", "port:h/eth0").value == 20
    assert not [fact for fact in facts if fact.subject == "port:h/eth0" and fact.key.startswith("pcie.")]


def test_an_interface_without_a_speed_says_so(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "class/net/eth0/speed", "-1")
    rate = find(read_nics("h", roots), "net.rate", "port:h/eth0")
    assert rate.value is None
    assert rate.reason is not None
    assert "-1 Mbit/s" in rate.reason


def test_a_host_without_rdma_says_so(empty: Roots) -> None:
    count = find(read_nics("h", empty), "nic.rdma_adapters")
    assert count.value is None
    assert count.reason == f"no {empty.sys}/class/infiniband on this host"
