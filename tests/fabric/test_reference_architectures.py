"""Every row of the printed component tables: H100, B200, XDR, Spectrum-X; and what can be drawn of them."""

import dataclasses
from collections import Counter

import pytest

from assay.catalog.clusters import cluster
from assay.domain.fabric import Wiring
from assay.errors import InputError
from assay.fabric.routes.minimal import d_mod_k
from assay.fabric.routes.patterns import flows
from assay.fabric.sizing import size_cluster_fabric, size_dragonfly, size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.tiers import Tiers

#: system, nodes, leaves, spines, cores, cables to leaves (the managing machines' too), to spines, to cores
PRINTED = [
    ("dgx-h100", 31, 8, 4, 0, 252, 256, 0),
    ("dgx-h100", 63, 16, 8, 0, 508, 512, 0),
    ("dgx-h100", 95, 24, 16, 0, 764, 768, 0),
    ("dgx-h100", 127, 32, 16, 0, 1020, 1024, 0),
    ("dgx-b200", 64, 16, 8, 0, 512, 512, 0),
    ("dgx-b200", 128, 32, 16, 0, 1024, 1024, 0),
    ("dgx-b200", 256, 64, 32, 0, 2048, 2048, 0),
    ("dgx-b200", 512, 128, 128, 64, 4096, 4096, 4096),
    ("dgx-b200", 1024, 256, 256, 128, 8192, 8192, 8192),
    ("dgx-b200", 2048, 512, 512, 256, 16384, 16384, 16384),
    ("dgx-b300", 72, 8, 4, 0, 576, 576, 0),
    ("dgx-b300", 144, 16, 8, 0, 1152, 1152, 0),
    ("dgx-b300", 288, 32, 18, 0, 2304, 2304, 0),
    ("dgx-b300", 576, 64, 36, 0, 4608, 4608, 0),
    ("dgx-b300", 1296, 144, 72, 0, 10368, 10368, 0),
    ("dgx-b300-spectrum", 64, 16, 8, 0, 512, 512, 0),
    ("dgx-b300-spectrum", 128, 32, 16, 0, 1024, 1024, 0),
    ("dgx-b300-spectrum", 256, 64, 32, 0, 2048, 2048, 0),
    ("dgx-b300-spectrum", 512, 128, 64, 0, 4096, 4096, 0),
    ("dgx-b300-spectrum", 1024, 256, 128, 0, 8192, 8192, 0),
]


@pytest.mark.parametrize(("system", "nodes", "leaf", "spine", "core", "down", "up", "top"), PRINTED)
def test_counts_are_exactly_the_printed_ones(system, nodes, leaf, spine, core, down, up, top):
    size = size_cluster_fabric(cluster(system).of(nodes))
    assert (size.leaf, size.spine, size.core) == (leaf, spine, core)
    assert size.node_leaf_cables + size.manager_leaf_cables == down
    assert (size.leaf_spine_cables, size.spine_core_cables) == (up, top)


@pytest.mark.parametrize(
    ("nodes", "design"),
    [
        (4, {}),
        (127, {}),
        (128, {"oversubscription": 3.0}),
        (140, {"radix": 40}),
        (512, {}),
        (512, {"oversubscription": 2.0}),
        (64, {"planes": 2, "radix": 128}),
        (100, {"by_rail": False}),
        (30, {"rails": 1}),
    ],
)
def test_a_size_can_be_cabled_with_the_ports_that_its_switches_have(nodes, design):
    size = size_fabric(nodes, **design)
    network = fat_tree(size, by_rail=design.get("by_rail", True))
    assert len(network.cables) == (size.node_leaf_cables + size.leaf_spine_cables + size.spine_core_cables)
    assert (
        max(port for cable in network.cables for name, port in cable.ends if network.devices[name].tier)
        <= size.radix
    )
    for plane in range(size.planes):
        tiers = Tiers.of(network, plane)
        assert (tiers.leaf_of >= 0).all()
        if size.tiers == 2:
            # Equal bundles from every leaf to every spine.
            assert set(tiers.up_count.ravel()) == {size.ports_up // (size.spine // size.planes)}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"wiring": Wiring.OPAQUE, "node_Bps": 1e11}, "opaque"),
        ({"wiring": Wiring.SINGLE}, "do not fit on one switch"),
        ({"oversubscription": 80.0}, "not between 1:1 and 63:1"),
        ({"radix": 7}, "no equal halves"),
    ],
)
def test_what_cannot_be_built_is_refused(changed, words):
    system = cluster("dgx-h100").of(64)
    fabric = dataclasses.replace(system.fabric, **changed)
    with pytest.raises(InputError, match=words):
        size_cluster_fabric(dataclasses.replace(system, fabric=fabric))


@pytest.mark.parametrize(
    ("nodes", "radix", "groups", "between"), [(32, 16, 4, 21), (512, 64, 4, 341), (100, 16, 13, 5)]
)
def test_a_dragonfly_joins_every_pair_of_groups(nodes, radix, groups, between):
    size = size_dragonfly(nodes, radix=radix)
    assert size.groups == groups
    network = fat_tree(size, by_rail=False)
    assert len(network.cables) == size.cables
    half = radix // 2
    group_of = {d.name: int(d.name.removeprefix("spine")) // half for d in network.switches(2)}
    pairs = Counter(
        frozenset((group_of[c.a], group_of[c.b]))
        for c in network.cables
        if c.a in group_of and c.b in group_of
    )
    assert set(pairs.values()) == {between}
    assert len(pairs) == groups * (groups - 1) // 2
    assert max(port for cable in network.cables for _, port in cable.ends) <= radix


def test_traffic_of_a_dragonfly_arrives_by_its_tables():
    network = fat_tree(size_dragonfly(32, radix=16), by_rail=False)
    carried, stranded = d_mod_k(network).loads(flows("all_to_all", network.adapters))
    assert stranded == 0
    assert carried.max() > 0


def test_too_many_groups_are_refused():
    with pytest.raises(InputError, match="join 5"):
        size_dragonfly(1000, radix=4, rails=1)
