"""Naming cards that compute other bits than their siblings, or than themselves."""

from judging import reading

from assay.domain.recipe import Recipe
from assay.judge.corruption import find_corruption

ONE = Recipe.of(shape="8x8x8", seed=1, model="A", library="L")
OTHER = Recipe.of(shape="8x8x8", seed=1, model="B", library="L")


def digest(rank, bits, restart=0, recipe=ONE):
    return reading(bits, subject=f"rank:{rank}", id="gemm.fp32.digest", recipe=recipe, restart=restart)


def subjects(*readings):
    return [str(finding.subject) for finding in find_corruption(readings)]


def test_a_card_unlike_most_is_named():
    assert subjects(digest(0, "a"), digest(1, "a"), digest(2, "b")) == ["rank:2"]


def test_a_card_that_is_wrong_in_one_restart_is_named():
    assert subjects(digest(0, "a"), digest(1, "a"), digest(0, "a", 1), digest(1, "b", 1)) == ["rank:1"]


def test_of_two_that_differ_neither_is_named():
    assert subjects(digest(0, "a"), digest(1, "b")) == ["cluster"]


def test_cards_of_two_models_are_not_compared():
    assert subjects(digest(0, "a"), digest(1, "a"), digest(2, "b", recipe=OTHER)) == []


def test_a_card_whose_repeats_differ_is_named():
    unlike = reading(2, subject="rank:1", id="gemm.fp32.unlike_repeats", recipe=ONE)
    (finding,) = find_corruption([digest(0, "a"), digest(1, "a"), unlike])
    assert (str(finding.subject), finding.because.code) == ("rank:1", "because.unlike_itself")
