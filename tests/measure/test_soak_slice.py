"""One slice of a soak, run for real: what it counts when all is well, and when sums come out wrong."""

SLICE = {"slice_s": 0.6, "burst_s": 0.05, "shape": [128] * 3, "bytes": 4096}


def test_a_sound_slice_counts_nothing_and_has_rates_and_digests(run_benchmark):
    measured = run_benchmark("soak", **SLICE)
    assert measured.outcome.whole
    assert {(r["subject"], r["value"]) for r in measured.readings("soak.wrong_sums")} == {
        ("rank:0", 0),
        ("rank:1", 0),
    }
    assert [(r["subject"], r["value"]) for r in measured.readings("soak.link_losses")] == [("node:h0", 0)]
    assert all(0.5 < r["value"] < 60 for r in measured.readings("soak.duration"))
    assert len({r["value"] for r in measured.readings("gemm.fp32.digest")}) == 1
    rates = measured.readings("gemm.fp32.rate", load="soak")
    assert {r["subject"] for r in rates} == {"rank:0", "rank:1"}
    assert all(r["samples"]["count"] == r["n"] > 1 for r in rates)


def test_wrong_sums_are_counted_where_they_are(run_benchmark):
    measured = run_benchmark("soak", corrupt=True, **SLICE)
    counted = {r["subject"]: (r["value"], r["n"]) for r in measured.readings("soak.wrong_sums")}
    assert counted["rank:0"][0] == 0
    wrong, turns = counted["rank:1"]
    assert wrong == turns > 0
