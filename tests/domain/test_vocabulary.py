"""Subjects, recipes, readings and criteria: their forms and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.criterion import Criterion, Op, Profile
from assay.domain.quantity import Better, Quantity, Scope
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import InputError

VALUES = st.one_of(st.integers(0, 2**40), st.text(min_size=1), st.booleans())
RECIPES = st.dictionaries(st.text(min_size=1), VALUES, max_size=5).map(Recipe.of)


@pytest.mark.parametrize(
    "text", ["rank:2", "node:h2", "gpu:node07/2", "pair:h1|h3", "link:h2>*", "port:leaf003[9]", "cluster"]
)
def test_a_subject_is_read_back(text):
    assert str(Subject.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["rank", "cluster:x", "pair:a", "link:a", "link:>b", "gpus:1", "", ":x", "Rank:1"]
)
def test_no_subject(text):
    with pytest.raises(InputError):
        Subject.parse(text)


def test_a_pair_has_no_direction():
    assert Subject.parse("pair:h10|h9") == Subject.parse("pair:h9|h10")
    assert str(Subject.parse("pair:h10|h9")) == "pair:h9|h10"


def test_subjects_sort_as_people_count():
    assert sorted(Subject("rank", str(i)) for i in (10, 9, 1)) == [
        Subject("rank", str(i)) for i in (1, 9, 10)
    ]


@given(RECIPES)
def test_a_recipe_answers_itself(recipe):
    assert recipe.lacks(recipe) == ()
    assert recipe.conflicts(recipe) == ()
    assert Recipe.of(recipe.as_dict()).digest == recipe.digest


def test_true_is_not_one():
    assert Recipe.of(direct=True).lacks(Recipe.of(direct=1))


@pytest.mark.parametrize(
    "change",
    [
        {"value": None},
        {"value": 1.0, "reason": "gone"},
        {"value": float("nan")},
        {"value": "fast"},
        {"low": 1.0},
        {"low": 2.0, "high": 1.0},
        {"unit": "furlong"},
        {"n": -1},
    ],
)
def test_a_reading_refuses(change):
    fields = {"quantity": "gemm.bf16.rate", "subject": Subject("rank", "0"), "origin": Origin.MEASURED}
    with pytest.raises(InputError):
        Reading(**(fields | {"value": 1.0, "unit": "FLOP/s"} | change))


@pytest.mark.parametrize(
    ("op", "change"),
    [
        (Op.AT_LEAST, {"bound": None}),
        (Op.AT_LEAST, {"high": 2.0}),
        (Op.WITHIN, {}),
        (Op.WITHIN, {"high": 0.5}),
        (Op.PRESENT, {}),
        (Op.SPREAD_AT_MOST, {"bound": 3.5}),
        (Op.UNIFORM, {"of": Origin.CLAIMED, "bound": 0.1}),
        (Op.AT_LEAST, {"of": Origin.MEASURED}),
        (Op.AT_LEAST, {"repeatability_frac": 3.0}),
        (Op.AT_LEAST, {"bound": float("inf")}),
    ],
)
def test_a_criterion_refuses_what_means_nothing(op, change):
    with pytest.raises(InputError, match="criterion 'c'"):
        Criterion(**({"id": "c", "quantity": "q", "op": op, "unit": "1", "bound": 1.0} | change))


def test_a_profile_refuses_two_criteria_of_one_id():
    one = Criterion(id="c", quantity="q", op=Op.AT_LEAST, unit="1", bound=1.0, where="p.yaml:3")
    with pytest.raises(InputError, match=r"twice.*first at p\.yaml:3"):
        Profile(name="p", title="p", criteria=(one, one))


def test_placeholders_describe_any_word():
    rate = Quantity(
        id="gemm.<dtype>.rate", unit="FLOP/s", better=Better.HIGHER, scope=Scope.GPU, defining=("shape",)
    )
    assert rate.describes("gemm.bf16.rate")
    assert not rate.describes("gemm.bf16.best_rate")
    assert not rate.describes("gemm.bf16")
    assert rate.named("gemm.bf16.rate").unstated(Recipe()) == ("shape",)
