"""What a run will do, and what of it fits into a budget."""

from __future__ import annotations

import pytest

from assay.measure.agent import plan
from assay.measure.crew import Machine, World, world_of
from assay.measure.registry import benchmarks
from assay.measure.schedule import (
    WAVES,
    Budget,
    Extent,
    expected_s,
    schedule,
    with_patience,
    with_room,
)
from assay.measure.suites import suite


def cluster(nodes: int, per_node: int = 8) -> World:
    """Nodes of cards."""
    machines = [
        Machine(
            host=f"n{at:03d}",
            ranks=per_node,
            cores=64.0,
            devices=tuple(f"cuda:{i}" for i in range(per_node)),
            backend="nccl",
        )
        for at in range(nodes)
    ]
    return world_of(
        [(range(at * per_node, (at + 1) * per_node), machine) for at, machine in enumerate(machines)]
    )


def tasks(name: str = "standard", *only: str):
    chosen = suite(name, on_gpu=True)
    runs = [b for b in benchmarks().values() if not b.apart and (not only or b.name in only)]
    return plan(chosen, runs)


def test_waves_go_from_one_card_outwards_and_pairs_tell_their_rounds():
    rows = schedule(tasks(), cluster(128)).rows
    waves = [row.wave for row in rows]
    assert waves == sorted(waves, key=WAVES.index)
    (pairs,) = [row for row in rows if row.benchmark == "pairs"]
    assert (pairs.subjects, pairs.rounds, pairs.restarts) == ("8128 pairs", 127, 5)
    (peer,) = [row for row in rows if row.benchmark == "peer"]
    assert (peer.subjects, peer.rounds) == ("3584 pairs", 7)


def test_cards_take_their_turns_in_every_node_at_once():
    (one,) = schedule(tasks("standard", "gemm"), cluster(1)).rows
    (many,) = schedule(tasks("standard", "gemm"), cluster(128)).rows
    assert one.each_s == many.each_s


def test_a_budget_keeps_whole_rounds_and_says_what_does_not_fit():
    whole = schedule(tasks(), cluster(128))
    assert all(row.fitting == row.restarts for row in whole.rows)
    half = schedule(tasks(), cluster(128), budget_s=whole.expected_s / 2)
    assert half.fitting_s <= whole.expected_s / 2
    assert all(row.fitting >= 2 for row in half.rows if row.restarts == 5)
    told = half.lines()
    left = [row for row in half.rows if row.fitting < row.restarts]
    assert left
    assert sum("does not fit" in line for line in told) == len(left)
    assert f"{left[0].restarts - left[0].fitting} restart" in "\n".join(told)


def test_what_a_benchmark_took_counts_more_than_what_was_expected():
    (row,) = schedule(tasks("quick", "clock"), cluster(2), budget_s=100.0, took_s={"clock": 40.0}).rows
    assert (row.each_s, row.fitting) == (40.0, 2)


@pytest.mark.parametrize("nodes", [2, 128])
def test_a_deadline_leaves_room_for_all_pairs_of_many_nodes(nodes):
    extent = Extent.of(cluster(nodes))
    for task in tasks():
        assert with_room(task, extent).deadline_s >= max(task.deadline_s, 2 * expected_s(task, extent))


@pytest.mark.parametrize(("load", "factor"), [(0.3, 1.0), (2.0, 1.0), (5.0, 2.5), (40.0, 4.0)])
def test_a_busy_machine_gets_more_time(load, factor):
    (task, *_) = tasks("quick", "clock")
    assert with_patience(task, load=load, cores=2.0).deadline_s == task.deadline_s * factor


def test_a_budget_runs_by_its_clock():
    now = [100.0]
    budget = Budget(limit_s=60.0, clock=lambda: now[0])
    (task, *_) = tasks("quick", "clock")
    extent = Extent.of(cluster(2))
    assert budget.allows(task, extent)
    budget.note(task, 50.0)
    now[0] = 105.0
    assert budget.left_s == 55.0
    assert budget.allows(task, extent)
    now[0] = 111.0
    assert not budget.allows(task, extent)
