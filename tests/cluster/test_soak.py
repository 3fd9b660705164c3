"""Slow repeats, behind `make soak-test`."""

from __future__ import annotations

import pytest
from cluster_job import Job, findings

LINKS = (
    "LINK_SLOW",
    "LINK_SLOW_ONE_WAY",
    "LINK_LOSS",
    "NODE_SLOW",
    "CLOCK_OFFSET",
    "RANK_LOST",
    "RANK_STOPPED",
)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_clean_runs_raise_no_alarm(request, namespace_cluster, tmp_path):
    if "soak" not in request.config.option.markexpr:
        pytest.skip("takes a quarter of an hour: make soak-test")
    alarms = []
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        job = Job(namespace_cluster, tmp_path / str(number))
        try:
            job.start("--suite", "quick", "--only", "pairs,clock", "--seed", number + 1, "--json")
            assert set(job.wait().values()) == {0}, job.errors()
        finally:
            job.stop()
        found = findings(job.answer, *LINKS)
        print(f"clean run {number + 1} of 20: {found or 'no alarm'}", flush=True)
        alarms += [(number, *one) for one in found]
    assert alarms == []
