"""Closed forms against published check values and against simulated lives; what goes beyond them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from assay.catalog.faults import LEAF_FAULTS_PER_S, causes, failure_rate, fleets
from assay.errors import InputError
from assay.plan.reliability import (
    Job,
    Restart,
    all_up_frac,
    availability_frac,
    available_s,
    best_interval_s,
    expected_largest,
    goodput_frac,
    spares,
    spot_overhead_frac,
    young_s,
)
from assay.plan.risk import assess
from assay.plan.simulate import Beyond, Life, simulate

WHOLE = Restart(detect_s=600, drain_s=0, reschedule_s=0, load_s=0)


def failing(mtbf_h: float, save_s: float = 60, restart: Restart = WHOLE, nodes: int = 1) -> Job:
    return Job(nodes=nodes, failures_per_s=1 / (mtbf_h * 3600 * nodes), save_s=save_s, restart=restart)


def lives(job: Job, beyond: Beyond, *, days: float = 60, runs: int = 12) -> list[Life]:
    every = best_interval_s(job)
    return [simulate(job, every, days * 86400, np.random.default_rng(n), beyond) for n in range(runs)]


def mean_goodput(job: Job, beyond: Beyond, **how: float) -> float:
    return float(np.mean([life.goodput_frac for life in lives(job, beyond, **how)]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mtbf_h", "young", "available", "goodput"),
    [(7.9, 1847, 1928, 0.915), (1.8, 882, 984, 0.776), (24 * 54 / 419, 1156, 1248, 0.845)],
    ids=["1,024 GPUs", "16,384 GPUs", "Llama 3"],
)
def test_intervals_are_the_published_check_values(
    mtbf_h: float, young: float, available: float, goodput: float
) -> None:
    job = failing(mtbf_h)
    assert round(young_s(60, job.mtbf_s)) == young
    assert round(available_s(60, job.mtbf_s, 600)) == available
    # The published goodputs are of first order; the exact form lies up to 2 % above.
    assert goodput <= goodput_frac(job, best_interval_s(job)) < goodput + 0.02


@given(mtbf_h=st.floats(0.3, 1000), save_s=st.floats(1, 300), restart_s=st.floats(0, 1800))
def test_the_best_interval_is_the_best(mtbf_h: float, save_s: float, restart_s: float) -> None:
    restart = Restart(detect_s=restart_s, drain_s=0, reschedule_s=0, load_s=0)
    job = failing(mtbf_h, save_s, restart)
    found = best_interval_s(job)
    sought = optimize.minimize_scalar(
        lambda x: -goodput_frac(job, math.exp(x)), bounds=(0, 20), method="bounded", options={"xatol": 1e-9}
    )
    assert goodput_frac(job, found) >= -sought.fun - 1e-9
    assert 0 < goodput_frac(job, found) < 1


@settings(max_examples=8)
@given(mtbf_h=st.floats(1, 20), save_s=st.floats(10, 120), restart_s=st.floats(60, 900))
def test_simulated_goodput_agrees_with_the_closed_form_within_one_percent(
    mtbf_h: float, save_s: float, restart_s: float
) -> None:
    restart = Restart(detect_s=restart_s / 2, drain_s=0, reschedule_s=restart_s / 2, load_s=0)
    job = failing(mtbf_h, save_s, restart)
    every = best_interval_s(job)
    life = simulate(job, every, 6000 * job.mtbf_s, np.random.default_rng(5))
    assert life.goodput_frac == pytest.approx(goodput_frac(job, every), rel=0.01)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    spare=st.sampled_from([None, 0, 2]),
    elastic=st.booleans(),
    lemons=st.sampled_from([0.0, 0.05]),
    infant=st.sampled_from([1.0, 4.0]),
)
def test_every_second_of_a_life_is_accounted_for(
    seed: int, spare: int | None, elastic: bool, lemons: float, infant: float
) -> None:
    job = failing(6, restart=Restart(), nodes=64)
    beyond = Beyond(
        spares=spare, elastic=elastic, lemon_frac=lemons, infant_ratio=infant, group_per_s=1e-6, repair_s=7200
    )
    life = simulate(job, 1000, 20 * 86400, np.random.default_rng(seed), beyond)
    assert sum(life.seconds.values()) == pytest.approx(20 * 86400, rel=1e-9)
    assert all(seconds >= 0 for seconds in life.seconds.values())


def test_what_goes_beyond_the_exponential_costs_what_it_should() -> None:
    job = failing(3, save_s=10, restart=Restart(), nodes=256)
    plain = mean_goodput(job, Beyond())
    assert mean_goodput(job, Beyond(infant_ratio=5)) < plain - 0.003
    assert mean_goodput(job, Beyond(lemon_frac=0.05)) < plain - 0.003
    assert mean_goodput(job, Beyond(group_per_s=1 / 86400, spares=4)) < plain - 0.01
    waiting = mean_goodput(job, Beyond(spares=0, repair_s=6 * 3600))
    shrinking = mean_goodput(job, Beyond(spares=0, repair_s=6 * 3600, elastic=True))
    ready = mean_goodput(job, Beyond(spares=spares(256, job.failures_per_s, 6 * 3600), repair_s=6 * 3600))
    assert waiting < shrinking - 0.2
    assert shrinking < ready < plain + 0.005


def test_a_lemon_is_taken_out_after_its_strikes() -> None:
    job = failing(3, nodes=128)
    found = lives(job, Beyond(lemon_frac=0.1, lemon_ratio=50, lemon_strikes=2), days=90, runs=4)
    assert all(life.lemons_removed > 3 for life in found)
    plain = lives(job, Beyond(), days=90, runs=4)
    more = sum(life.failures for life in found) - sum(life.failures for life in plain)
    assert more > sum(life.lemons_removed for life in found)


def test_a_shrunk_job_grows_again_when_nodes_are_back() -> None:
    job = failing(24, nodes=16)
    life = lives(job, Beyond(spares=0, elastic=True, repair_s=4 * 3600), days=200, runs=1)[0]
    # One node of sixteen is missing for about four hours of every 24.
    assert life.seconds["shrunk"] / (200 * 86400) == pytest.approx(1 / 16 * 4 / 24, rel=0.35)
    assert life.seconds["wait_for_nodes"] == 0


def test_llama_3_lies_above_90_percent_and_its_failures_are_those_counted() -> None:
    rate = failure_rate(fleet="llama-3")
    risk = assess(
        nodes=2048,
        rate=rate,
        save_s=5,
        restart=Restart(),
        duration_s=54 * 86400,
        leaves=512,
        leaf_nodes=32,
        leaf_faults_per_s=LEAF_FAULTS_PER_S,
        runs=4,
    )
    assert risk.failures.value == pytest.approx(419)
    assert risk.mtbf_s.value / 3600 == pytest.approx(3.09, abs=0.005)
    assert risk.goodput_frac.value > 0.90
    assert risk.goodput_frac.low < risk.goodput_frac.value < risk.goodput_frac.high
    assert abs(risk.simulated_error_frac) < 0.01
    assert sum(risk.parts.values()) == pytest.approx(1)
    assert sum(rate.causes.values()) == pytest.approx(1)


def test_causes_are_counts_and_the_printed_percentage_that_cannot_be_is_named() -> None:
    assert sum(cause.count for cause in causes().values()) == 419
    assert "35.3 %" in causes()["faulty-gpu"].source
    assert failure_rate(fleet="llama-3").causes["faulty-gpu"] == pytest.approx(148 / 419)


def test_rates_span_the_published_fleets_and_scale_with_cards_and_nodes() -> None:
    rate = failure_rate()
    own = sorted(fleet.node_failures_per_s for fleet in fleets().values())
    assert own[0] <= rate.low_per_s < rate.value_per_s < rate.high_per_s <= own[-1]
    assert fleets()["meta-rsc-1"].node_failures_per_s * 2048 == pytest.approx(1 / (1.80 * 3600), rel=0.01)
    small = failure_rate(4)
    assert 0.5 < small.value_per_s / rate.value_per_s < 1
    with pytest.raises(InputError, match="llama-4"):
        failure_rate(fleet="llama-4")


def test_spot_overhead_and_break_even_are_the_check_values() -> None:
    assert spot_overhead_frac(60, 600, 6 * 3600) == pytest.approx(0.102, abs=0.0005)
    even = optimize.brentq(lambda m: spot_overhead_frac(60, 600, m) - (1 - 6.571 / 10.979), 600, 1e5)
    assert even == pytest.approx(2985, abs=5)
    assert 6.571 / (1 - spot_overhead_frac(60, 600, 6 * 3600)) == pytest.approx(7.32, abs=0.005)


def test_one_node_at_three_nines_leaves_125_nodes_up_88_percent() -> None:
    assert all_up_frac(0.999, 125) == pytest.approx(0.882, abs=0.001)
    assert availability_frac(1 / 86400, 86400) == pytest.approx(0.5)


@given(st.integers(2, 100000))
def test_the_expected_largest_deviate_is_close_to_its_integral(ranks: int) -> None:
    assert 0 < expected_largest(ranks) < math.sqrt(2 * math.log(ranks)) + 0.1
    assert expected_largest(ranks * 2) > expected_largest(ranks)


def test_a_job_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="above zero"):
        Job(nodes=0, failures_per_s=1, save_s=1, restart=Restart())
    with pytest.raises(InputError, match="interval"):
        goodput_frac(failing(1), 0)
    with pytest.raises(InputError, match="detect"):
        Restart(detect_s=-1)
    assert goodput_frac(failing(0.001), 1e6) == 0
