"""The training benchmark, run for real."""

import struct
from statistics import median as median_of

import pytest

from assay.measure.benchmarks import training

SMALL = {
    "layers": 1,
    "hidden": 64,
    "heads": 2,
    "vocabulary": 256,
    "sequence": 32,
    "batch_per_rank": 2,
    "steps": 8,
    "warmup_steps": 2,
}
MODEL = "gpt-l1-h64-a2-v256"


def _samples(measured, **recipe):
    """The raw step times behind the median."""
    (reading,) = measured.readings("training.step_time", statistic="median", **recipe)
    kept = reading["samples"]
    raw = (measured.folder / kept["file"]).read_bytes()[8 * kept["offset"] :]
    return struct.unpack(f"<{kept['count']}d", raw[: 8 * kept["count"]])


def test_steps_with_their_samples_tokens_scaling_and_readiness(run_benchmark):
    measured = run_benchmark("training", from_nothing=True, **SMALL)
    assert measured.outcome.whole
    for ranks in (1, 2):
        about = {"model": MODEL, "ranks": ranks, "batch_per_rank": 2, "sequence": 32, "dtype": "fp32"}
        (median,) = measured.readings("training.step_time", statistic="median", **about)
        (most,) = measured.readings("training.step_time", statistic="max", **about)
        assert 0 < median["value"] <= most["value"]
        assert median["subject"] == "cluster"
        assert 0.1 < median["cpu_share_frac"] < 2.5
        (tokens,) = measured.readings("training.tokens_per_s", statistic="median", **about)
        (flop,) = measured.readings("training.model_flop_per_s", statistic="median", **about)
        per_token = 6 * (12 * 64**2 + 64 * 256) + 12 * 64 * 32
        assert flop["value"] == pytest.approx(tokens["value"] * per_token)
        assert flop["recipe"]["formula"].startswith("6N+12LHS")
    (efficiency,) = measured.readings("training.scaling_efficiency")
    rates = {r["recipe"]["ranks"]: r["value"] for r in measured.readings("training.tokens_per_s")}
    assert (efficiency["recipe"]["ranks"], efficiency["recipe"]["base_ranks"]) == (2, 1)
    assert efficiency["recipe"]["mode"] == "weak"
    assert efficiency["value"] == pytest.approx(rates[2] / rates[1] / 2)
    (exposed,) = measured.readings("training.exposed_communication")
    assert exposed["recipe"]["ranks"] == 2
    assert exposed["value"] < 1
    (ready,) = measured.readings("training.readiness", ranks=2)
    assert 0 < ready["value"] < measured.outcome.seconds
    steps = _samples(measured, ranks=2)
    assert len(steps) == SMALL["steps"]
    assert measured.readings("training.step_time", ranks=2, statistic="median")[0]["value"] == median_of(
        steps
    )
    assert measured.reasons() == {"p95 needs 60 steps, 8 were taken"}


def test_ranks_that_drift_apart_are_not_measured(run_benchmark):
    measured = run_benchmark("training", corrupt=True, **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"2 ranks that trained together hold different parameters (on rank 0, 1)"}


def test_more_ranks_than_cores_have_no_scaling(run_benchmark):
    measured = run_benchmark("training", cores=1, **SMALL)
    assert {r["quantity"] for r in measured.valued()} == {"training.readiness"}
    assert "2 ranks share 1 cores" in measured.reasons()


def test_one_rank_has_no_scaling(run_benchmark):
    measured = run_benchmark("training", ranks=1, **SMALL)
    assert measured.outcome.whole
    assert measured.readings("training.step_time", statistic="median", ranks=1)[0]["value"] > 0
    assert [r["value"] for r in measured.readings("training.scaling_efficiency")] == [None]
    assert "there is one rank, and nothing to scale to" in measured.reasons()


def test_a_group_of_two_trains_while_the_third_rank_waits(run_benchmark):
    measured = run_benchmark("training", ranks=3, cores=3.0, **SMALL)
    assert measured.outcome.whole
    medians = measured.readings("training.step_time", statistic="median")
    assert [(r["recipe"]["ranks"], r["recipe"]["copies"]) for r in medians] == [(3, 1), (2, 1), (1, 3)]
    assert all(r["value"] > 0 for r in medians)


@pytest.mark.parametrize(
    ("world", "base", "sizes"),
    [
        (1, 1, [1]),
        (2, 1, [2, 1]),
        (6, 1, [6, 4, 2, 1]),
        (24, 8, [24, 16, 8, 4, 2, 1]),
        (12, 6, [12, 8, 6, 4, 2, 1]),
    ],
)
def test_groups_double_up_to_all_ranks(world, base, sizes):
    assert training._sizes(world, base) == sizes
