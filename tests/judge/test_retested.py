"""A suspect is measured again alone: what stays slow is named, what does not is contention."""

import pytest
from judging import reading

from assay.catalog.quantities import quantity
from assay.domain.recipe import Recipe
from assay.judge.families import gather
from assay.judge.odd import find_odd
from assay.judge.retested import suspects, without_retests

HOSTS = ("h0", "h1", "h2", "h3")
EVERY = [(a, b) for a in HOSTS for b in HOSTS if a != b]
ROUND = Recipe.of(bytes=4096, transport="gloo", statistic="median", span="nodes", load="round")
ALONE = Recipe.of(bytes=4096, transport="gloo", statistic="median", span="nodes", load="alone")


def rates(slow, again=None):
    """Of all directed links, 1e9 but for the slow; then of links measured again alone."""
    found = [
        reading(slow.get(ends, 1e9), subject="link:" + ">".join(ends), id="peer.bandwidth", recipe=ROUND)
        for ends in EVERY
    ]
    return found + [
        reading(rate, subject="link:" + ">".join(ends), id="peer.bandwidth", recipe=ALONE)
        for ends, rate in (again or {}).items()
    ]


def settled(readings):
    measured, retests = without_retests(gather([_placed(r) for r in readings], quantity))
    return {(f.code, str(f.subject)) for f in retests.settle(find_odd(measured, ()), measured)}


def _placed(r):
    return reading(
        r.value, subject=str(r.subject), id=r.quantity, recipe=r.recipe, source="rank-0000.jsonl:7"
    )


HOST = {ends: 1e8 for ends in EVERY if "h2" in ends}


def test_a_host_that_is_slow_with_good_partners_too_is_named():
    again = {("h2", "h0"): 1.1e8, ("h0", "h2"): 1.1e8, ("h2", "h1"): 1e8, ("h1", "h2"): 1e8}
    assert settled(rates(HOST, again)) == {("LINK_SLOW", "link:h2>*")}


def test_a_host_that_is_fast_alone_was_in_contention():
    again = {("h2", "h0"): 0.9e9, ("h0", "h2"): 1e9, ("h2", "h1"): 1e9, ("h1", "h2"): 0.8e9}
    assert settled(rates(HOST, again)) == {("LINK_CONTENTION", "link:h2>*")}


@pytest.mark.parametrize(("alone", "code"), [(1e8, "LINK_SLOW_ONE_WAY"), (0.9e9, "LINK_CONTENTION")])
def test_a_single_direction(alone, code):
    again = {("h1", "h3"): alone, ("h3", "h1"): 1e9}
    assert settled(rates({("h1", "h3"): 1e8}, again)) == {(code, "link:h1>h3")}


def test_what_was_not_measured_again_stays_named():
    assert settled(rates(HOST)) == {("LINK_SLOW", "link:h2>*")}


def test_a_suspect_meets_two_good_partners_and_a_pair_itself_too():
    readings = [_placed(r) for r in rates(HOST)]
    findings = find_odd(gather(readings, quantity), ())
    assert suspects(findings, HOSTS) == [("h0", "h2"), ("h1", "h2")]
    findings = find_odd(gather([_placed(r) for r in rates({("h1", "h3"): 1e8})], quantity), ())
    assert suspects(findings, HOSTS) == [("h1", "h3"), ("h0", "h1"), ("h0", "h3")]
    assert suspects([], HOSTS) == []
