"""Which nodes are below one leaf: by file, by fact, or in blocks."""

import pytest

from assay.api.leaves import find_leaves
from assay.domain.fact import Fact
from assay.domain.subject import Subject
from assay.measure.crew import Machine, world_of


def seats(*nodes):
    members = [
        ([at], Machine(host=node, ranks=1, cores=1, devices=("cpu",), backend="gloo", address=f"10.0.0.{at}"))
        for at, node in enumerate(nodes)
    ]
    return world_of(members).seats


def below(node, leaf):
    return Fact(key="leaf", subject=Subject("node", node), value=leaf, unit="text", source="test")


FOUR = seats("n0", "n1", "n2", "n3")


def test_the_hosts_file_counts_most_by_name_or_address(tmp_path):
    (tmp_path / "hosts").write_text("n0 10.0.0.0 s1\nn1 10.0.0.1 s1\nbmc-2 10.0.0.2 s2\nn3\n")
    found = find_leaves(FOUR, hosts=tmp_path / "hosts", facts=[below("n3", "s9")])
    assert (dict(found.of), found.known) == ({"n0": "s1", "n1": "s1", "n2": "s2"}, True)
    assert found.source == str(tmp_path / "hosts")


def test_a_topology_file_names_the_leaf_above_each_node(tmp_path):
    topology = tmp_path / "topology.conf"
    topology.write_text(
        "SwitchName=leaf0 Nodes=n[0-1]\nSwitchName=leaf1 Nodes=n[2-3]\nSwitchName=spine Switches=leaf[0-1]\n"
    )
    found = find_leaves(FOUR, topology=topology)
    assert dict(found.of) == {"n0": "leaf0", "n1": "leaf0", "n2": "leaf1", "n3": "leaf1"}


def test_the_inventory_tells_where_no_file_does():
    found = find_leaves(FOUR, facts=[below("n0", "a"), below("n1", "a"), below("n2", "b"), below("x", "b")])
    assert (dict(found.of), found.source) == ({"n0": "a", "n1": "a", "n2": "b"}, "inventory")


@pytest.mark.parametrize(("count", "blocks"), [(4, 2), (5, 2), (128, 8), (40, 2)])
def test_without_any_record_blocks_of_consecutive_nodes(count, blocks):
    found = find_leaves(seats(*(f"n{at}" for at in range(count))))
    assert not found.known
    assert "no leaf is on record" in found.source
    sizes = [list(found.of.values()).count(f"block{at}") for at in range(blocks)]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_a_run_that_goes_on_keeps_its_blocks_though_a_node_is_gone():
    told = [
        Fact(key="group.block", subject=Subject("node", seat.host), value=block, unit="text", source="test")
        for seat, block in zip(FOUR, ("block0", "block0", "block1", "block1"), strict=True)
    ]
    found = find_leaves(seats("n0", "n2", "n3"), facts=told)
    assert (dict(found.of), found.known) == ({"n0": "block0", "n2": "block1", "n3": "block1"}, False)
