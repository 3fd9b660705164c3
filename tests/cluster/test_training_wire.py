"""The circle over a wire that got slow: the predicted training step sees it as the measured one does."""

from __future__ import annotations

import time

import pytest

PARTS = ("gemm", "memory", "kernels", "collectives", "training")


def steps(answer) -> dict[str, float]:
    """Origin → mean of the step on all four hosts."""
    found: dict[str, list[float]] = {}
    for r in answer["readings"]:
        recipe = r["recipe"]
        whole = recipe.get("ranks") == 4 and recipe.get("statistic") == "median"
        if r["quantity"] == "training.step_time" and whole and r["value"]:
            found.setdefault(r["origin"], []).append(r["value"])
    return {origin: sum(values) / len(values) for origin, values in found.items()}


@pytest.mark.cluster
def test_a_slow_wire_lengthens_the_predicted_step_and_the_measured_one(job, namespace_cluster):
    only = [word for name in PARTS for word in ("--only", name)]
    command = ("--suite", "quick", "--restarts", 1, *only, "--json")
    seen = {}
    for rate_Mbps in (None, 300):
        if rate_Mbps:
            namespace_cluster.shape("h2", rate_Mbps=rate_Mbps)
            time.sleep(0.25)
        job.folder = job.folder / f"at{rate_Mbps}"
        job.folder.mkdir()
        job.start(*command)
        job.wait(within_s=600)
        seen[rate_Mbps] = steps(job.answer)
    for origin in ("predicted", "measured"):
        assert seen[300][origin] > 1.3 * seen[None][origin], (origin, seen)
