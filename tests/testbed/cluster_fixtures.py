"""The namespace cluster as a fixture: one per test session, clean at the start of each test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cluster import Cluster, obstacle


@pytest.fixture(scope="session")
def standing_cluster() -> Iterator[Cluster]:
    """Four hosts on faultable wires."""
    reason = obstacle()
    if reason and os.environ.get("CI"):
        pytest.fail(f"a skip in CI is a failure: {reason}")
    if reason:
        pytest.skip(reason)
    with Cluster(hosts=4) as cluster:
        yield cluster


@pytest.fixture
def namespace_cluster(standing_cluster: Cluster) -> Cluster:
    """Four hosts without any fault."""
    standing_cluster.clean()
    return standing_cluster
