"""The memory benchmark, run for real."""

from assay.measure.benchmarks import memory

SMALL = {"bytes": 4 << 20, "cache_bytes": 0, "window_s": 0.02, "warmup_s": 0.02}


def test_copy_and_triad_alone_and_together_over_arrays_that_exceed_the_caches(run_benchmark):
    measured = run_benchmark("memory", **SMALL | {"cache_bytes": 12_000_000})
    assert measured.outcome.whole
    for pattern in ("copy", "triad"):
        for load in ("alone", "all"):
            readings = measured.readings(
                f"memory.{pattern}.bandwidth", load=load, bytes=6 << 20, statistic="median"
            )
            assert {r["subject"] for r in readings} == {"rank:0", "rank:1"}
            assert all(1e7 < r["value"] < 1e13 for r in readings)
            assert all(r["samples"]["count"] == r["n"] for r in readings)


def test_arrays_that_do_not_fit_are_not_measured(run_benchmark):
    measured = run_benchmark("memory", **SMALL | {"cache_bytes": 1 << 60})
    assert not measured.valued()
    assert all(reason.startswith("arrays that exceed the caches") for reason in measured.reasons())
    assert {r["quantity"] for r in measured.lines if r["type"] == "reading"} == {
        "memory.copy.bandwidth",
        "memory.triad.bandwidth",
    }


def test_a_wrong_copy_on_one_rank_is_not_measured_on_any(run_benchmark):
    measured = run_benchmark("memory", corrupt=True, **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"the copy left wrong elements (on rank 1)"}


def test_the_caches_of_this_machine_are_a_plausible_size():
    assert 0 <= memory._last_level_cache_bytes() < 1 << 36
