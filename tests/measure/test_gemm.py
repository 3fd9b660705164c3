"""The matrix multiplication benchmark, run for real."""


def test_rates_alone_and_together_with_their_recipes(run_benchmark):
    measured = run_benchmark("gemm", dtypes=["fp32"], shape=[256, 256, 256], window_s=0.05, warmup_s=0.05)
    assert measured.outcome.whole
    for load in ("alone", "all"):
        readings = measured.readings("gemm.fp32.rate", load=load)
        assert {r["subject"] for r in readings} == {"rank:0", "rank:1"}
        for reading in readings:
            assert reading["recipe"]["shape"] == "256x256x256"
            assert 1e8 < reading["value"] < 1e13
            assert reading["samples"]["count"] == reading["n"]
            assert 0 < reading["cpu_share_frac"] < 1.6


def test_a_dtype_without_hardware_is_not_measured_with_the_reason(run_benchmark):
    measured = run_benchmark("gemm", dtypes=["fp8"], shape=[64, 64, 64])
    assert not measured.valued()
    assert measured.reasons() == {"fp8 is not measured on a CPU"}


def test_a_wrong_product_on_one_rank_is_not_measured_on_any(run_benchmark):
    measured = run_benchmark(
        "gemm", corrupt=True, dtypes=["fp32"], shape=[64, 64, 64], window_s=0.01, warmup_s=0.01
    )
    assert not measured.valued()
    assert measured.outcome.failed == (0, 1)
    assert measured.reasons() == {"the fp32 product does not match its reference (on rank 1)"}


def test_best_shape_names_its_search(run_benchmark):
    measured = run_benchmark(
        "gemm", dtypes=["fp32"], shape=[64] * 3, search=[[64] * 3, [128] * 3], window_s=0.01, warmup_s=0.01
    )
    best = measured.readings("gemm.fp32.best_rate")
    assert {r["recipe"]["search"] for r in best} == {"64x64x64+128x128x128"}


def test_more_ranks_than_cores_have_no_absolute_rate(run_benchmark):
    measured = run_benchmark("gemm", cores=1, dtypes=["fp32"], shape=[64] * 3, window_s=0.01, warmup_s=0.01)
    assert all(r["value"] is None for r in measured.readings("gemm.fp32.rate", load="all"))
    assert "2 ranks share 1 cores" in measured.reasons()
    assert all(r["value"] for r in measured.readings("gemm.fp32.rate", load="alone"))
