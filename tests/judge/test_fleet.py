"""The fit over a fleet names each fault once, at its level, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from fleets import fleet, named
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.messages import LANGUAGES, Texts
from assay.judge.polish import Groups, find_slow, median, p_of_chance, polish

BOTH_WAYS = ("link:node05>node09:peer.bandwidth:-15%", "link:node09>node05:peer.bandwidth:-15%")
LEAVES = {f"leaf__{i}": (f"leaf{i}", 6 * i, 6 * i + 5) for i in range(4)}


@pytest.mark.parametrize(
    ("plants", "expected"),
    [
        (("node:node07:peer.bandwidth:-4%",), ("NODE_SLOW", "node:node07")),
        (("node:node07:gemm.bf16.rate:-4%",), ("NODE_SLOW", "node:node07")),
        (("gpu:node03/2:gemm.bf16.rate:-10%",), ("GPU_SLOW", "gpu:node03/2")),
        (BOTH_WAYS, ("LINK_SLOW", "pair:node05|node09")),
        (BOTH_WAYS[:1], ("LINK_SLOW_ONE_WAY", "link:node05>node09")),
        (("link:node11>*:peer.bandwidth:-8%",), ("LINK_SLOW_ONE_WAY", "link:node11>*")),
        (("link:*>node11:peer.bandwidth:-8%",), ("LINK_SLOW_ONE_WAY", "link:*>node11")),
        (("pair:node05|node09:peer.latency:+60%",), ("LINK_SLOW", "pair:node05|node09")),
        (("nodes:6-11:peer.bandwidth:-5%",), ("LEAF_SLOW", "group:leaf1")),
        (("nodes:0-11:*:-5%",), ("COHORTS_DIFFER", "cluster")),
        (("gpu:*/3:gemm.bf16.rate:-5%",), ("COHORTS_DIFFER", "cluster")),
        (("link:node04/1>*:peer.bandwidth:-20%", "link:*>node04/1:peer.bandwidth:-20%"),
         ("LINK_SLOW", "link:node04/1>*")),
    ],
)  # fmt: skip
def test_a_fault_is_named_once_and_alone(plants: tuple[str, ...], expected: tuple[str, str]) -> None:
    found = fleet(plants, **LEAVES, firmware=("28.39", 0, 11))
    assert named(found) == [expected]
    assert found.notes == ()


def test_a_slow_rail_and_a_slow_port_are_told_apart() -> None:
    rail = fleet(("link:*/2>*/2:peer.bandwidth:-10%",), pairs="rails")
    assert named(rail) == [("RAIL_SLOW", "group:rail2")]
    port = ("link:node04/2>node*:peer.bandwidth:-20%", "link:node*>node04/2:peer.bandwidth:-20%")
    assert named(fleet(port, pairs="rails")) == [("LINK_SLOW", "link:node04/2>*")]


def test_all_faults_at_once_are_all_named() -> None:
    plants = (
        *BOTH_WAYS,
        "node:node07:peer.bandwidth:-4%",
        "gpu:node20/1:gemm.bf16.rate:-12%",
        "link:*/3>*/3:peer.bandwidth:-10%",
        "nodes:12-17:peer.bandwidth:-8%",
        "nodes:0-11:gemm.bf16.rate:-5%",
    )
    found = fleet(plants, pairs="rails", **LEAVES, firmware=("28.39", 0, 11))
    assert set(named(found)) == {
        ("NODE_SLOW", "node:node07"),
        ("GPU_SLOW", "gpu:node20/1"),
        ("LINK_SLOW", "pair:node05|node09"),
        ("RAIL_SLOW", "group:rail3"),
        ("LEAF_SLOW", "group:leaf2"),
        ("COHORTS_DIFFER", "cluster"),
    }


def test_a_leaf_whose_uplinks_alone_are_slow_is_a_leaf() -> None:
    inside = [
        f"link:node{a:02d}>node{b:02d}:peer.bandwidth:+25%" for a in range(6) for b in range(6) if a != b
    ]
    found = fleet(("nodes:0-5:peer.bandwidth:-20%", *inside), **LEAVES)
    assert named(found) == [("LEAF_SLOW", "group:leaf0")]


def test_a_slow_node_does_not_make_its_leaf_slow() -> None:
    found = fleet(("node:node07:peer.bandwidth:-30%", "node:node08:peer.bandwidth:-30%"), **LEAVES)
    assert named(found) == [("NODE_SLOW", "node:node07"), ("NODE_SLOW", "node:node08")]


def test_cohorts_that_are_the_same_nodes_are_told_together() -> None:
    found = fleet(("nodes:0-11:gemm.bf16.rate:-6%",), firmware=("28.39", 0, 11), rack=("r1", 0, 11))
    assert named(found) == [("COHORTS_DIFFER", "cluster")]
    for lang in LANGUAGES:
        said = Texts(lang).say(found.findings[0].because)
        assert "rack r1" in said or ("rack" in said and "r1" in said)
        assert "firmware 28.39" in said
        assert "{" not in said


@pytest.mark.parametrize("what", ["gemm.bf16.rate", "peer.bandwidth"])
def test_half_of_the_nodes_are_one_finding_even_where_nothing_tells_them_apart(what: str) -> None:
    found = fleet((f"nodes:12-23:{what}:-5%",))
    assert named(found) == [("COHORTS_DIFFER", "cluster")]
    assert "node12, node13, node14, node15 +8" in Texts("en").say(found.findings[0].because)


def test_healthy_fleets_have_no_finding_and_say_so() -> None:
    found = [fleet(seed=seed, **LEAVES, firmware=("28.39", 0, 11)) for seed in range(6)]
    assert [named(f) for f in found] == [[]] * 6
    assert "none odd" in Texts("en").say(found[0].notes[0])


def test_a_few_nodes_are_held_to_what_healthy_networks_differ_by() -> None:
    """Links of four healthy hosts differ by up to a fifth."""
    assert named(fleet(("node:node02:peer.bandwidth:-10%",), nodes=4, restarts=3)) == []
    slow = fleet(("node:node02:peer.bandwidth:-50%",), nodes=4, restarts=3)
    assert ("NODE_SLOW", "node:node02") in named(slow)
    assert all("node02" in subject for _, subject in named(slow))


def test_one_restart_names_nobody_and_fewer_nodes_are_left_to_others() -> None:
    assert named(fleet(("node:node07:gemm.bf16.rate:-4%",), restarts=1)) == []
    assert fleet(nodes=3).families == ()


def test_evidence_says_where() -> None:
    (finding,) = fleet(("node:node07:peer.bandwidth:-6%",)).findings
    assert {proof.file for proof in finding.evidence} == {"rank-0000.jsonl"}
    assert all(proof.line and "node07" in proof.text for proof in finding.evidence)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), missing=st.floats(0, 0.4))
def test_medians_of_groups_are_those_of_numpy(seed: int, n: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n, 3)) < missing, np.nan, rng.standard_normal((n, 3)))
    of = rng.integers(0, 4, n)
    made = Groups(of, 4).median(values)
    for group in range(4):
        for restart in range(3):
            known = [v for v in values[of == group, restart] if not np.isnan(v)]
            if known:
                assert made[group, restart] == pytest.approx(np.median(known))
            else:
                assert np.isnan(made[group, restart])


def test_an_additive_table_is_taken_apart_exactly_despite_a_bad_cell() -> None:
    rows, columns = np.arange(6.0), np.array([0.0, 2.0, 4.0, 1.0, 3.0])
    of = np.array([(i, j) for i in range(6) for j in range(5)])
    values = (rows[of[:, 0]] + columns[of[:, 1]])[:, None]
    values[7] += 100
    r, c, rest = polish(values, Groups(of[:, 0], 6), Groups(of[:, 1], 5))
    assert r[:, 0] - r[0, 0] == pytest.approx(rows)
    assert c[:, 0] - c[0, 0] == pytest.approx(columns)
    assert int(np.argmax(rest)) == 7


def test_chance_is_the_least_restart_to_the_power_of_the_restarts() -> None:
    one = p_of_chance(np.array([[3.0]]), 1.0)[0]
    assert p_of_chance(np.array([[3.0, 9.0, 4.0]]), 1.0)[0] == pytest.approx(one**3)
    assert p_of_chance(np.array([[3.0, np.nan]]), 1.0)[0] == pytest.approx(one)
    assert p_of_chance(np.array([[np.nan, np.nan]]), 1.0)[0] == 1.0
    assert p_of_chance(np.array([[1.0, 1.0]]), 0.0)[0] == 0.0


def test_an_effect_too_small_to_matter_is_not_named_however_sure() -> None:
    effects = np.zeros((50, 5)) + np.random.default_rng(1).normal(0, 1e-5, (50, 5))
    effects[7] += 0.01
    assert not find_slow(effects, 0.02, 0.01).is_odd.any()
    assert find_slow(effects, 0.005, 0.01).at == [7]


def test_the_median_of_nothing_is_nothing() -> None:
    assert np.isnan(median(np.array([[np.nan], [np.nan]]))).all()
