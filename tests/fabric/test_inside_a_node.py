"""Slots, PCIe switches, sockets and direct links share like any other link."""

import pytest

from assay.catalog.clusters import cluster
from assay.domain.cluster import GpuSeat, NicSeat, Node, PcieLink, PcieSwitch, Socket
from assay.errors import InputError
from assay.fabric.contention.inside import Place, SOCKET_Bps, path, shares_inside

GEN5 = PcieLink(generation=5)


def place(text):
    return Place(text[:3], int(text[3:]))


def between(node, *pairs):
    return shares_inside(node, [(place(a), place(b)) for a, b in pairs])


#: Two GPUs and a NIC below one PCIe switch of a narrow uplink, one GPU and a NIC on another socket.
NARROW = Node(
    id="narrow",
    sockets=(Socket(maker="intel"), Socket(maker="intel")),
    gpus=(
        GpuSeat(compute_capability=89, socket=0, slot=GEN5, switch=0),
        GpuSeat(compute_capability=89, socket=0, slot=GEN5, switch=0),
        GpuSeat(compute_capability=89, socket=1, slot=GEN5),
    ),
    nics=(
        NicSeat(name="a", rate_Bps=50e9, socket=0, slot=GEN5, switch=0),
        NicSeat(name="b", rate_Bps=50e9, socket=1, slot=GEN5),
    ),
    switches=(PcieSwitch(socket=0, uplink=PcieLink(generation=4)),),
)


def test_a_gpu_beside_its_nic_gets_the_nic():
    assert between(NARROW, ("gpu0", "nic0")) == [50e9]


def test_two_gpus_share_one_nic():
    assert between(NARROW, ("gpu0", "nic0"), ("gpu1", "nic0")) == [25e9, 25e9]


def test_what_leaves_a_switch_shares_its_uplink_and_the_way_between_sockets():
    narrow = min(NARROW.switches[0].uplink.Bps, SOCKET_Bps["intel"])
    assert between(NARROW, ("gpu0", "nic1")) == [pytest.approx(narrow)]
    both = between(NARROW, ("gpu0", "nic1"), ("gpu1", "nic1"))
    assert both == pytest.approx([narrow / 2] * 2)


def test_directions_do_not_share():
    there, back = between(NARROW, ("gpu0", "gpu1"), ("gpu1", "gpu0"))
    assert there == back == pytest.approx(GEN5.Bps)


def test_max_min_gives_the_rest_to_who_can_use_it():
    rates = between(NARROW, ("gpu0", "nic1"), ("gpu2", "nic1"))
    assert rates[0] == pytest.approx(SOCKET_Bps["intel"])
    assert rates[1] == pytest.approx(50e9 - SOCKET_Bps["intel"])


@pytest.mark.parametrize(("name", "Bps"), [("dgx-h100", 450e9), ("hgx-mi300x", 64e9)])
def test_direct_links_carry_what_they_have(name, Bps):
    node = cluster(name).node
    (rate,) = between(node, ("gpu0", "gpu1"))
    assert rate == pytest.approx(Bps)


def test_all_gpus_of_a_dgx_send_at_full_nic_rate():
    node = cluster("dgx-h100").node
    rates = between(node, *((f"gpu{i}", f"nic{i}") for i in range(8)))
    assert rates == pytest.approx([50e9] * 8)


def test_an_all_to_all_inside_shares_each_gpus_links():
    node = cluster("dgx-h100").node
    pairs = [(f"gpu{a}", f"gpu{b}") for a in range(8) for b in range(8) if a != b]
    assert between(node, *pairs) == pytest.approx([450e9 / 7] * 56)


@pytest.mark.parametrize(("a", "b", "words"), [("gpu0", "gpu0", "to itself"), ("gpu0", "nic9", "no nic 9")])
def test_what_is_not_there_is_refused(a, b, words):
    with pytest.raises(InputError, match=words):
        path(NARROW, place(a), place(b))
