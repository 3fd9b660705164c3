"""A run's training benchmark predicted from its other readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.predict.local import Rates, Work, predict_training, step_s

WORK = Work(layers=2, hidden=256, vocabulary=4096, sequence=128, tokens=512)
RATES = Rates(
    gemm_flop_per_s=1e11,
    linear_flop_per_s=1e11,
    cross_entropy_Bps=3e9,
    elementwise_Bps=6e9,
    adamw_Bps=1e10,
    copy_Bps=8e9,
)
TRAINED = {
    "model": "gpt-l2-h256-a4-v4096",
    "batch_per_rank": 4,
    "sequence": 128,
    "dtype": "fp32",
    "statistic": "median",
}


def reading(quantity, value, unit, subject=CLUSTER, **recipe):
    return Reading(
        quantity=quantity,
        subject=subject,
        origin=Origin.MEASURED,
        value=value,
        unit=unit,
        recipe=Recipe.of(recipe),
    )


def run(gemm=(1e11, 1.1e11), all_reduce_s=0.02):
    rank = [Subject("rank", "0"), Subject("rank", "1")]
    found = [reading("gemm.fp32.rate", v, "FLOP/s", s, load="all") for v, s in zip(gemm, rank, strict=True)]
    for name, value in (("cross_entropy", 3e9), ("elementwise", 6e9), ("adamw", 1e10)):
        found += [reading(f"kernel.{name}.bandwidth", value, "B/s", s, load="all") for s in rank]
    found += [reading("memory.copy.bandwidth", 8e9, "B/s", s, load="all") for s in rank]
    for size, seconds in ((8, 1e-4), (2**24, all_reduce_s)):
        found.append(
            reading(
                "collective.all_reduce.time",
                seconds,
                "s",
                method="pipelined",
                bytes=size,
                ranks=2,
                transport="gloo",
            )
        )
    found += [reading("training.step_time", 1.0, "s", **TRAINED, ranks=n) for n in (1, 2)]
    found.append(reading("training.scaling_efficiency", 0.9, "1", ranks=2, base_ranks=1, mode="weak"))
    return found


def test_the_model_is_counted_as_torch_counts_it():
    transformer = pytest.importorskip("assay.measure.transformer")
    shape = transformer.Shape(layers=2, hidden=256, heads=4, vocabulary=4096, sequence=128)
    assert sum(p.numel() for p in transformer.Transformer(shape).parameters()) == WORK.parameters
    assert shape.flop_per_token * WORK.tokens == WORK.linear_flop + WORK.attention_flop


def test_the_terms_are_those_of_the_slowest_rank_and_add_up():
    one, two = (p for p in predict_training(run()) if p.quantity == "training.step_time")
    assert one.value == pytest.approx(sum(step_s(WORK, RATES, 0.0, overlaps=False).values()))
    gradients_bytes = 4 * WORK.parameters
    buckets_s = 4 * gradients_bytes / RATES.copy_Bps
    assert two.value == pytest.approx(one.value + 0.02 * gradients_bytes / 2**24 + buckets_s, rel=0.01)
    assert one.origin is Origin.PREDICTED
    assert one.low < one.value < one.high


def test_scaling_follows_from_both_steps():
    predicted = {p.quantity: p for p in predict_training(run())}
    assert 0.5 < predicted["training.scaling_efficiency"].value < 1


def test_the_measured_step_is_not_an_input():
    others = [r for r in run() if r.quantity != "training.step_time"]
    slow = [reading("training.step_time", 99.0, "s", **TRAINED, ranks=n) for n in (1, 2)]
    assert [p.value for p in predict_training([*others, *slow])] == [p.value for p in predict_training(run())]


def test_layers_run_as_training_runs_them_count_before_a_product_alone():
    # Two layers, three products each, two FLOP a multiplication.
    flop = 2 * 3 * 2 * 512 * 256 * 1024
    linear = reading("kernel.linear.time", flop / 5e10, "s", load="all", shape="512x256x1024")
    alone, both = (next(iter(predict_training(r))).value for r in (run(), [*run(), linear]))
    assert both - alone == pytest.approx(WORK.linear_flop * (1 / 5e10 - 1 / 1e11))


@pytest.mark.parametrize("gone", ["gemm.fp32.rate", "kernel.adamw.bandwidth", "memory.copy.bandwidth"])
def test_without_a_rate_there_is_no_prediction(gone):
    assert predict_training([r for r in run() if r.quantity != gone]) == ()


@given(st.floats(1.01, 100))
def test_a_slower_link_is_never_faster(factor):
    def two(seconds):
        return next(
            p.value for p in predict_training(run(all_reduce_s=seconds)) if p.recipe.get("ranks") == 2
        )

    assert two(0.01 * factor) > two(0.01)


def test_what_the_backward_pass_covers_costs_its_copies_alone():
    hidden = step_s(WORK, RATES, 1e-4, overlaps=True)
    assert hidden["gradients"] == pytest.approx(16 * WORK.parameters / RATES.copy_Bps)
    assert step_s(WORK, RATES, 10.0, overlaps=True)["gradients"] > 9
