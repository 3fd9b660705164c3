"""The parts of a training step, run for real."""

SMALL = {"layers": 2, "hidden": 32, "heads": 2, "vocabulary": 64, "sequence": 32, "batch_per_rank": 2} | {
    "window_s": 0.02,
    "warmup_s": 0.01,
}
NAMES = ("linear", "attention", "pointwise", "head", "embedding", "update")


def test_each_part_has_its_time_on_every_rank(run_benchmark):
    measured = run_benchmark("parts", **SMALL)
    assert measured.outcome.whole
    for name in NAMES:
        times = measured.readings(f"part.{name}.time", model="gpt-l2-h32-a2-v64", load="all", threads=1)
        assert {r["subject"] for r in times} == {"rank:0", "rank:1"}
        assert all(r["value"] > 0 for r in times)


def test_a_wrong_attention_on_one_rank_is_not_measured_on_any(run_benchmark):
    measured = run_benchmark("parts", corrupt=True, **SMALL)
    assert {r["quantity"] for r in measured.valued()} == {"part.linear.time"}
    assert measured.reasons() == {"the attention result does not match its reference (on rank 1)"}
