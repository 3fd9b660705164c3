"""What failures leave of a fabric, and how it heals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.clusters import cluster
from assay.domain.fabric import Transport
from assay.errors import InputError
from assay.fabric.failures.breakage import broken, parse_failure
from assay.fabric.failures.impact import Conditions, impact, slowed_cluster
from assay.fabric.failures.recovery import recovery, sweep_s
from assay.fabric.failures.remaining import ROUTINGS, remaining
from assay.fabric.failures.sweep import sweep
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree

FULL = fat_tree(size_fabric(16, radix=16))
CROWDED = fat_tree(size_fabric(24, radix=16, oversubscription=3.0))


def left(text, network=FULL, routing="adaptive"):
    return remaining(network, [parse_failure(text)], routing=routing)


def test_a_failed_nic_leaves_its_node_seven_eighths():
    found = left("nic:node3/mlx5_2")
    assert found.rails_frac == 7 / 8
    assert set(found.pattern_frac.values()) == {7 / 8}
    assert found.out == ()


def test_a_failed_rail_leaves_seven_eighths_to_all():
    found = left("rail:4")
    assert found.pattern_frac["ring"] == 7 / 8
    assert found.bisection_frac == pytest.approx(7 / 8)


def test_a_failed_leaf_takes_one_nic_of_each_of_its_nodes():
    assert left("switch:leaf1").pattern_frac["all_to_all"] == 7 / 8


def test_a_slow_gpu_leaves_the_network_whole_and_a_dead_one_takes_its_node_out():
    assert left("gpu:node3/1@0.8").pattern_frac["ring"] == 1
    assert left("gpu:node3/1").out == ("node0003",)


def test_a_crowded_fabric_feels_a_lost_uplink_by_what_is_missing():
    # Four uplinks for twelve adapters: one less leaves three quarters to what must go up.
    found = left("link:leaf0-spine1", CROWDED)
    assert found.pattern_frac["all_to_all"] == pytest.approx(3 / 4, rel=0.02)
    assert (
        left("link:leaf0-spine1@0.5", CROWDED).pattern_frac["all_to_all"] > found.pattern_frac["all_to_all"]
    )


def test_whole_destinations_are_coarser_than_adaptive_paths():
    adaptive = left("link:leaf0-spine1", CROWDED).pattern_frac["all_to_all"]
    assert left("link:leaf0-spine1", CROWDED, "static").pattern_frac["all_to_all"] <= adaptive + 1e-9


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=15)
@given(data=st.data())
def test_what_is_left_is_a_part_and_more_failures_never_leave_more(routing, data):
    links = [f"link:{c.a}[{c.a_port}]" for c in FULL.cables if FULL.devices[c.a].tier == 1]
    one, two = data.draw(st.sampled_from(links)), data.draw(st.sampled_from(links))
    first = remaining(FULL, [parse_failure(one)], routing=routing)
    both = remaining(FULL, [parse_failure(text) for text in {one, two}], routing=routing)
    for name, part in first.pattern_frac.items():
        assert 0 < part <= 1
        if routing == "adaptive":
            assert both.pattern_frac[name] <= part + 1e-9


def test_every_uplink_of_a_leaf_gone_strands_its_flows():
    gone = [parse_failure(f"link:leaf000[{port}]") for port in range(9, 17)]
    found = remaining(FULL, gone)
    assert found.stranded > 0
    assert found.pattern_frac["all_to_all"] == 0


def test_the_sweep_has_one_of_each_class():
    names = {one.name: one.count for one in sweep(FULL)}
    assert names == {"nic – leaf": 128, "leaf – spine": 128, "leaf switch": 16, "spine switch": 8}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("link:leaf3-spin1", "unknown device"),
        ("switch:leaf99", "did you mean"),
        ("swich:leaf3", "did you mean 'switch'"),
        ("leaf3", "write link:"),
        ("gpu:node3/1@2", "not a part"),
        ("rail:9", "unknown rail"),
        ("nic:leaf3", "is a switch"),
        ("switch:node3/mlx5_1", "is an adapter"),
        ("link:leaf3-leaf4", "no cable joins"),
        ("link:leaf3[60]", "has no cable"),
    ],
)
def test_a_failure_that_cannot_be_is_named_with_its_fix(text, words):
    with pytest.raises(InputError) as fault:
        broken(FULL, [parse_failure(text)])
    assert words in str(fault.value)


def test_a_static_fabric_waits_for_the_sweep_and_an_adaptive_one_does_not():
    link = [parse_failure("link:leaf0-spine1")]
    static = recovery(link, 2048, Transport.INFINIBAND, "static")
    adaptive = recovery(link, 2048, Transport.INFINIBAND, "adaptive")
    assert static.healed_s == pytest.approx(1.61, rel=0.01)
    # One timeout of 4.096 µs · 2^20 covers it.
    assert static.stall_s == pytest.approx(4.295, rel=0.001)
    assert adaptive.stall_s < 0.01
    assert static.survives
    assert adaptive.survives


def test_a_dead_nic_ends_the_job_and_a_sweep_beyond_patience_too():
    assert not recovery([parse_failure("nic:node1/mlx5_0")], 512, Transport.INFINIBAND, "adaptive").survives
    assert not recovery([parse_failure("switch:spine1")], 40_000, Transport.INFINIBAND, "static").survives


@given(st.integers(1, 100_000))
def test_a_sweep_takes_longer_on_a_larger_fabric(adapters):
    assert 0 < sweep_s(adapters) <= sweep_s(adapters + 100)


def test_conditions_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="contradict"):
        Conditions.of(ecmp=True, adaptive=True)
    with pytest.raises(InputError, match="a loss of 1"):
        Conditions.of(loss=1.0)
    with pytest.raises(InputError, match="no part of the speed"):
        Conditions.of(degrade=["link:leaf0-spine1"])


def test_an_impact_slows_the_collective_by_what_is_left():
    system = cluster("dgx-h100").of(32)
    harm = impact(system, Conditions.of(fail=["nic:node3/mlx5_1"], loss=1e-3))
    assert harm.slowdown["ring"] == pytest.approx(8 / 7 / harm.goodput_frac)
    assert slowed_cluster(system, harm, "all_reduce").fabric.oversubscription == pytest.approx(
        harm.slowdown["ring"]
    )


def test_hashed_routes_collide_where_jobs_are_not_in_order():
    system = cluster("hgx-h100-roce").of(64)
    assert impact(system, Conditions.of(ecmp=True)).hashing["all_to_all"] >= 1
    assert impact(system, Conditions.of(adaptive=True)).hashing["tree"] == 1
