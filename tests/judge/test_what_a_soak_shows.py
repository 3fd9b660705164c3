"""What a soak shows, and what it finds."""

import math

import numpy as np
import pytest
from judging import reading

from assay.domain.event import Event
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.judge.soak import find_soaked, mtbf_shown_s, trend

HOUR = 3600.0
RATE = Recipe.of(shape="8x8x8", load="soak", statistic="median")


def event(kind, subject, **details):
    return Event(kind=kind, time_s=1.0, subject=subject, text="", details=details, source="agent.jsonl:1")


def started(ranks=4):
    return [
        event(
            "worker_started", Subject("rank", str(rank)), host=f"h{rank // 2}", benchmark="soak", replicate=0
        )
        for rank in range(ranks)
    ]


def durations(ranks=4, slices=8, each_s=6 * HOUR):
    return [
        reading(each_s, subject=f"rank:{rank}", id="soak.duration", recipe=Recipe(), restart=at)
        for rank in range(ranks)
        for at in range(slices)
    ]


def shown(soaked):
    return {str(r.subject): r.value / HOUR for r in soaked.readings}


def test_48_hours_without_a_failure_show_16_hours():
    assert mtbf_shown_s(48 * HOUR, 0) / HOUR == pytest.approx(16.02, abs=0.01)
    assert mtbf_shown_s(48 * HOUR, 0) == pytest.approx(48 * HOUR / -math.log(0.05))


@pytest.mark.parametrize(("failures", "mean"), [(0, 2.9957), (1, 4.7439), (2, 6.2958), (10, 16.962)])
def test_the_bound_is_that_of_the_poisson_distribution(failures, mean):
    """Half the 95 % quantile of chi-squared with 2 (failures + 1) degrees of freedom, from tables."""
    assert mtbf_shown_s(1.0, failures) == pytest.approx(1 / mean, rel=1e-4)


def test_it_is_told_for_the_session_for_each_node_and_for_all_alike():
    soaked = find_soaked(durations(), started())
    assert shown(soaked) == pytest.approx({"cluster": 16.02, "node:h0": 16.02, "node:h1": 16.02}, abs=0.01)
    values = dict(soaked.notes[0].values)
    assert values["failures"] == 0
    assert values["pooled_s"] / HOUR == pytest.approx(32.05, abs=0.01)
    assert soaked.findings == ()


def test_a_lost_rank_is_a_failure_of_its_node_and_of_the_whole():
    lost = event("rank_lost", Subject("rank", "3"), benchmark="soak", replicate=5)
    failed = event("task_failed", CLUSTER, benchmark="soak", replicate=5)
    soaked = find_soaked(durations(), [*started(), lost, failed])
    assert shown(soaked) == pytest.approx({"cluster": 10.12, "node:h0": 16.02, "node:h1": 10.12}, abs=0.01)


def test_wrong_sums_and_lost_links_are_found_and_counted():
    sums = reading(2, subject="rank:1", id="soak.wrong_sums", recipe=Recipe.of(bytes=4, transport="gloo"))
    links = reading(1, subject="node:h1", id="soak.link_losses", recipe=Recipe())
    soaked = find_soaked([*durations(), sums, links], started())
    assert {(f.code, str(f.subject)) for f in soaked.findings} == {
        ("SOAK_WRONG_RESULT", "rank:1"),
        ("LINK_DROPPED", "node:h1"),
    }
    assert dict(soaked.notes[0].values)["failures"] == 2


def rates(rank, values):
    return [reading(v, subject=f"rank:{rank}", recipe=RATE, restart=at) for at, v in enumerate(values)]


def test_a_rate_that_falls_steadily_is_found_and_noise_is_not():
    rng = np.random.default_rng(3)
    noise = 1 + 0.01 * rng.standard_normal((2, 30))
    falling = np.linspace(700e12, 640e12, 30) * (1 + 0.003 * rng.standard_normal(30))
    readings = [*durations(), *rates(0, 700e12 * noise[0]), *rates(1, falling), *rates(2, 700e12 * noise[1])]
    soaked = find_soaked(readings, started())
    assert [(f.code, str(f.subject)) for f in soaked.findings] == [("RATE_DRIFTS", "rank:1")]


def test_noise_alone_seldom_has_a_trend():
    rng = np.random.default_rng(1)
    alarms = sum(trend(1 + 0.05 * rng.standard_normal(40))[1] < 0.01 for _ in range(1000))
    assert alarms <= 20


def test_there_is_nothing_to_say_without_a_soak():
    assert find_soaked([reading(1.0)], started()).notes == ()
