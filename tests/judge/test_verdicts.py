"""Verdicts: what passes, fails, stays undecided, and what was not measured."""

from __future__ import annotations

import pytest
from judging import RECIPE, criterion, judged, noisy, only, reading, restarts

from assay.domain.criterion import Op, Over, Rule
from assay.domain.reading import ABSENT, Origin
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Verdict, overall


@pytest.mark.parametrize(
    ("values", "op", "expected"),
    [
        ([760e12, 761e12, 762e12], Op.AT_LEAST, Verdict.PASS),
        ([640e12, 641e12, 642e12], Op.AT_LEAST, Verdict.FAIL),
        ([690e12, 702e12, 714e12], Op.AT_LEAST, Verdict.UNDECIDED),
        ([640e12, 641e12, 642e12], Op.AT_MOST, Verdict.PASS),
        ([760e12, 761e12, 762e12], Op.AT_MOST, Verdict.FAIL),
    ],
)
def test_a_bound_is_held_against_the_interval_between_restarts(values, op, expected):
    judgement = only(judged(restarts(values), criterion(op)))
    assert judgement.verdict is expected
    assert judgement.measured.n == 3
    assert judgement.measured.low < judgement.measured.value < judgement.measured.high


def test_within_needs_both_sides():
    inside = criterion(Op.WITHIN, 700e12, high=800e12)
    assert only(judged(restarts([750e12, 751e12, 752e12]), inside)).verdict is Verdict.PASS
    assert only(judged(restarts([850e12, 851e12, 852e12]), inside)).verdict is Verdict.FAIL
    assert only(judged(restarts([650e12, 651e12, 652e12]), inside)).verdict is Verdict.FAIL
    assert only(judged(restarts([790e12, 801e12, 805e12]), inside)).verdict is Verdict.UNDECIDED


def test_one_restart_decides_nothing_however_many_iterations_it_had():
    judgement = only(judged([reading(900e12, n=10_000)], criterion()))
    assert judgement.verdict is Verdict.UNDECIDED
    assert judgement.reason.code == "reason.undecided.single_restart"


def test_one_restart_decides_where_the_criterion_knows_how_it_repeats():
    judgement = only(judged([reading(900e12)], criterion(repeatability_frac=0.01)))
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured.high - judgement.measured.low == pytest.approx(
        900e12 * 0.01 * 2 * 1.96, rel=1e-3
    )


def test_undecided_says_how_many_restarts_would_decide():
    judgement = only(judged(restarts([690e12, 705e12, 714e12]), criterion()))
    assert judgement.verdict is Verdict.UNDECIDED
    assert 1 <= judgement.more_restarts < 1000


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Rule.SIMPLE, Verdict.UNDECIDED),
        (Rule.GUARDED_BUYER, Verdict.FAIL),
        (Rule.GUARDED_VENDOR, Verdict.PASS),
    ],
)
def test_the_decision_rule_says_who_bears_the_doubt(rule, expected):
    assert only(judged(restarts([690e12, 702e12, 714e12]), criterion(rule=rule))).verdict is expected


@pytest.mark.parametrize("rule", list(Rule))
def test_no_rule_turns_a_missing_measurement_into_a_verdict(rule):
    assert only(judged([], criterion(rule=rule))).verdict is Verdict.NOT_MEASURED


def test_another_recipe_is_refused_with_the_difference_named():
    small = Recipe.of(shape="1024x1024x1024", load="all", statistic="median")
    judgement = only(judged(restarts([900e12] * 3, recipe=small), criterion()))
    assert judgement.verdict is Verdict.NOT_MEASURED
    assert dict(judgement.reason.values)["difference"] == "shape 1024x1024x1024 against 8192x8192x8192"


def test_two_recipes_that_answer_one_criterion_are_not_chosen_between():
    open_recipe = Recipe.of(load="all", statistic="median")
    other = Recipe.of(shape="4096x4096x4096", load="all", statistic="median")
    readings = restarts([900e12] * 3) + restarts([800e12] * 3, recipe=other)
    judgement = only(judged(readings, criterion(recipe=open_recipe)))
    assert judgement.verdict is Verdict.NOT_MEASURED
    assert judgement.reason.code == "reason.not_measured.ambiguous"


def test_siblings_of_several_recipes_are_judged_recipe_by_recipe():
    inside = Recipe.of(bytes=8, statistic="median")
    between = Recipe.of(bytes=8, statistic="median", span="nodes")
    rates = {inside: (80e9, 80e9, 40e9), between: (5e9, 5e9, 5e9)}
    readings = [
        r
        for recipe, values in rates.items()
        for at, value in enumerate(values)
        for r in noisy(value, subject=f"link:{at}>x", id="peer.bandwidth", recipe=recipe, seed=at)
    ]
    asked = criterion(Op.UNIFORM, 0.3, quantity_id="peer.bandwidth", recipe=Recipe())
    found = {(j.recipe, j.verdict) for j in judged(readings, asked).judgements}
    assert found == {(inside, Verdict.FAIL), (between, Verdict.PASS)}


def test_what_must_hold_of_the_worst_holds_of_every_recipe():
    efficiency = "training.scaling_efficiency"
    readings = [
        r
        for ranks, value in ((16, 0.97), (32, 0.93), (64, 0.8))
        for r in noisy(value, subject="cluster", id=efficiency, recipe=Recipe.of(mode="weak", ranks=ranks))
    ]
    weak = Recipe.of(mode="weak")
    asked = criterion(bound=0.85, quantity_id=efficiency, recipe=weak, over=Over.MIN)
    found = {(j.recipe.get("ranks"), j.verdict) for j in judged(readings, asked).judgements}
    assert found == {(16, Verdict.PASS), (32, Verdict.PASS), (64, Verdict.FAIL)}
    best = criterion(bound=0.85, quantity_id=efficiency, recipe=weak, over=Over.MAX)
    assert only(judged(readings, best)).reason.code == "reason.not_measured.ambiguous"


def test_recipes_that_differ_in_nothing_that_defines_the_quantity_are_judged_each():
    """Rank 0 was lost on the way, and the clocks were held against rank 1 from then on."""
    readings = [
        r
        for reference in ("rank:0", "rank:1")
        for r in noisy(1e-5, subject="rank:2", id="clock.offset", recipe=Recipe.of(reference=reference))
    ]
    asked = criterion(Op.WITHIN, -1e-3, high=1e-3, quantity_id="clock.offset", recipe=Recipe())
    found = {(j.recipe.get("reference"), j.verdict) for j in judged(readings, asked).judgements}
    assert found == {("rank:0", Verdict.PASS), ("rank:1", Verdict.PASS)}


def test_the_reason_of_a_failed_benchmark_is_passed_on():
    failed = reading(None, id="gemm.<dtype>.rate", recipe=Recipe(), reason="the product was wrong")
    judgement = only(judged([failed], criterion()))
    assert judgement.verdict is Verdict.NOT_MEASURED
    assert dict(judgement.reason.values)["text"] == "the product was wrong"


def test_a_value_in_any_restart_outweighs_a_missing_one():
    readings = [*restarts([900e12, 901e12, 902e12]), reading(None, restart=3, reason="killed")]
    assert only(judged(readings, criterion())).verdict is Verdict.PASS


def test_an_expected_subject_without_a_reading_is_not_measured_beside_the_others():
    expected = [Subject("rank", "0"), Subject("rank", "1")]
    every = judged(restarts([900e12, 901e12, 902e12]), criterion(), expected=expected).judgements
    assert {(str(j.subject), j.verdict) for j in every} == {
        ("rank:0", Verdict.PASS),
        ("rank:1", Verdict.NOT_MEASURED),
    }


def test_a_statistic_over_subjects_is_worked_out_in_every_restart():
    readings = restarts([900e12, 910e12, 905e12]) + restarts([650e12, 640e12, 645e12], subject="rank:1")
    low = only(judged(readings, criterion(over=Over.MIN)))
    assert low.verdict is Verdict.FAIL
    assert low.measured.value == pytest.approx(645e12)
    assert only(judged(readings, criterion(over=Over.MAX))).verdict is Verdict.PASS


def test_a_large_family_does_not_fail_by_chance():
    """1,000 healthy cards just above the floor: some lie below by chance, none is shown to."""
    readings = [r for i in range(1000) for r in noisy(704e12, subject=f"rank:{i}", seed=i, n=3)]
    verdicts = [j.verdict for j in judged(readings, criterion()).judgements]
    assert Verdict.FAIL not in verdicts
    assert len(verdicts) == 1000


def test_uniform_names_the_odd_one_of_many():
    readings = [r for i in range(8) for r in noisy(760e12, subject=f"rank:{i}", seed=i)]
    readings += noisy(690e12, subject="rank:8", seed=8)
    judgement = only(judged(readings, criterion(Op.UNIFORM, 0.05)))
    assert judgement.verdict is Verdict.FAIL
    values = dict(judgement.reason.values)
    assert values["subject"] == "rank:8"
    assert values["deviation_frac"] == pytest.approx(-0.09, abs=0.01)


def test_uniform_passes_where_the_effect_is_small_however_sure_it_is():
    readings = noisy(760e12, subject="rank:0", noise=1e-5) + noisy(750e12, subject="rank:1", noise=1e-5)
    assert only(judged(readings, criterion(Op.UNIFORM, 0.05))).verdict is Verdict.PASS


def test_uniform_of_one_subject_is_not_measured():
    assert (
        only(judged(restarts([1.0, 1.1, 1.2]), criterion(Op.UNIFORM, 0.05))).verdict is Verdict.NOT_MEASURED
    )


def test_uniform_with_a_subject_missing_is_not_measured_and_names_it():
    expected = [Subject("rank", "0"), Subject("rank", "1"), Subject("rank", "2")]
    readings = noisy(760e12, subject="rank:0") + noisy(760e12, subject="rank:1", seed=1)
    judgement = only(judged(readings, criterion(Op.UNIFORM, 0.05), expected=expected))
    assert judgement.verdict is Verdict.NOT_MEASURED
    assert "rank:2" in dict(judgement.reason.values)["missing"]


def test_uniform_of_texts_compares_words():
    same = [reading("H100", id="gpu.name", recipe=Recipe(), subject=f"gpu:h/{i}") for i in range(2)]
    named = criterion(Op.UNIFORM, None, quantity_id="gpu.name", recipe=Recipe(), unit="text")
    assert only(judged(same, named)).verdict is Verdict.PASS
    other = [*same, reading("H800", id="gpu.name", recipe=Recipe(), subject="gpu:h/2")]
    assert only(judged(other, named)).verdict is Verdict.FAIL


def test_spread_is_reported_with_what_chance_alone_gives():
    readings = [r for i in range(8) for r in noisy(760e12, subject=f"rank:{i}", seed=i, noise=0.001)]
    judgement = only(judged(readings, criterion(Op.SPREAD_AT_MOST, 0.01)))
    assert judgement.verdict is Verdict.PASS
    assert judgement.measured.unit == "1"
    assert dict(judgement.reason.values)["chance_frac"] == pytest.approx(2.85 * 0.001 / 5**0.5, rel=0.4)


def test_a_spread_beyond_noise_fails():
    readings = noisy(760e12, subject="rank:0", noise=0.001) + noisy(
        730e12, subject="rank:1", noise=0.001, seed=1
    )
    assert only(judged(readings, criterion(Op.SPREAD_AT_MOST, 0.01))).verdict is Verdict.FAIL


def test_present_fails_for_what_is_known_to_be_absent_and_not_for_what_nobody_looked_at():
    wanted = criterion(Op.PRESENT, None, quantity_id="software.torch.version", recipe=Recipe(), unit="text")
    there = reading("2.13.0", id="software.torch.version", recipe=Recipe(), subject="node:h")
    gone = reading(ABSENT, id="software.torch.version", recipe=Recipe(), subject="node:h")
    assert only(judged([there], wanted)).verdict is Verdict.PASS
    assert only(judged([gone], wanted)).verdict is Verdict.FAIL
    assert only(judged([], wanted)).verdict is Verdict.NOT_MEASURED


def test_a_bound_relative_to_the_claim():
    claim = reading(1000e12, origin=Origin.CLAIMED, subject="cluster", recipe=Recipe())
    share = criterion(Op.AT_LEAST, 0.95, of=Origin.CLAIMED)
    judgement = only(judged(restarts([900e12, 901e12, 902e12]), share, others=[claim]))
    assert judgement.verdict is Verdict.FAIL
    assert judgement.bound == pytest.approx(950e12)
    assert judgement.claimed is claim
    assert only(judged(restarts([900e12] * 3), share)).verdict is Verdict.NOT_MEASURED


def test_a_claim_by_another_recipe_does_not_stand_beside_a_measurement():
    claim = reading(
        1000e12, origin=Origin.CLAIMED, subject="cluster", recipe=Recipe.of(shape="4096x4096x4096")
    )
    assert only(judged(restarts([900e12, 901e12, 902e12]), criterion(), others=[claim])).claimed is None


def test_a_placeholder_is_judged_for_every_quantity_and_recipe_measured():
    wild = criterion(Op.UNIFORM, 0.05, quantity_id="gemm.<dtype>.rate", recipe=Recipe.of(load="all"))
    readings = [
        r
        for dtype in ("fp32", "bf16")
        for rank in (0, 1)
        for r in noisy(1e12, subject=f"rank:{rank}", id=f"gemm.{dtype}.rate", seed=rank)
    ]
    assessment = judged(readings, wild)
    assert {j.criterion.quantity for j in assessment.judgements} == {"gemm.fp32.rate", "gemm.bf16.rate"}
    assert judged([], wild).judgements[0].verdict is Verdict.NOT_MEASURED


def test_an_exact_quantity_needs_no_restarts():
    count = criterion(Op.AT_MOST, 0, quantity_id="run.ranks_missing", recipe=Recipe())
    assert only(
        judged([reading(0.0, id="run.ranks_missing", recipe=Recipe(), subject="cluster")], count)
    ).verdict is (Verdict.PASS)
    one = only(judged([reading(1.0, id="run.ranks_missing", recipe=Recipe(), subject="cluster")], count))
    assert one.verdict is Verdict.FAIL
    assert one.subject == CLUSTER


def test_a_measurement_that_bounds_itself_keeps_at_least_that_doubt():
    recipe = Recipe.of(reference="rank:0")
    offsets = [
        reading(0.25, id="clock.offset", subject="rank:1", recipe=recipe, restart=i, low=0.2499, high=0.2501)
        for i in range(3)
    ]
    judgement = only(
        judged(offsets, criterion(Op.WITHIN, -1e-3, high=1e-3, quantity_id="clock.offset", recipe=Recipe()))
    )
    assert judgement.verdict is Verdict.FAIL
    assert judgement.measured.low <= 0.2499
    assert judgement.measured.high >= 0.2501


def test_sequential_judging_is_slower_to_decide():
    values = [720e12, 728e12, 724e12]
    assert only(judged(restarts(values), criterion())).verdict is Verdict.PASS
    assert only(judged(restarts(values), criterion(), sequential=True)).verdict is Verdict.UNDECIDED
    many = restarts([720e12 + 1e12 * (i % 3) for i in range(12)])
    assert only(judged(many, criterion(), sequential=True)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([("pass", True), ("pass", False)], Verdict.PASS),
        ([("pass", True), ("fail", False)], Verdict.FAIL),
        ([("pass", True), ("undecided", False)], Verdict.PASS),
        ([("pass", True), ("undecided", True)], Verdict.UNDECIDED),
        ([("pass", True), ("not_measured", True)], Verdict.NOT_MEASURED),
        ([("undecided", True), ("not_measured", True)], Verdict.UNDECIDED),
        ([("not_measured", False)], Verdict.NOT_MEASURED),
        ([], Verdict.NOT_MEASURED),
    ],
)
def test_the_overall_verdict(verdicts, expected):
    assert overall((Verdict(word), required) for word, required in verdicts) is expected


def test_the_recipe_that_was_judged_is_told():
    assert only(judged(restarts([900e12, 901e12, 902e12]), criterion())).recipe == RECIPE
