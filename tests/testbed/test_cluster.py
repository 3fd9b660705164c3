"""The stand-in for a cluster: its faults are there when asked for, and gone when not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster import Cluster

pytestmark = pytest.mark.cluster

TALK = Path(__file__).parent / "talk.py"
PORT = 7400
#: A wire looks ten times a second for what it shall do.
SETTLED_S = 0.25


def talk(cluster: Cluster, sender: str, receiver: str) -> dict[str, float]:
    time.sleep(SETTLED_S)
    server = cluster.start(receiver, [sys.executable, TALK, "serve", PORT], stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == "ready\n"
        words = cluster.command(sender, [sys.executable, TALK, cluster.address(receiver), PORT])
        return json.loads(
            subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
        )
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_host_has_its_own_name_and_address(namespace_cluster):
    words = namespace_cluster.command("h2", ["hostname"])
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "h2\n"


def test_delay_counts_on_both_ways(namespace_cluster):
    assert talk(namespace_cluster, "h0", "h1")["round_trip_s"] < 0.002
    namespace_cluster.shape("h1", delay_s=0.002)
    assert talk(namespace_cluster, "h0", "h1")["round_trip_s"] >= 0.004
    assert talk(namespace_cluster, "h0", "h2")["round_trip_s"] < 0.002


def test_a_rate_may_hold_for_one_direction(namespace_cluster):
    namespace_cluster.shape("h1", rate_Mbps=200, direction="in")
    rates = talk(namespace_cluster, "h0", "h1")
    assert rates["out_Bps"] < 40e6 < rates["in_Bps"]


def test_a_rate_may_hold_for_one_pair(namespace_cluster):
    namespace_cluster.pair_rate("h1", "h3", 200)
    assert talk(namespace_cluster, "h1", "h3")["out_Bps"] < 40e6
    assert talk(namespace_cluster, "h1", "h2")["out_Bps"] > 40e6
