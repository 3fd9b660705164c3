from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import some_words, words

from assay.catalog.quantities import quantity
from assay.codec.profile import bound_unit, dump_profile, load_profile
from assay.domain.criterion import Criterion, Op, Over, Profile, Rule
from assay.domain.reading import Origin
from assay.domain.recipe import Recipe
from assay.errors import InputError, UnitError, UnknownNameError

GOOD = """\
schema: 1
name: acceptance
title: Acceptance of a node
date: 2026-11-30
criteria:
  - id: gemm
    quantity: gemm.bf16.rate
    op: at_least
    bound: 692 TFLOP/s
    recipe: {shape: 8192x8192x8192, load: all, statistic: median, window_s: 400 ms}
    clause: 3.1
  - id: spread
    quantity: gemm.bf16.rate
    op: spread_at_most
    bound: 1 %
    required: false
    repeatability: 0.5 %
  - id: copy
    quantity: memory.copy.bandwidth
    op: at_least
    of: claimed
    bound: 0.95
    recipe: {bytes: 16 GiB}
  - {id: offset, quantity: clock.offset, op: within, bound: -1 ms, high: 1 ms, rule: guarded_buyer}
  - {id: model, quantity: gpu.name, op: uniform, over: each}
""".replace("clause: 3.1", "clause: '3.1'")


def loaded(text: str) -> Profile:
    """A profile from text, shown as p.yaml."""
    return load_profile(text, "p.yaml", quantity_of=quantity)


def test_a_profile_is_read_in_base_units_with_the_place_of_each_criterion() -> None:
    profile = loaded(GOOD)
    gemm, spread, copy, offset, model = profile.criteria
    assert (profile.name, profile.date) == ("acceptance", "2026-11-30")
    assert (gemm.bound, gemm.unit, gemm.where, gemm.clause) == (692e12, "FLOP/s", "p.yaml:6", "3.1")
    assert gemm.recipe == Recipe.of(shape="8192x8192x8192", load="all", statistic="median", window_s=0.4)
    assert (spread.op, spread.bound, spread.unit, spread.required) == (Op.SPREAD_AT_MOST, 0.01, "1", False)
    assert spread.repeatability_frac == 0.005
    assert (copy.of, copy.bound, copy.unit) == (Origin.CLAIMED, 0.95, "1")
    assert copy.recipe.get("bytes") == 16 * 2**30
    assert (offset.bound, offset.high, offset.rule) == (-1e-3, 1e-3, Rule.GUARDED_BUYER)
    assert (model.op, model.over, model.unit) == (Op.UNIFORM, Over.EACH, "text")


def test_a_profile_is_read_from_a_file_in_either_format(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "p.toml").write_text(
        'schema = 1\nname = "x"\ntitle = "X"\n'
        '[[criteria]]\nid = "a"\nquantity = "gpu.count"\nop = "at_least"\nbound = 8\n',
        encoding="utf-8",
    )
    assert len(load_profile(tmp_path / "p.yaml", quantity_of=quantity).criteria) == 5
    (criterion,) = load_profile(tmp_path / "p.toml", quantity_of=quantity).criteria
    assert (criterion.bound, criterion.unit) == (8.0, "count")
    assert criterion.where == f"{tmp_path / 'p.toml'}:4"


@pytest.mark.parametrize(
    ("old", "new", "words", "line"),
    [
        ("bound: 692", "bund: 692", "unknown key 'bund' in criteria\n  fix: did you mean 'bound'?", 9),
        ("criteria:", "criterias:", "did you mean 'criteria'?", 5),
        ("692 TFLOP/s", "692 GB/s", "floating-point rate, dense is wanted", 9),
        ("692 TFLOP/s", "692", "has no unit", 9),
        ("692 TFLOP/s", "692 Tflops", "unknown unit 'Tflops'", 9),
        ("692 TFLOP/s", "-692 TFLOP/s", "cannot be negative", 9),
        ("bound: 0.95", "bound: -0.95", "cannot be negative", 22),
        ("bound: 1 %", "bound: 300 %", "not in 0 … 1", 12),
        ("bound: 1 %", "bound: .inf", "not a finite number", 12),
        ("id: spread", "id: gemm", "stands twice in profile 'acceptance', first at p.yaml:6", 12),
        ("op: at_least", "op: at_lest", "did you mean 'at_least'", 8),
        ("of: claimed", "of: claimd", "did you mean 'claimed'", 21),
        ("rule: guarded_buyer", "rule: guarded", "did you mean 'guarded_buyer'", 24),
        ("gemm.bf16.rate", "gem.bf16.rate", "did you mean 'gemm.bf16.rate'", 7),
        ("    op: at_least\n", "", "'op' is missing in criteria", 6),
        ("title: Acceptance of a node\n", "", "'title' is missing", 1),
        ("title: Acceptance of a node", "title: 3", "title is 3", 3),
        ("title: Acceptance of a node", "name: again", "duplicate key", 3),
        ("schema: 1", "schema: 2", "schema is 2", 1),
        ("schema: 1\n", "", "without a schema number", 1),
        ("400 ms", "400 GB", "time is wanted", 10),
        ("statistic: median", "statistics: median", "did you mean 'statistic'", 10),
        ("load: all", "load: [all]", "criteria.recipe.load is ['all']", 10),
        ("16 GiB", "16 GiBit", "unknown unit 'GiBit'", 23),
        ("required: false", "required: 3", "criteria.required is 3", 16),
        ("op: uniform", "op: at_least, bound: 3", "no more and no less", 25),
        ("high: 1 ms", "high: -2 ms", "is empty", 24),
    ],
)
def test_what_is_wrong_in_a_profile_is_told_with_file_and_line(
    old: str, new: str, words: str, line: int
) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        loaded(GOOD.replace(old, new, 1))
    assert words in str(caught.value)
    assert caught.value.where == f"p.yaml:{line}"


def test_the_kind_of_a_fault_survives_being_placed() -> None:
    with pytest.raises(UnknownNameError):
        loaded(GOOD.replace("gemm.bf16.rate", "nothing", 1))
    with pytest.raises(UnitError):
        loaded(GOOD.replace("692 TFLOP/s", "692 GB/s"))


def test_a_missing_profile_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        load_profile(tmp_path / "none.yaml", quantity_of=quantity)


_QUANTITIES = (
    "gemm.bf16.rate",
    "peer.latency",
    "clock.offset",
    "gpu.count",
    "training.mfu",
    "price.gpu_hour",
)
_RECIPES = st.dictionaries(
    st.sampled_from(["bytes", "ranks", "window_s", "method", "direct"]), st.integers(0, 10**12), max_size=3
)
_SIZES = st.floats(0, 1e20) | st.sampled_from([692e12, 1e-5, 0.85, 400e9 / 8, 3.0])


@st.composite
def criteria(draw: st.DrawFn, criterion_id: str) -> Criterion:
    """Any criterion that a file can state."""
    known = quantity(draw(st.sampled_from(_QUANTITIES)))
    op = draw(st.sampled_from(Op))
    is_fraction = op in (Op.SPREAD_AT_MOST, Op.UNIFORM)
    of = None
    if not is_fraction and op is not Op.PRESENT:
        of = draw(st.sampled_from([None, Origin.CLAIMED, Origin.DATASHEET, Origin.PREDICTED]))
    sizes = st.floats(0, 0.99) if is_fraction else _SIZES
    bound, high = sorted((draw(sizes), draw(sizes)))
    if known.id == "clock.offset" and not is_fraction:
        bound = -bound
    return Criterion(
        id=criterion_id,
        quantity=known.id,
        op=op,
        unit=bound_unit(op, of, known),
        recipe=Recipe.of(draw(_RECIPES)),
        bound=None if op is Op.PRESENT else bound,
        high=high if op is Op.WITHIN else None,
        of=of,
        over=draw(st.sampled_from(Over)),
        required=draw(st.booleans()),
        rule=draw(st.sampled_from(Rule)),
        repeatability_frac=draw(st.none() | st.floats(1e-6, 0.5)),
        clause=draw(words),
        source=draw(words),
        note=draw(words),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any profile that a file can state."""
    ids = draw(st.lists(some_words, min_size=1, max_size=3, unique=True))
    return Profile(
        name=draw(some_words),
        title=draw(words),
        criteria=tuple(draw(criteria(one)) for one in ids),
        description=draw(words),
        applies_to=tuple(draw(st.lists(words, max_size=2))),
        source=draw(words),
        date=draw(words),
    )


@given(profiles())
def test_a_profile_is_read_as_it_was_written(profile: Profile) -> None:
    again = loaded(dump_profile(profile))
    bare = tuple(replace(criterion, where="") for criterion in again.criteria)
    assert replace(again, criteria=bare, where="") == profile


def test_a_written_profile_uses_the_units_that_people_use() -> None:
    text = dump_profile(loaded(GOOD))
    assert "bound: 692 TFLOP/s" in text
    assert "high: 1 ms" in text


@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 12),
    st.text(max_size=6) | st.sampled_from([" ", "\n", ": ", "- ", "[", "{", "*a", "!!x "]),
)
def test_whatever_is_done_to_a_file_it_is_read_or_told(at: int, gone: int, new: str) -> None:
    with suppress(InputError):
        loaded(GOOD[:at] + new + GOOD[at + gone :])
