"""The namespace cluster, a job on it, and a victim drawn from a printed seed."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testbed"))

from cluster_fixtures import namespace_cluster, standing_cluster
from cluster_job import HostsJob, Job

from cluster import Cluster

__all__ = ["namespace_cluster", "standing_cluster"]


@pytest.fixture
def job(namespace_cluster: Cluster, tmp_path: Path) -> Iterator[Job]:
    started = Job(namespace_cluster, tmp_path)
    yield started
    started.stop()


@pytest.fixture
def hosts_job(namespace_cluster: Cluster, tmp_path: Path) -> Iterator[HostsJob]:
    started = HostsJob(namespace_cluster, tmp_path)
    yield started
    if started.process and started.process.poll() is None:
        started.kill()


@pytest.fixture
def victim(request: pytest.FixtureRequest) -> Callable[..., int]:
    """Draws the rank of a victim; the seed is printed, and ASSAY_SEED repeats it."""
    seed = int(os.environ.get("ASSAY_SEED", time.time_ns() % 1_000_000))
    print(f"ASSAY_SEED={seed}")
    return random.Random(f"{seed} {request.node.name}").choice
