"""NCCL topology files become nodes; what is broken or lacking is told with its line."""

from pathlib import Path

import pytest

from assay.domain.cluster import SWITCH
from assay.errors import InputError
from assay.formats.nccl_topo import Graph, TopologyDevice, parse_topology, pci_device, read_records, recognise
from assay.formats.xml_tree import parse_xml

FOLDER = Path(__file__).parents[2] / "validation" / "nccl_choices"


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_a_dgx_h100_has_its_parts() -> None:
    lines = text("dgxh100.xml").splitlines()
    assert recognise(lines)
    node = parse_topology(lines, "dgxh100.xml")
    assert (len(node.gpus), len(node.nics), len(node.switches), len(node.sockets)) == (8, 8, 8, 2)
    assert node.gpus[0].links == {SWITCH: 18}
    assert node.nics[7].rate_Bps == 50e9
    assert node.nics[7].switch == node.gpus[7].switch
    assert node.sockets[0].model == 143


def test_direct_links_find_their_peers() -> None:
    node = parse_topology(text("tcp25_v100.xml").splitlines(), "tcp25_v100.xml")
    assert sum(node.gpus[0].links.values()) == 6
    assert not node.nics[0].gpudirect


@pytest.mark.parametrize("name", [file.name for file in sorted(FOLDER.glob("*.xml"))])
def test_every_topology_is_read(name: str) -> None:
    assert parse_topology(text(name).splitlines(), name).gpus


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (' link_speed="32.0 GT/s PCIe"', "", "dgxh100.xml:3: <pci> lacks 'link_speed'"),
        ('speed="400000"', 'speed="fast"', "speed='fast' is not a whole number"),
        ('arch="x86_64"', "", "dgxh100.xml:2: <cpu> lacks 'arch'"),
        ('speed="400000"', 'speed="800000"', "dgxh100.xml:10: <net> mlx5_0 of 800 Gbit/s moves 100.0 GB/s"),
        ('link_speed="32.0 GT/s PCIe"', 'link_speed="33 GT/s"', "no PCIe speed"),
        ('link_speed="32.0 GT/s PCIe"', 'link_speed="32 GB/s"', "no PCIe speed"),
        (' speed="400000"', "", "dgxh100.xml:10: <net> lacks 'speed'"),
        (' sm="90"', "", "dgxh100.xml:5: <gpu> lacks 'sm'"),
        ("</system>", "", "is not whole XML"),
        ("<system", '<!DOCTYPE x [<!ENTITY a "b">]><system', "declares entities"),
    ],
)
def test_what_is_lacking_is_named(old: str, new: str, told: str) -> None:
    broken = text("dgxh100.xml").replace(old, new)
    with pytest.raises(InputError) as caught:
        parse_topology(broken.splitlines(), "dgxh100.xml")
    assert told in str(caught.value)


def test_a_file_without_gpus_is_refused() -> None:
    with pytest.raises(InputError, match="no <gpu>"):
        parse_topology(['<system version="1"></system>'], "empty.xml")


def test_the_same_tree_gives_a_diagnosis_its_devices() -> None:
    tree = parse_xml(text("dgxh100.xml"), "dgxh100.xml")
    devices = [one for one in read_records(tree) if isinstance(one, TopologyDevice)]
    assert [one.kind for one in devices].count("net") == 8
    first = next(one for one in devices if one.kind == "gpu")
    assert (first.line, first.nvlinks, first.depth, first.gdr) == (4, 18, 1, True)
    assert 'busid="0000:11:00.0"' in first.text
    assert pci_device(tree) == 0x2330


def test_graphs_are_read_with_their_lines() -> None:
    tree = parse_xml('<graphs version="1">\n<graph id="0" nchannels="8" typeintra="NVL"/></graphs>', "g.xml")
    assert list(read_records(tree)) == [
        Graph(file="g.xml", line=2, id=0, channels=8, type_intra="NVL", type_inter="")
    ]


def test_devices_in_one_another_without_end_are_refused() -> None:
    pci = '<pci busid="0" link_speed="32 GT/s" link_width="16">'
    deep = f'<system><cpu arch="arm64">{pci * 5000}{"</pci>" * 5000}</cpu></system>'
    with pytest.raises(InputError, match="without end"):
        parse_topology([deep], "deep.xml")
