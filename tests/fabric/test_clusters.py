"""Shipped systems, users' cluster files, and what is refused."""

import re

import pytest

from assay.catalog.clusters import cluster, cluster_ids, load_cluster
from assay.domain.cluster import SWITCH, GpuSeat, Node, PcieLink, Socket
from assay.errors import AssayError, InputError

FILE = """\
schema: 1
id: mine
name: my cluster
nodes: 4
node:
  gpu: h100-sxm
  gpus: 8
  interconnect: switch
  cpu: intel-sapphire-rapids
  nic: connectx-7
  nics: 8
fabric:
  transport: infiniband
  wiring: rail-optimised
"""


@pytest.mark.parametrize("name", cluster_ids())
def test_every_shipped_system_loads(name: str) -> None:
    found = cluster(name)
    assert found.id == name
    assert found.source
    assert found.gpus == found.count * len(found.node.gpus)


@pytest.mark.parametrize(
    "name", ["dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72", "hgx-h100-roce"]
)
def test_the_names_that_people_use_are_there(name: str) -> None:
    assert name in cluster_ids()


def test_a_near_miss_suggests() -> None:
    with pytest.raises(AssayError, match="dgx-h100"):
        cluster("dgx-h10")


def test_a_users_file_becomes_a_cluster() -> None:
    found = load_cluster(FILE, "mine.yaml")
    assert found.gpus == 32
    assert found.node.nic_Bps == pytest.approx(400e9)
    assert found.node.gpus[0].links == {SWITCH: 18}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  interconnect:", "  interconect:", r"mine.yaml:8.*interconect.*did you mean"),
        ("h100-sxm", "h100-smx", r"mine.yaml:6.*h100-smx.*h100-sxm"),
        ("infiniband", "infinband", r"mine.yaml:12.*infinband.*infiniband"),
        ("  nic: connectx-7\n", "", r"mine.yaml:10.*8 NICs, but neither which nor how fast"),
        ("  nic: connectx-7", "  nic_rate: 400 Gb", r"Gb"),
        ("intel-sapphire-rapids", "intel-saphire-rapids", r"intel-sapphire-rapids"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, told: str) -> None:
    with pytest.raises(AssayError) as caught:
        load_cluster(FILE.replace(old, new), "mine.yaml")
    assert re.search(told, str(caught.value), re.DOTALL), str(caught.value)


def test_a_nic_faster_than_its_slot_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match=r"400 Gbit/s moves 50.0 GB/s.*PCIe 4 x16 \(31.5 GB/s\)"):
        load_cluster(FILE.replace("  nics: 8", "  nics: 8\n  nic_pcie_generation: 4"), "mine.yaml")


def test_links_that_do_not_come_back_are_refused() -> None:
    slot = PcieLink(generation=4)
    seats = (
        GpuSeat(compute_capability=80, socket=0, slot=slot, links={1: 4}),
        GpuSeat(compute_capability=80, socket=0, slot=slot, links={0: 2}),
    )
    with pytest.raises(InputError, match="4 links from GPU 0 to 1, but 2 come back"):
        Node(id="n", sockets=(Socket(),), gpus=seats)
