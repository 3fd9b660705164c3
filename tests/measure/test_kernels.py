"""The kernels benchmark, run for real."""

SMALL = {"tokens": 128, "hidden": 64, "vocabulary": 512, "window_s": 0.02, "warmup_s": 0.02}


def test_each_kernel_has_its_time_and_bandwidth(run_benchmark):
    measured = run_benchmark("kernels", **SMALL)
    assert measured.outcome.whole
    moved_bytes = {
        "adamw": 7 * 512 * 64 * 4,
        "cross_entropy": 6 * 128 * 512 * 4,
        "elementwise": 7 * 128 * 256 * 4,
    }
    for name, expected in moved_bytes.items():
        times = measured.readings(f"kernel.{name}.time", dtype="fp32", load="all", statistic="median")
        rates = measured.readings(f"kernel.{name}.bandwidth", dtype="fp32", load="all", statistic="median")
        assert {r["subject"] for r in times} == {r["subject"] for r in rates} == {"rank:0", "rank:1"}
        for time, rate in zip(times, rates, strict=True):
            assert time["recipe"] == rate["recipe"]
            assert abs(time["value"] * rate["value"] / expected - 1) < 1e-9
    assert {r["recipe"]["optimizer"] for r in measured.readings("kernel.adamw.time")} == {"adamw"}


def test_a_wrong_optimizer_step_on_one_rank_is_not_measured_on_any(run_benchmark):
    measured = run_benchmark("kernels", corrupt=True, **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"the adamw result does not match its reference (on rank 1)"}
