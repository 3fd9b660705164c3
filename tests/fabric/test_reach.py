"""Who can talk to whom, how large a domain of links may be, SHARP's trees, jobs that share."""

import pytest

from assay.api.predicting_fabric import answer_questions
from assay.catalog.clusters import cluster
from assay.errors import InputError
from assay.fabric.failures.breakage import broken, parse_failure
from assay.fabric.failures.impact import Conditions
from assay.fabric.reach import domain_limit, talks
from assay.fabric.sharp_trees import build_trees, sharp_trees
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree


def talk(first, second):
    kinds = [cluster(name) for name in (first, second)]
    if first == second:
        kinds = kinds[:1]
    return next(one for one in talks(kinds) if {one.first, one.second} == {first, second})


@pytest.mark.parametrize(
    ("first", "second", "way", "library", "Bps"),
    [
        ("dgx-h100", "dgx-h100", "gpudirect", "NCCL", 50e9),
        ("dgx-h100", "dgx-a100", "gpudirect", "NCCL", 25e9),
        ("gb200-nvl72", "gb200-nvl72", "links", "NCCL", 900e9),
        ("hgx-mi300x", "hgx-h100-roce", "host", None, 25e9),
        ("dgx-h100", "hgx-h100-roce", "none", None, 0.0),
        ("hgx-h100-roce", "hgx-b200-roce", "gpudirect", "NCCL", 50e9),
    ],
)
def test_what_must_match_for_gpus_to_talk(first, second, way, library, Bps):
    found = talk(first, second)
    assert (found.way, found.library, found.Bps) == (way, library, Bps)


def test_generations_differ_and_the_reason_says_so():
    assert "LL128" in talk("dgx-h100", "dgx-a100").why
    assert "LL128" not in talk("dgx-h100", "dgx-h100").why
    assert "gateway" in talk("dgx-h100", "hgx-h100-roce").why


@pytest.mark.parametrize(
    ("name", "limit"),
    [("dgx-a100", 16), ("dgx-h100", 256), ("gb200-nvl72", 576), ("hgx-mi300x", 8), ("l40s-pcie", 1)],
)
def test_a_domain_of_links_has_a_limit(name, limit):
    found = cluster(name)
    assert domain_limit(found) == limit
    assert len(found.node.gpus) * found.domain_nodes <= max(limit, len(found.node.gpus))


def test_a_tree_a_rail_with_the_leaves_and_one_root():
    trees = build_trees(fat_tree(size_fabric(128)))
    assert len(trees) == 8
    assert {(tree.switches, tree.depth, tree.adapters) for tree in trees} == {(5, 2, 128)}
    three = build_trees(fat_tree(size_fabric(512)))
    assert {tree.depth for tree in three} == {3}
    assert all(tree.root.startswith("core") for tree in three)


def test_a_tree_goes_round_what_failed():
    network = broken(fat_tree(size_fabric(128)), [parse_failure("switch:spine000")])
    assert {tree.root for tree in build_trees(network)} == {"spine001"}


def test_a_cut_leaf_has_no_tree():
    network = fat_tree(size_fabric(16, radix=16))
    cut = network.without([c for c in network.cables if c.a == "leaf000" and network.devices[c.b].tier == 2])
    with pytest.raises(InputError, match="no switch reaches"):
        build_trees(cut)


def test_small_messages_gain_from_adding_in_the_switches():
    found = sharp_trees(cluster("dgx-h100").of(64))
    gain = dict(found.gain)
    assert gain[1024.0] > 1
    assert found.version == 3
    assert "fp8" in found.adds_not


def test_jobs_that_share_get_less_and_never_more():
    system = cluster("dgx-h100").of(32)
    said = ["all_to_all:node[0-15]", "all_to_all:node[16-31]", "ring:node[0-31]"]
    for job in answer_questions(system, Conditions(), jobs=said).jobs:
        assert 0 < job.shared_Bps <= job.alone_Bps * (1 + 1e-9)


@pytest.mark.parametrize(
    ("job", "words"), [("all_to_all", "names no nodes"), ("ring:node99", "unknown node")]
)
def test_a_job_that_cannot_be_is_refused(job, words):
    with pytest.raises(InputError, match=words):
        answer_questions(cluster("dgx-h100").of(8), Conditions(), jobs=[job])
