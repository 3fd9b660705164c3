"""Routes: hashed, D-mod-K, adaptive; on small fabrics where the right answer is plain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.fabric.routes.hashing import collisions
from assay.fabric.routes.minimal import d_mod_k
from assay.fabric.routes.patterns import Flows, flows
from assay.fabric.routes.spread import spread
from assay.fabric.routes.tables import Tables
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.network import Network
from assay.fabric.topology.tiers import Tiers

TWO = fat_tree(size_fabric(16, radix=16))
THREE = fat_tree(size_fabric(20, rails=4, radix=8))
ONE_RAIL = fat_tree(size_fabric(64, rails=1, radix=16))


def test_patterns_go_rail_by_rail():
    adapters = TWO.adapters
    ring = flows("ring", adapters)
    assert ring.count == 16 * 8
    assert all(adapters[a].rail == adapters[b].rail for a, b in zip(ring.sender, ring.receiver, strict=True))
    assert flows("all_to_all", adapters).count == 16 * 15 * 8
    assert flows("all_to_all", adapters).listed().count == 16 * 15 * 8
    assert flows("tree", adapters).count == 2 * 15 * 8
    assert flows("incast", adapters, ["node0", "node0003"]).count == 8


@pytest.mark.parametrize(
    ("pattern", "nodes", "words"),
    [
        ("star", None, "unknown pattern"),
        ("ring", ["node0", "node77"], "unknown node"),
        ("ring", ["node1", "node0001"], "stands twice"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(pattern, nodes, words):
    with pytest.raises(InputError, match=words):
        flows(pattern, TWO.adapters, nodes)


@pytest.mark.parametrize("network", [TWO, THREE, ONE_RAIL], ids=["two tiers", "three tiers", "one rail"])
@pytest.mark.parametrize("pattern", ["ring", "tree", "all_to_all"])
def test_tables_and_adaptive_paths_carry_the_same_in_all(network, pattern):
    wanted = flows(pattern, network.adapters)
    carried, stranded = d_mod_k(network).loads(wanted)
    load = spread(Tiers.of(network), wanted)
    assert stranded == load.stranded == 0
    parts = (load.nic_out, load.nic_in, load.up, load.down, load.top_up, load.top_down)
    assert carried.sum() == pytest.approx(sum(part.sum() for part in parts))


@given(shift=st.integers(1, 63))
@settings(max_examples=20)
def test_d_mod_k_carries_every_shift_without_contention(shift):
    at = np.arange(64)
    wanted = Flows(pattern="shift", sender=at, receiver=(at + shift) % 64)
    carried, stranded = d_mod_k(ONE_RAIL).loads(wanted)
    assert stranded == 0
    assert carried.max() == 1


def test_without_a_table_nothing_arrives():
    wanted = flows("ring", TWO.adapters)
    assert Tables.of(TWO).loads(wanted)[1] == wanted.count


def test_tables_that_go_in_a_circle_are_told():
    spine = next(d.name for d in TWO.switches(2))
    leaves = [d.name for d in TWO.switches(1)][:2]
    ports = {}
    for leaf in leaves:
        up = next(c for c in TWO.cables if c.a == leaf and c.b == spine)
        ports[leaf] = {device.name: up.a_port for device in TWO.adapters}
        ports.setdefault(spine, {}).update({device.name: up.b_port for device in TWO.adapters})
    with pytest.raises(InputError, match="in a circle"):
        Tables.of(TWO, ports).loads(flows("ring", TWO.adapters))


def test_hashes_do_not_matter_within_a_leaf_and_do_beyond():
    tiers = Tiers.of(ONE_RAIL)
    names = [device.node for device in tiers.adapters]
    order = [names[(i % 8) * 8 + i // 8] for i in range(64)]
    apart = flows("ring", tiers.adapters, order)
    found = collisions(tiers, apart, 100)
    assert found.slowdown.min() >= 1
    assert 1.5 < found.expected <= found.tail() <= 8
    assert collisions(tiers, flows("ring", tiers.adapters, names[:8]), 10).tail() == 1


def test_the_expected_fullest_is_that_of_balls_in_bins():
    # 8 balls in 8 bins: the mean of the fullest is 2.6; both ways up and down, 16 leaves' worth, it is more.
    tiers = Tiers.of(ONE_RAIL)
    names = [device.node for device in tiers.adapters]
    one = [names[i] for i in range(8)] + [names[8 + i] for i in range(8)]
    pairs = Flows(pattern="pairs", sender=np.arange(8), receiver=np.arange(8, 16))
    assert len(one) == 16
    rng = np.random.default_rng(3)
    balls = np.array([[np.bincount(rng.integers(0, 8, 8)).max() for _ in range(2)] for _ in range(4000)])
    found = collisions(tiers, pairs, 2000).slowdown
    # A flow that is hashed up to a cable comes down by the bundle of the same spine: one cable of two.
    assert balls.max(axis=1).mean() * 0.85 < found.mean() < balls.max(axis=1).mean() * 1.1


def test_more_queue_pairs_collide_less():
    tiers = Tiers.of(ONE_RAIL)
    names = [device.node for device in tiers.adapters]
    order = [names[(i % 8) * 8 + i // 8] for i in range(64)]
    apart = flows("ring", tiers.adapters, order)
    assert collisions(tiers, apart, 50, paths_per_flow=16).expected < collisions(tiers, apart, 50).expected


def test_a_cable_to_an_unknown_device_or_a_used_port_is_refused():
    cable = TWO.cables[0]
    with pytest.raises(InputError, match="two cables"):
        Network("n", TWO.devices, (*TWO.cables, cable))
    devices = {name: d for name, d in TWO.devices.items() if name != cable.b}
    with pytest.raises(InputError, match="not described"):
        Network("n", devices, TWO.cables)
