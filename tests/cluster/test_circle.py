"""A degraded wire shows in the training step, both as a run predicts it from its parts and as it measures it."""

from __future__ import annotations

import time

import pytest

PARTS = ("--suite", "quick", "--restarts", 1, "--only", "gemm,memory,kernels,collectives,training", "--json")


def step_s(answer, origin):
    """The training step over all four ranks, the mean where there are several."""
    found = [
        reading["value"]
        for reading in answer["readings"]
        if reading["quantity"] == "training.step_time"
        and reading["origin"] == origin
        and reading["recipe"]["ranks"] == 4
        and reading["recipe"]["statistic"] == "median"
    ]
    assert found, f"no {origin} step over four ranks"
    return sum(found) / len(found)


@pytest.mark.cluster
def test_a_degraded_wire_shows_in_the_predicted_and_in_the_measured_step(job, namespace_cluster, tmp_path):
    steps = {}
    for name, rate_Mbps in (("clean", 0), ("degraded", 100)):
        namespace_cluster.shape("h2", rate_Mbps=rate_Mbps)
        job.folder = tmp_path / name
        time.sleep(0.25)  # the wire reads its fault anew every tenth of a second
        job.start(*PARTS)
        job.wait(within_s=100)
        steps[name] = {origin: step_s(job.answer, origin) for origin in ("predicted", "measured")}
        print(name, steps[name])
    for origin in ("predicted", "measured"):
        assert steps["degraded"][origin] > 1.5 * steps["clean"][origin], origin
