"""Cabling and routes in the words of other programs; samples as infiniband-diags 2.2 and Slurm 22 write."""

import pytest

from assay.errors import InputError
from assay.formats.cabling import rate_Bps
from assay.formats.cabling_table import is_cabling_table, parse_cabling_table
from assay.formats.ib_routes import is_ib_routes, parse_ib_routes
from assay.formats.iblinkinfo_cabling import is_iblinkinfo, parse_iblinkinfo
from assay.formats.ibnetdiscover import is_ibnetdiscover, parse_ibnetdiscover
from assay.formats.slurm_topology import expanded, is_slurm_topology, parse_slurm_topology

DISCOVERED = """\
#
# Topology file: generated on Mon Nov 30 12:24:28 2026
#
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x100070
switchguid=0x100070(100070)
Switch	41 "S-0000000000100070"		# "MF0;leaf007:MQM8700/U1" enhanced port 0 lid 37 lmc 0
[1]	"H-0000000000200440"[1](200441) 		# "node07 mlx5_0" lid 26 4xHDR
[9]	"S-0000000000100080"[15]		# "spine000" lid 42 2xHDR s=4 w=2
[41]	"H-0000000000100078"[1](100078) 		# "Mellanox Technologies Aggregation Node" lid 50 4xHDR

switchguid=0x100080(100080)
Switch	41 "S-0000000000100080"		# "spine000" base port 0 lid 42 lmc 0
[15]	"S-0000000000100070"[9]		# "leaf007" lid 37 2xHDR

caguid=0x200440
Ca	1 "H-0000000000200440"		# "node07 mlx5_0"
[1](200441) 	"S-0000000000100070"[1]		# lid 26 lmc 0 "leaf007" lid 37 4xHDR

caguid=0x100078
Ca	1 "H-0000000000100078"		# "Mellanox Technologies Aggregation Node"
[1](100078) 	"S-0000000000100070"[41]		# lid 50 lmc 0 "leaf007" lid 37 4xHDR
"""

LINKS = """\
Switch: 0x0000000000100070 leaf007:
          37    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      26    1[  ] "node07 mlx5_0" ( )
          37    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
CA: node07 mlx5_0:
      0x0000000000200441     26    1[  ] ==( 4X   53.125 Gbps Active/  LinkUp)==>   37    1[  ] "leaf007" ( )
"""

ROUTES = """\
Unicast lids [0x0-0x4c] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000100070 (leaf007):
  Lid  Out   Destination
       Port     Info
0x001a 001 : (Channel Adapter portguid 0x0000000000200441: 'node07 mlx5_0')
0x002a 009 : (Switch portguid 0x0000000000100080: 'spine000')
2 valid lids dumped
"""


def test_ibnetdiscover_gives_each_cable_once_and_leaves_aggregation_nodes_out():
    found = parse_ibnetdiscover(DISCOVERED.splitlines(), "net.txt")
    assert [(d.name, d.adapter) for d in found.devices] == [
        ("leaf007", False),
        ("spine000", False),
        ("node07 mlx5_0", True),
    ]
    assert [(c.a, c.a_port, c.b, c.b_port, c.rate, c.Bps) for c in found.cables] == [
        ("leaf007", 1, "node07 mlx5_0", 1, "4xHDR", 25e9),
        ("leaf007", 9, "spine000", 15, "2xHDR", 12.5e9),
    ]
    assert found.ignored == 1
    assert found.adapter_at == {26: "node07 mlx5_0"}


def without(text, part):
    return "\n".join(line for line in text.splitlines() if not line.startswith(part))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DISCOVERED[: DISCOVERED.index("caguid=0x200440")], "which the file never describes"),
        (DISCOVERED + DISCOVERED, "described twice, first on line 8"),
        (without(DISCOVERED, "[15]\t"), "says nothing"),
        (
            DISCOVERED.replace('[15]\t"S-0000000000100070"[9]', '[15]\t"S-0000000000100070"[8]'),
            "says spine000[15]",
        ),
        (DISCOVERED[:700], "in the middle of a line"),
        ('[1] "S-1"[2] # lid 1\n', "before any switch"),
    ],
)
def test_a_discovery_that_is_cut_off_or_mixed_up_is_told_with_its_line(text, words):
    with pytest.raises(InputError) as fault:
        parse_ibnetdiscover(text.splitlines(), "net.txt")
    assert words in str(fault.value)
    assert "net.txt:" in str(fault.value)


def test_iblinkinfo_says_the_same_and_counts_ports_that_are_down():
    found = parse_iblinkinfo(LINKS.splitlines(), "links.txt")
    assert [(d.name, d.adapter) for d in found.devices] == [("leaf007", False), ("node07 mlx5_0", True)]
    assert [(c.a_port, c.b, c.b_port, c.rate) for c in found.cables] == [(1, "node07 mlx5_0", 1, "4xHDR")]
    assert found.ignored == 1


def test_routes_are_ports_by_lid():
    (table,) = parse_ib_routes(ROUTES.splitlines(), "fts.txt")
    assert (table.guid, table.name) == ("0000000000100070", "leaf007")
    assert table.port == {0x1A: 1, 0x2A: 9}
    assert table.adapter == {0x1A: "node07 mlx5_0"}


def test_routes_without_their_end_are_told():
    with pytest.raises(InputError, match="has no end"):
        parse_ib_routes(ROUTES.splitlines()[:-1], "fts.txt")


def test_slurm_says_who_hangs_where():
    text = "SwitchName=leaf0 Nodes=node[00-01]\nSwitchName=leaf1 Nodes=node[02-03]\n"
    text += "SwitchName=top Switches=leaf[0-1]\n"
    found = parse_slurm_topology(text.splitlines(), "topology.conf")
    assert [(c.a, c.b) for c in found.cables] == [
        ("node00", "leaf0"),
        ("node01", "leaf0"),
        ("node02", "leaf1"),
        ("node03", "leaf1"),
        ("leaf0", "top"),
        ("leaf1", "top"),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[00-02,7]", ["node00", "node01", "node02", "node7"]),
        ("a,b[1-2]x", ["a", "b1x", "b2x"]),
        ("r[0-1]n[0-1]", ["r0n0", "r0n1", "r1n0", "r1n1"]),
    ],
)
def test_host_lists_expand(text, names):
    assert list(expanded(text, "here")) == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SwitchName=a Nods=n1", "did you mean 'Nodes'"),
        ("SwitchName=top Switches=leaf0", "is not described"),
        ("SwitchName=a Nodes=n[1-", "bracket"),
        ("SwitchName=a Nodes=n[5-1]", "no range"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "named twice"),
    ],
)
def test_a_faulty_topology_is_told_with_its_line(text, words):
    with pytest.raises(InputError) as fault:
        parse_slurm_topology(text.splitlines(), "topology.conf")
    assert words in str(fault.value)


CSV = """\
# made from lldpcli
Hostname,Interface,Neighbor,Neighbor Port,Speed
node1/mlx5_0,1,leaf0,Ethernet1/1,400 Gbit/s
leaf0,swp9,spine0,swp1,4xNDR
spine0,swp1,leaf0,swp9,4xNDR
"""


def test_a_cabling_list_takes_the_usual_names_and_a_cable_from_both_ends_once():
    found = parse_cabling_table(CSV.splitlines(), "cables.csv")
    assert [(c.a, c.a_port, c.b, c.b_port, c.Bps) for c in found.cables] == [
        ("node1/mlx5_0", 1, "leaf0", 1, 50e9),
        ("leaf0", 9, "spine0", 1, 50e9),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Neighbor Port", "Other", "no column for b_port"),
        ("swp9,spine0", "swp,spine0", "has no number"),
        ("spine0,swp1,leaf0,swp9", "spine0,swp1,leaf1,swp9", "has a second cable"),
        ("400 Gbit/s", "400 parsec", "for example 400 Gbit/s"),
        (",swp1,4xNDR", "", "the head has more"),
    ],
)
def test_a_faulty_cabling_list_is_told_with_its_line(old, new, words):
    with pytest.raises(InputError) as fault:
        parse_cabling_table(CSV.replace(old, new, 1).splitlines(), "cables.csv")
    assert words in str(fault.value)
    assert "cables.csv:" in str(fault.value)


def test_each_kind_knows_its_own_and_no_other():
    kinds = {
        is_ibnetdiscover: DISCOVERED,
        is_iblinkinfo: LINKS,
        is_ib_routes: ROUTES,
        is_slurm_topology: "SwitchName=a Nodes=n1\n",
        is_cabling_table: CSV,
    }
    for recognise in kinds:
        for other, text in kinds.items():
            assert recognise(text.splitlines()) is (recognise is other)


@pytest.mark.parametrize(
    ("rate", "value"), [("4xNDR", 50e9), ("1xSDR", 0.25e9), ("2xHDR", 12.5e9), ("fast", None)]
)
def test_rates(rate, value):
    assert rate_Bps(rate) == value
