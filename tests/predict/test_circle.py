"""The circle closed on this machine: one size on two ranks, and only against gross error."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))

import circle


def test_a_measured_step_is_the_sum_of_its_parts_but_for_the_load_of_this_machine():
    with circle.place("2", runs=1) as (options, ranks):
        (run,) = circle.measured_runs(options, "small", ranks)
    assert 1 / 4 < run.predicted.time_s / run.measured_s < 4
    assert {"linear", "update", "buckets"} <= run.predicted.terms_s.keys()
    assert run.apart_s > 0


@pytest.mark.parametrize("host", ["h0", "h3"])
def test_a_host_is_told_to_stay_on_one_core(host):
    words = circle._pinned("ip netns exec as1-{host} unshare --uts sh -c 'hostname {host}; eval \"$*\"' sh")
    said = words.replace("{host}", host)
    assert f"sh -c 'n={host}; taskset -pc $(( ${{n#h}} % " in said
    assert said.endswith(f'hostname {host}; eval "$*"\' sh')
