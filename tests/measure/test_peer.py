"""The pair benchmark, run for real, and the rounds in which it takes the pairs."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from assay.measure.benchmarks.peer import disjoint_rounds

SHORT = {"bytes": 65536, "iterations": 5, "pings": 20, "budget_s": 0.2}


@given(st.lists(st.integers(0, 1000), max_size=20, unique=True))
def test_rounds_hold_every_pair_once_and_no_rank_twice(ranks):
    rounds = disjoint_rounds(sorted(ranks))
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == sorted(combinations(sorted(ranks), 2))
    for pairs in rounds:
        busy = [rank for pair in pairs for rank in pair]
        assert len(set(busy)) == len(busy)
    assert len(rounds) <= max(0, len(ranks) - 1 + len(ranks) % 2)


def test_both_directions_both_at_once_and_latency(run_benchmark):
    measured = run_benchmark("peer", **SHORT)
    assert measured.outcome.whole
    one_way = measured.readings("peer.bandwidth", bytes=65536, transport="gloo", statistic="median")
    assert {r["subject"] for r in one_way} == {"link:rank0>rank1", "link:rank1>rank0"}
    (both,) = measured.readings("peer.bidirectional_bandwidth", bytes=65536)
    assert both["subject"] == "pair:rank0|rank1"
    for reading in (*one_way, both):
        assert 1e6 < reading["value"] < 1e12
        assert 3 <= reading["n"] <= 5
        assert reading["samples"]["count"] == reading["n"]
    (latency,) = measured.readings("peer.latency", bytes=8, statistic="p50")
    assert 1e-7 < latency["value"] < 1
    assert latency["samples"]["count"] == 20
    assert measured.reasons() == {"p99 needs 300 round trips; there were 20"}


def test_every_pair_of_three_ranks_and_the_tail_from_300_round_trips_on(run_benchmark):
    measured = run_benchmark("peer", ranks=3, cores=4, **(SHORT | {"pings": 300}))
    assert measured.outcome.whole
    assert not measured.reasons()
    assert len({r["subject"] for r in measured.readings("peer.bandwidth")}) == 6
    p50 = {r["subject"]: r["value"] for r in measured.readings("peer.latency", statistic="p50")}
    p99 = {r["subject"]: r["value"] for r in measured.readings("peer.latency", statistic="p99")}
    assert set(p50) == {"pair:rank0|rank1", "pair:rank0|rank2", "pair:rank1|rank2"}
    assert all(p99[pair] >= p50[pair] for pair in p50)


def test_one_rank_has_no_peer(run_benchmark):
    measured = run_benchmark("peer", ranks=1, **SHORT)
    assert not measured.valued()
    assert measured.reasons() == {"one rank in the node has no peer"}


def test_a_message_that_arrives_wrong_is_not_measured(run_benchmark):
    measured = run_benchmark("peer", corrupt=True, **SHORT)
    assert not measured.valued()
    assert measured.outcome.failed == (0, 1)
    assert measured.reasons() == {"a message between two ranks did not arrive as it was sent (on rank 1)"}
