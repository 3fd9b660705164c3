"""Loss and jitter: laws of the model; how well it meets real sockets is in validation/loss.py."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.fabric.loss.goodput import REPEATS, Connection, goodput_frac
from assay.fabric.loss.incast import incast
from assay.fabric.loss.latency import Delays, message_delays, ring_times, tree_times


def connection(repeat, rate_Bps=50e9, round_trip_s=10e-6):
    return Connection(repeat=repeat, rate_Bps=rate_Bps, round_trip_s=round_trip_s)


@pytest.mark.parametrize("repeat", REPEATS)
@given(loss=st.floats(0, 0.5), more=st.floats(0, 0.4))
def test_more_loss_never_leaves_more(repeat, loss, more):
    some, less = (
        goodput_frac(connection(repeat), loss),
        goodput_frac(connection(repeat), min(loss + more, 0.9)),
    )
    assert 0 < less <= some <= 1


def test_nothing_lost_costs_nothing_and_credits_never_lose():
    assert all(goodput_frac(connection(repeat), 0) == 1 for repeat in REPEATS)
    assert goodput_frac(connection("lossless"), 0.1) == 1


def test_going_back_costs_all_that_was_in_flight():
    # 50 GB/s × 10 µs = 122 packets of 4 KiB.
    one = connection("go-back-n")
    assert one.in_flight == pytest.approx(122, rel=0.01)
    assert goodput_frac(one, 1e-3) == pytest.approx(1 / (1 + 1e-3 * 122), rel=0.01)
    assert goodput_frac(connection("selective"), 1e-3) == pytest.approx(0.999)


def test_renos_window_is_that_of_mathis():
    one = connection("reno", rate_Bps=1e9, round_trip_s=0.01)
    rate = goodput_frac(one, 1e-3) * one.rate_Bps
    assert rate == pytest.approx(0.93 / math.sqrt(1e-3) * 4096 / 0.01, rel=0.01)
    assert goodput_frac(connection("cubic", 1e9, 0.1), 1e-4) > goodput_frac(
        connection("reno", 1e9, 0.1), 1e-4
    )


def test_a_ring_without_jitter_takes_its_steps():
    assert ring_times(8, 14, Delays(base_s=2e-6), runs=3) == pytest.approx(28e-6)
    assert tree_times(7, Delays(base_s=1e-6), runs=3) == pytest.approx(4e-6)


@given(ranks=st.integers(2, 32))
def test_more_ranks_wait_longer_for_the_slowest(ranks):
    delays = Delays(base_s=1e-6, jitter_s=1e-6)
    few, many = (ring_times(n, 10, delays, runs=400).mean() for n in (ranks, ranks * 4))
    assert 10e-6 < few < many <= 20e-6


def test_one_step_is_the_maximum_of_its_messages():
    # The mean of the largest of n uniform draws is n / (n + 1).
    times = ring_times(9, 1, Delays(base_s=0.0, jitter_s=1.0), runs=20_000)
    assert times.mean() == pytest.approx(0.9, abs=0.01)


def test_a_loss_at_the_end_waits_for_the_timer_and_one_before_for_the_next_message():
    lossy = Delays(base_s=1e-3, loss_frac=0.02, repeat_s=2e-3, timeout_s=0.2)
    times = ring_times(4, 6, lossy, runs=20_000)
    waited = (times > 0.1).mean()
    assert waited == pytest.approx(1 - 0.98**4, rel=0.1)
    assert np.median(times) >= 6e-3


def test_a_message_of_many_packets_loses_more_often():
    one, many = (message_delays(connection("selective"), size, 1e-3, 0.0) for size in (4096, 1 << 20))
    rng = np.random.default_rng(1)
    late = [(d.draw((20_000,), rng, last=False) > d.base_s).mean() for d in (one, many)]
    assert late[0] == pytest.approx(1e-3, abs=1e-3)
    assert late[1] == pytest.approx(1 - 0.999**256, rel=0.1)


def test_an_incast_overruns_a_buffer_unless_something_holds_the_senders():
    port = {"port_Bps": 50e9, "buffer_bytes": 1e6}
    lossy = incast(32, 1e5, lossless=False, **port)
    assert lossy.dropped_frac == pytest.approx((31e5 - 1e6) / 32e5)
    assert incast(32, 1e5, lossless=True, **port).dropped_frac == 0
    assert incast(32, 1e5, lossless=True, **port).pauses
    marked = incast(32, 1e5, lossless=True, marks_at_bytes=1.5e5, **port)
    assert not marked.pauses
    assert marked.queue_s < lossy.queue_s
    assert incast(1, 1e5, lossless=False, **port).dropped_frac == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: connection("hope"),
        lambda: goodput_frac(connection("reno"), 1.0),
        lambda: goodput_frac(connection("reno"), -0.1),
        lambda: connection("reno", rate_Bps=0),
        lambda: ring_times(1, 1, Delays(base_s=1), runs=1),
        lambda: tree_times(1, Delays(base_s=1), runs=1),
        lambda: incast(0, 1, port_Bps=1, buffer_bytes=1, lossless=True),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(InputError):
        call()
