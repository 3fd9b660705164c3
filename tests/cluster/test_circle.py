"""A degraded wire shows in the training step, both as a run predicts it and as it measures it."""

from __future__ import annotations

import statistics
import time

import pytest

from assay.domain.reading import Origin
from assay.predict.local import predict_training
from assay.store.run import open_run


def step_s(readings):
    """The median training step over all four ranks; the mean over restarts."""
    found = [
        reading.number
        for reading in readings
        if reading.quantity == "training.step_time"
        and reading.recipe.get("ranks") == 4
        and reading.recipe.get("statistic") == "median"
    ]
    assert found, "no step over four ranks"
    return statistics.fmean(found)


@pytest.mark.cluster
def test_a_degraded_wire_shows_in_the_predicted_and_in_the_measured_step(job, namespace_cluster, tmp_path):
    def measured(name, *only):
        job.folder = tmp_path / name
        job.start("--suite", "quick", "--restarts", 1, "--only", ",".join(only), "--json")
        job.wait()
        readings = open_run(job.run_of(0)).readings
        return [reading for reading in readings if reading.origin is Origin.MEASURED]

    # No wire takes part in products, kernels and copies: both predictions rest on one measurement of them.
    clean = measured("clean", "gemm", "memory", "kernels", "collectives", "training")
    alone = [r for r in clean if not r.quantity.startswith(("collective.", "training."))]
    namespace_cluster.shape("h2", rate_Mbps=200)
    time.sleep(0.25)  # the wire looks for its faults every tenth of a second
    degraded = measured("degraded", "collectives", "training")
    steps = {
        name: (step_s(predict_training([*alone, *readings])), step_s(readings))
        for name, readings in (("clean", clean), ("degraded", degraded))
    }
    print({name: f"predicted {p:.3g} s, measured {m:.3g} s" for name, (p, m) in steps.items()})
    for before_s, after_s in zip(steps["clean"], steps["degraded"], strict=True):
        assert after_s > 1.3 * before_s
