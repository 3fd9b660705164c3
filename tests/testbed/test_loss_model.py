"""The loss model against a ring over real sockets on wires that delay and jitter."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))

import loss

from assay.fabric.loss.latency import Delays, ring_times

pytestmark = pytest.mark.cluster


def test_a_ring_waits_for_the_slowest_of_its_messages(namespace_cluster):
    cluster, steps = namespace_cluster, 6
    clean_s = float(np.median(loss.ring_s(cluster, steps, 40))) / steps
    for name in cluster.names:
        cluster.shape(name, delay_s=0.002, jitter_s=0.006, direction="out")
    measured = float(np.median(loss.ring_s(cluster, steps, 40)))
    predicted = ring_times(4, steps, Delays(base_s=clean_s + 0.002, jitter_s=0.006), runs=5000)
    # The mean of a message alone would give 30 ms; the slowest of four makes it more.
    assert np.median(predicted) > steps * 0.0055
    assert 0.6 < float(np.median(predicted)) / measured < 1.2
