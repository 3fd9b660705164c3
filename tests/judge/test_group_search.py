"""Group tests find what is planted, in rounds that grow like the logarithm."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.judge.group_search import GroupSearch, simulate


def nodes(n: int) -> list[str]:
    return [f"n{at}" for at in range(n)]


@given(n=st.integers(4, 300), data=st.data())
@settings(max_examples=60, deadline=None)
def test_bad_nodes_are_found_while_two_good_ones_are_left(n: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.sampled_from(nodes(n)), max_size=min(6, n - 3)))
    found = simulate(nodes(n), bad)
    assert set(found.faults.nodes) == bad
    assert found.faults.pairs == ()


@given(n=st.integers(4, 300), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_pair_is_found_and_neither_end_is_blamed(n: int, data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.sampled_from(nodes(n)), min_size=2, max_size=2, unique=True))
    others = sorted(set(nodes(n)) - set(ends))
    bad = data.draw(st.sets(st.sampled_from(others), max_size=1 if n > 6 else 0))
    found = simulate(nodes(n), bad, [ends])
    assert {frozenset(pair) for pair in found.faults.pairs} == {frozenset(ends)}
    assert set(found.faults.nodes) == bad


@pytest.mark.parametrize("n", [16, 64, 256, 1024])
def test_rounds_grow_like_the_logarithm(n: int) -> None:
    assert simulate(nodes(n), {nodes(n)[n // 3]}).rounds <= math.log2(n) + 4
    assert simulate(nodes(n), (), [(nodes(n)[1], nodes(n)[n - 2])]).rounds <= 2 * math.log2(n) + 4
    assert simulate(nodes(n)).tests_run == 1


def test_groups_of_a_round_are_disjoint() -> None:
    search = GroupSearch(nodes(100))
    while not search.done:
        assert sum(map(len, search.tests)) == len(frozenset().union(*search.tests))
        search.report({group: bool(group & {"n7", "n93"}) for group in search.tests})
    assert search.faults.nodes == ("n7", "n93")


def test_five_bad_of_232_take_fewer_tests_than_the_55_of_a_public_suite() -> None:
    draws = [random.Random(seed).sample(nodes(232), 5) for seed in range(60)]
    found = [simulate(nodes(232), bad) for bad in draws]
    assert [set(one.faults.nodes) for one in found] == [set(bad) for bad in draws]
    assert statistics.mean(one.tests_run for one in found) < 50
    assert statistics.mean(one.rounds for one in found) < 3 * math.log2(232)


def test_wrong_outcomes_cost_tests_and_seldom_the_answer() -> None:
    """One outcome in a hundred is the opposite: no good node is named, and nearly every bad one is."""
    missed = 0
    for seed in range(100):
        draw = random.Random(seed)
        bad = set(draw.sample(nodes(232), 3))
        found = simulate(nodes(232), bad, is_wrong=lambda draw=draw: draw.random() < 0.01)
        assert set(found.faults.nodes) <= bad
        assert found.faults.pairs == ()
        missed += set(found.faults.nodes) != bad
    assert missed <= 3


def test_a_group_that_is_slow_without_a_bad_node_or_pair_is_left_unresolved() -> None:
    """Three that are slow only together: a switch above them, say."""
    search, three = GroupSearch(nodes(40)), {"n3", "n17", "n31"}
    while not search.done:
        search.report({group: three <= group for group in search.tests})
    assert (search.faults.nodes, search.faults.pairs) == ((), ())
    assert set(search.faults.unresolved) >= three


def test_where_no_node_can_be_shown_to_be_good_nobody_is_blamed() -> None:
    found = simulate(nodes(3), {"n0", "n1"}).faults
    assert found.nodes == ()
    assert found.unresolved == ("n0", "n1", "n2")


def test_one_of_two_nodes_cannot_be_told_from_their_pair() -> None:
    assert simulate(nodes(2), {"n0"}).faults.unresolved == ("n0", "n1")


def test_an_outcome_that_is_missing_and_a_search_of_one_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 1 tests"):
        GroupSearch(nodes(4)).report({})
    with pytest.raises(InputError, match="two nodes"):
        GroupSearch(["n0"])
