"""The host-to-device benchmark where there is no GPU."""


def test_without_a_gpu_both_ways_are_not_measured(run_benchmark):
    measured = run_benchmark("host_device")
    assert measured.outcome.whole
    assert not measured.valued()
    assert measured.reasons() == {"no GPU"}
    for direction in ("h2d", "d2h"):
        assert len(measured.readings(f"host_device.{direction}.bandwidth")) == 2
