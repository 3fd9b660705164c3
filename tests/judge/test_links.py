"""Which links are slow: hosts before pairs, directions told apart, nothing where nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.judge.links import slow_links

HOSTS = ("h0", "h1", "h2", "h3")
EVERY = [(a, b) for a in HOSTS for b in HOSTS if a != b]


def named(costs, limit=2.0):
    return [(slow.code, str(slow.subject)) for slow in slow_links(costs, limit)]


@given(st.lists(st.floats(1.0, 1.9), min_size=12, max_size=12))
def test_ordinary_spread_names_nothing(values):
    assert named(dict(zip(EVERY, values, strict=True))) == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_named_by_its_links_and_by_their_direction(host):
    both = {ends: 9.0 if host in ends else 1.0 for ends in EVERY}
    assert named(both) == [("LINK_SLOW", f"link:{host}>*")]
    out = {ends: 9.0 if ends[0] == host else 1.0 for ends in EVERY}
    assert named(out) == [("LINK_SLOW_ONE_WAY", f"link:{host}>*")]
    into = {ends: 9.0 if ends[1] == host else 1.0 for ends in EVERY}
    assert named(into) == [("LINK_SLOW_ONE_WAY", f"link:*>{host}")]


def test_a_single_pair_is_named_and_not_its_hosts():
    both = {ends: 9.0 if set(ends) == {"h1", "h3"} else 1.0 for ends in EVERY}
    assert named(both) == [("LINK_SLOW", "pair:h1|h3")]
    one_way = {ends: 9.0 if ends == ("h3", "h1") else 1.0 for ends in EVERY}
    assert named(one_way) == [("LINK_SLOW_ONE_WAY", "link:h3>h1")]


def test_two_slow_hosts_of_six_are_both_named():
    hosts = tuple(f"h{i}" for i in range(6))
    costs = {(a, b): 9.0 if {a, b} & {"h1", "h4"} else 1.0 for a in hosts for b in hosts if a != b}
    assert sorted(named(costs)) == [("LINK_SLOW", "link:h1>*"), ("LINK_SLOW", "link:h4>*")]


def test_two_hosts_cannot_tell_which_of_them_is_slow():
    assert named({("h0", "h1"): 9.0, ("h1", "h0"): 1.0}) == []
