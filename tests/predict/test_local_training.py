"""A run's training benchmark predicted from its other readings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.predict.local import Reduction, Work, gradient_terms, predict_training, training_steps

WORK = Work(layers=2, hidden=256, vocabulary=4096, sequence=128, tokens=512)
#: Seconds of each part of that work.
PARTS = {
    "linear": 0.030,
    "attention": 0.006,
    "pointwise": 0.004,
    "head": 0.024,
    "embedding": 0.002,
    "update": 0.004,
}
MODEL = {"model": "gpt-l2-h256-a4-v4096", "batch_per_rank": 4, "sequence": 128, "dtype": "fp32"}
REDUCTION = Reduction(sizes_bytes=(8.0, 2.0**24), times_s=(1e-4, 0.02), busy_frac=1.0, copy_Bps=8e9)


def reading(quantity, value, unit, subject=CLUSTER, **recipe):
    return Reading(
        quantity=quantity,
        subject=subject,
        origin=Origin.MEASURED,
        value=value,
        unit=unit,
        recipe=Recipe.of(recipe),
    )


def run(slower=1.0, all_reduce_s=0.02, share=1.0, measured_model=MODEL, trained_model=MODEL):
    """A run of two ranks, of which the second is slower."""
    found = []
    for rank, factor in (("0", 1.0), ("1", slower)):
        subject = Subject("rank", rank)
        for name, seconds in PARTS.items():
            recipe = measured_model | {"load": "all", "statistic": "median"}
            found.append(reading(f"part.{name}.time", factor * seconds, "s", subject, **recipe))
        found.append(reading("memory.copy.bandwidth", 8e9, "B/s", subject, load="all"))
    for size, seconds in ((8, 1e-4), (2**24, all_reduce_s)):
        summed = {"method": "pipelined", "bytes": size, "ranks": 2, "transport": "gloo"}
        found.append(reading("collective.all_reduce.time", seconds, "s", **summed))
        found.append(reading("collective.all_reduce.cpu_share", share, "1", Subject("rank", "0"), **summed))
    recipe = trained_model | {"statistic": "median"}
    found += [reading("training.step_time", 1.0, "s", **recipe, ranks=n) for n in (1, 2)]
    found.append(reading("training.scaling_efficiency", 0.9, "1", ranks=2, base_ranks=1, mode="weak"))
    return found


def test_the_model_is_counted_as_torch_counts_it():
    transformer = pytest.importorskip("assay.measure.transformer")
    shape = transformer.Shape(layers=2, hidden=256, heads=4, vocabulary=4096, sequence=128)
    assert sum(p.numel() for p in transformer.Transformer(shape).parameters()) == WORK.parameters


def test_a_step_is_its_parts_and_on_two_ranks_the_gradients():
    one, two = training_steps(run())
    assert one.terms_s == pytest.approx(PARTS)
    assert two.terms_s == pytest.approx(PARTS | gradient_terms(WORK, PARTS, REDUCTION))
    first, second = (p for p in predict_training(run()) if p.quantity == "training.step_time")
    assert [first.value, second.value] == pytest.approx([one.time_s, two.time_s])
    assert first.origin is Origin.PREDICTED
    assert first.low < first.value < first.high


def test_the_slowest_rank_counts():
    first = next(iter(training_steps(run(slower=1.5))))
    assert first.time_s == pytest.approx(1.5 * sum(PARTS.values()))


def test_parts_of_one_model_tell_of_another_in_proportion_to_its_work():
    small = MODEL | {"model": "gpt-l1-h256-a4-v4096"}
    step = training_steps(run(measured_model=small))[0].terms_s
    assert step["linear"] == pytest.approx(2 * PARTS["linear"])
    assert step["head"] == pytest.approx(PARTS["head"])


def test_scaling_follows_from_both_steps():
    predicted = {p.quantity: p for p in predict_training(run())}
    assert 0.5 < predicted["training.scaling_efficiency"].value < 1


def test_the_measured_step_is_not_an_input():
    slow = [replace(r, value=99.0) if r.quantity == "training.step_time" else r for r in run()]
    assert [p.value for p in predict_training(slow)] == [p.value for p in predict_training(run())]


@pytest.mark.parametrize("gone", [*(f"part.{name}.time" for name in PARTS)])
def test_without_a_part_there_is_no_prediction(gone):
    assert predict_training([r for r in run() if r.quantity != gone]) == ()


@pytest.mark.parametrize("gone", ["collective.all_reduce.time", "memory.copy.bandwidth"])
def test_without_what_gradients_need_only_one_rank_is_predicted(gone):
    steps = training_steps([r for r in run() if r.quantity != gone])
    assert [step.recipe.get("ranks") for step in steps] == [1]


@given(st.floats(0.0, 1.0), st.floats(1e-4, 1.0), st.floats(1.01, 100))
def test_a_slower_link_is_never_faster(busy_frac, time_s, factor):
    fast, slow = (
        replace(REDUCTION, times_s=(1e-5, seconds), busy_frac=busy_frac)
        for seconds in (time_s, factor * time_s)
    )
    assert sum(gradient_terms(WORK, PARTS, slow).values()) > sum(gradient_terms(WORK, PARTS, fast).values())


@given(st.floats(0.0, 1.0), st.floats(1e-4, 1.0))
def test_the_gradients_take_no_longer_than_all_of_them_after_the_backward_pass(busy_frac, time_s):
    reduction = replace(REDUCTION, times_s=(0.0, time_s), busy_frac=busy_frac)
    terms = gradient_terms(WORK, PARTS, reduction)
    whole_s = reduction.time_s(4.0 * WORK.parameters)
    assert terms["reducing"] + terms["waiting"] <= whole_s * (1 + 1e-9)
    assert terms["reducing"] == pytest.approx(busy_frac * whole_s)


def test_a_wire_hides_the_first_bucket_behind_the_backward_pass_and_not_the_last():
    # The head's gradient is a bucket of its own; the rest, the embedding at its end, comes when all is done.
    idle = replace(REDUCTION, busy_frac=0.0)
    head_bytes = 4.0 * WORK.vocabulary * WORK.hidden
    rest_s = idle.time_s(4.0 * WORK.parameters - head_bytes)
    assert gradient_terms(WORK, PARTS, idle)["waiting"] == pytest.approx(rest_s)
