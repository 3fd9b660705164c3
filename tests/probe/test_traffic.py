"""Bytes sent by device, from file layouts as InfiniBand, RoCE, EFA and containers show them."""

import socket
import struct

import pytest
from fake_sysfs import write
from fake_traffic import net_dev, port

from assay.probe import traffic
from assay.probe.ethtool import named, statistics_of
from assay.probe.files import Roots
from assay.probe.traffic import senders, sent_between


def counted(top, *changes):
    """What was sent between the machine as it stands and as the `changes` leave it, by way and device."""
    roots = Roots.under(top)
    before = senders(roots)
    for change in changes:
        change()
    return {(c.over, c.device): c for c in sent_between(before, senders(roots))}


def sent(found):
    return {key: one.bytes for key, one in found.items()}


def test_infiniband_counts_words_and_a_port_that_is_down_is_no_way(tmp_path):
    port(tmp_path, "mlx5_0", counters__port_xmit_data=100)
    port(tmp_path, "mlx5_1", state="1: DOWN", counters__port_xmit_data=7)
    found = counted(tmp_path, lambda: port(tmp_path, "mlx5_0", counters__port_xmit_data=350))
    assert sent(found) == {("rdma", "mlx5_0/1"): 1000}
    assert found["rdma", "mlx5_0/1"].source == "counters/port_xmit_data"


def test_efa_counts_bytes_below_hw_counters_and_tells_writes_apart(tmp_path):
    """Where `tx_bytes` lags behind, sends, writes and answers to reads add up to what was sent."""
    names = ("tx_bytes", "send_bytes", "rdma_write_bytes", "rdma_read_resp_bytes")

    def efa(*values):
        told = {f"hw_counters__{name}": value for name, value in zip(names, values, strict=True)}
        port(tmp_path, "rdmap113s0", **told, hw_counters__lifespan=12)

    efa(10, 1, 2, 3)
    found = counted(tmp_path, lambda: efa(1010, 5, 1202, 103))
    assert sent(found) == {("rdma", "rdmap113s0/1"): 4 + 1200 + 100}


@pytest.mark.parametrize("shown", [{}, {"counters__port_xmit_data": "N/A (no PMA)"}])
def test_a_port_whose_counters_a_container_hides_says_so(tmp_path, shown):
    port(tmp_path, "mlx5_4", **shown)
    one = counted(tmp_path)["rdma", "mlx5_4/1"]
    assert one.bytes is None
    assert "hidden in a container" in one.reason


def test_a_virtual_function_without_port_counters_is_counted_by_its_interface(tmp_path, monkeypatch):
    port(tmp_path, "mlx5_4", gid_attrs__ndevs__0="net1")
    told = iter([{"tx_vport_rdma_unicast_bytes": 40}, {"tx_vport_rdma_unicast_bytes": 1040}])
    asked = []
    monkeypatch.setattr(traffic, "statistics_of", lambda interface: asked.append(interface) or next(told))
    assert sent(counted(tmp_path)) == {("rdma", "mlx5_4/1"): 1000}
    assert asked == ["net1", "net1"]


def test_a_counter_that_stands_still_yields_to_one_that_moves(tmp_path):
    def function(by_bytes):
        port(tmp_path, "mlx5_2", counters__port_xmit_data=0, hw_counters__rdma_tx_bytes=by_bytes)

    function(5)
    assert sent(counted(tmp_path, lambda: function(905))) == {("rdma", "mlx5_2/1"): 900}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (50, "went back from 100 to 50: it wrapped, or was reset"),
        (2**32 - 1, "largest value of a counter of 32"),
    ],
)
def test_counters_that_wrap_or_are_full_tell_nothing(tmp_path, words, why):
    port(tmp_path, "mlx5_0", counters__port_xmit_data=100)
    found = counted(tmp_path, lambda: port(tmp_path, "mlx5_0", counters__port_xmit_data=words))
    assert found["rdma", "mlx5_0/1"].bytes is None
    assert why in found["rdma", "mlx5_0/1"].reason


def test_network_devices_count_once_though_bonds_and_bridges_stand_on_them(tmp_path):
    net_dev(tmp_path, lo=900, eth0=7000, eth1=30, bond0=7030)
    write(tmp_path / "sys/class/net/bond0/lower_eth0/mtu", "9000")
    change = {"lo": 999_900, "eth0": 7500, "eth1": 40, "bond0": 7540}
    found = counted(tmp_path, lambda: net_dev(tmp_path, **change))
    assert sent(found) == {("netdev", "eth0"): 500, ("netdev", "eth1"): 10}


def test_devices_that_come_or_go_are_not_counted(tmp_path):
    net_dev(tmp_path, eth0=1, eth1=1)
    found = counted(tmp_path, lambda: net_dev(tmp_path, eth1=2, eth2=9))
    assert sent(found) == {("netdev", "eth0"): None, ("netdev", "eth1"): 1, ("netdev", "eth2"): None}
    assert found["netdev", "eth0"].reason == "the device was taken away meanwhile"
    assert found["netdev", "eth2"].reason == "the device came meanwhile"


def test_where_there_is_nothing_nothing_is_told(tmp_path):
    assert counted(tmp_path) == {}


def test_the_kernel_tells_statistics_of_a_driver_that_keeps_any():
    """Whichever interfaces this machine has: what it tells are names and numbers; the loopback keeps none."""
    assert statistics_of("lo") == {}
    assert statistics_of("no-such-one") == {}
    for _, interface in socket.if_nameindex():
        told = statistics_of(interface)
        assert all(name.isprintable() and value >= 0 for name, value in told.items())


def test_names_and_numbers_of_statistics():
    names = b"".join(name.ljust(32, b"\0") for name in (b"rx_packets", b"tx_vport_rdma_unicast_bytes"))
    assert named(names, struct.pack("=2Q", 3, 2**40)) == {
        "rx_packets": 3,
        "tx_vport_rdma_unicast_bytes": 2**40,
    }
