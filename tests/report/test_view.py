"""What a report says: order, odd ones, shortfalls, folding, the environment."""

from __future__ import annotations

import pytest
from report_examples import gloo_machine, gpu_node, wide

from assay.catalog.messages import Texts
from assay.domain.fact import Fact
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.domain.verdict import Verdict
from assay.report import view
from assay.report.environment import environment


def test_criteria_are_worst_first_and_their_subjects_too() -> None:
    views = view.criteria(gpu_node())
    ranks = [view.ORDER.index(each.verdict) for each in views]
    assert ranks == sorted(ranks)
    assert str(views[0].judgements[0].subject) == "gpu:node07/5"
    assert views[0].counts == ((Verdict.FAIL, 1), (Verdict.PASS, 7))


def test_what_decides_is_what_has_the_overall_verdict() -> None:
    assert {each.criterion.id for each in view.deciding(gpu_node())} == {"gemm-bf16", "gemm-spread"}
    assert view.deciding(gloo_machine()) == ()


def test_odd_ones_are_named_with_their_siblings_median_and_a_pair_in_both_directions() -> None:
    odd = {(str(one.subject), one.quantity) for one in view.odd_ones(gpu_node())}
    assert odd == {
        ("gpu:node07/5", "gemm.bf16.rate"),
        ("gpu:node07/5", "memory.copy.bandwidth"),
        ("link:node07/2>node07/5", "peer.bandwidth"),
        ("link:node07/5>node07/2", "peer.bandwidth"),
    }


def test_one_slow_link_among_sixteen_thousand_is_the_only_one_that_departs() -> None:
    readings = view.by_recipe(wide().readings)[0]
    assert {str(subject) for subject in view.departing(readings)} == {"link:h17>h93"}


def test_a_long_sweep_is_folded_to_its_largest_size() -> None:
    kept = view.folded(view.unjudged(gloo_machine()))
    sizes = [s.recipe.get("bytes") for s in kept if s.quantity == "collective.all_reduce.busbw"]
    assert sizes == [2**23]


def test_recipes_are_told_apart_by_what_differs() -> None:
    one, two = (
        Recipe.of(bytes=2**20, ranks=2, method="aligned"),
        Recipe.of(bytes=2**24, ranks=2, method="aligned"),
    )
    assert view.apart(one, [one, two]) == "bytes 1 MiB"
    assert view.apart(one, [one]) == ""


def test_an_interval_says_its_unit_once_where_both_ends_have_it() -> None:
    assert view.range_text(6.5e14, 6.6e14, "FLOP/s") == "650 – 660 TFLOP/s"
    assert view.range_text(9e-4, 1.1e-3, "s") == "900 µs – 1.1 ms"


def test_bounds_and_titles_are_said_in_both_languages() -> None:
    spread = next(j for j in gpu_node().assessment.judgements if j.criterion.id == "gemm-spread")
    assert view.bound_text(spread, Texts("en")) == "≤ 1 %"
    assert view.title(spread.criterion, Texts("en")) == "BF16 GEMM rate, spread"
    assert view.title(spread.criterion, Texts("zh")) == "BF16 GEMM 算力离散度"


def facts(key: str, *values: str | None) -> list[Fact]:
    return [
        Fact(
            key=key, subject=Subject("gpu", f"n/{i}"), value=v, unit="text", reason=None if v else "no driver"
        )
        for i, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("key", "values", "differs"),
    [
        ("gpu.vbios", ("a", "a", "b"), True),
        ("gpu.vbios", ("a", "a", "a"), False),
        ("gpu.uuid", ("a", "b", "c"), False),
        ("gpu.vbios", ("a", None, "a"), True),
        ("gpu.vbios", (None, None), False),
    ],
)
def test_only_what_should_be_alike_is_marked_when_it_is_not(
    key: str, values: tuple[str | None, ...], differs: bool
) -> None:
    ((_, (row,)),) = environment(facts(key, *values))
    assert row.differs is differs


def test_the_commonest_value_comes_first_and_a_missing_one_says_why() -> None:
    ((_, (row,)),) = environment(facts("gpu.vbios", "b", "a", "a", None))
    assert [(value.text, value.missing) for value in row.values] == [
        ("a", False),
        ("b", False),
        ("no driver", True),
    ]
