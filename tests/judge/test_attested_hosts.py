"""Hosts as InfiniBand, RoCE in pods, EFA and gVNIC show them: from their files to what counts."""

import dataclasses

import pytest
from attesting import GB, attestation, link
from fake_sysfs import write
from fake_traffic import net_dev, port

from assay.judge.transport import attest
from assay.probe.files import Roots
from assay.probe.traffic import senders, sent_between

#: What had to leave each host.
ASKED = 10 * GB


def infiniband(top, sent):
    """Eight HDR ports, one of them down, and Ethernet for the rest."""
    for i in range(8):
        port(
            top,
            f"mlx5_{i}",
            link_layer="InfiniBand",
            state="4: ACTIVE" if i < 7 else "1: DOWN",
            counters__port_xmit_data=10**12 + sent // 7 // 4,
            hw_counters__out_of_sequence=0,
        )
    net_dev(top, lo=sent, eth0=10**6)


def infiniband_by_sockets(top, sent):
    """NCCL_IB_DISABLE=1: Ethernet carries what the ports do not."""
    infiniband(top, 0)
    net_dev(top, lo=0, eth0=sent)


def ip_over_infiniband(top, sent):
    """Sockets over ib0: the port counts the same bytes as the interface."""
    infiniband(top, sent)
    net_dev(top, lo=0, eth0=0, ib0=sent)


def roce_in_a_pod(top, sent):
    """A virtual function in a network namespace of its own, with RDMA devices shared: no counters at all."""
    for i in range(4):
        port(top, f"mlx5_{i}", link_layer="Ethernet", rate="400 Gb/sec (4X NDR)", gid_attrs__ndevs__0="")
    net_dev(top, lo=0, eth0=10**6)


def roce_on_the_host(top, sent):
    """The same functions as the host sees them; a bond stands on two interfaces of them."""
    for i in range(4):
        port(top, f"mlx5_{i}", link_layer="Ethernet", counters__port_xmit_data=sent // 4 // 4)
    write(top / "sys/class/net/bond0/lower_eth0/mtu", "9000")
    net_dev(top, lo=0, eth0=10**6, bond0=10**6)


def efa(top, sent):
    """P5: 32 devices without a link layer, which count below hw_counters."""
    for i in range(32):
        port(
            top,
            f"rdmap{79 + i}s0",
            link_layer="Unspecified",
            hw_counters__tx_bytes=sent // 32 * 105 // 100,
            hw_counters__tx_pkts=7,
            hw_counters__rdma_write_bytes=sent // 32,
            hw_counters__send_bytes=0,
            hw_counters__rdma_read_resp_bytes=0,
            hw_counters__lifespan=12,
        )
    net_dev(top, lo=0, ens32=10**6)


def gvnic(top, sent):
    """A3 with TCPX: four gVNIC beside the one of the host, and nothing below /sys/class/infiniband."""
    net_dev(top, lo=0, eth0=10**5, **{f"eth{i}": sent // 4 for i in range(1, 5)})


def gvnic_past_the_kernel(top, sent):
    """A3 Mega with TCPXO: the kernel sees little of it."""
    gvnic(top, sent // 1000)


def old_adapter(top, sent):
    """A counter of 32 bits, which stands at its end after 16 GiB."""
    port(top, "mlx4_0", link_layer="InfiniBand", counters__port_xmit_data=2**32 - 1 if sent else 2**31)
    net_dev(top, lo=0, eth0=10**6)


HOSTS = [
    (infiniband, "IB", None),
    (infiniband_by_sockets, "Socket", "TRANSPORT_SOCKETS"),
    (infiniband_by_sockets, "", "TRANSPORT_SOCKETS"),
    (ip_over_infiniband, "Socket", "TRANSPORT_SOCKETS"),
    (roce_in_a_pod, "IB", "TRANSPORT_UNATTESTED"),
    (roce_on_the_host, "IB", None),
    (efa, "AWS Libfabric", None),
    (gvnic, "GPUDirectTCPX_v7", None),
    (gvnic, "Socket", None),
    (gvnic_past_the_kernel, "FasTrak", "TRANSPORT_UNATTESTED"),
    (old_adapter, "IB", "TRANSPORT_UNATTESTED"),
]


@pytest.mark.parametrize(("host", "network", "code"), HOSTS)
def test_what_a_host_shows_decides_whether_its_links_count(tmp_path, host, network, code):
    roots = Roots.under(tmp_path)
    host(tmp_path, 0)
    before = senders(roots)
    host(tmp_path, ASKED * 103 // 100)  # headers come on top
    counted = sent_between(before, senders(roots))
    told = dataclasses.replace(attestation("h1", 1, asked=ASKED, network=network), counted=counted)
    carried = attest([link("h0", "h1")], [attestation("h0", 0), told])
    assert [f.code for f in carried.findings] == ([code] if code else [])
    assert [r.value for r in carried.readings] == [None if code else 4e10]


def test_two_ranks_of_one_host_need_no_network(tmp_path):
    """Shared memory and the loopback: nothing leaves the host, and nothing is asked of its devices."""
    infiniband(tmp_path, 0)
    counted = sent_between(senders(Roots.under(tmp_path)), senders(Roots.under(tmp_path)))
    one = attestation("h0", 0, benchmark="peer", calls=[("send", GB, 2, 1, 2)], transport="gloo", network="")
    carried = attest([], [dataclasses.replace(one, counted=counted)])
    assert carried.findings == ()
