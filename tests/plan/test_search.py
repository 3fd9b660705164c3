"""The search finds what an exhaustive search finds, and says of every other point why it was left out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_fixtures import h100, small_job

from assay.domain.layout import RECOMPUTES, SCHEDULES, SHARDINGS, Layout
from assay.errors import InputError
from assay.plan.frameworks import ability
from assay.plan.job import Job, with_layout
from assay.plan.ranking import rank
from assay.plan.search import Found, search
from assay.plan.space import AXES, Space, grid, quick, space_of
from assay.predict.calibration import network_of
from assay.predict.prediction import Prediction, predict
from assay.predict.situation import Situation


def every_layout(space: Space, base: Situation) -> list[Layout]:
    """All layouts of the product that the record accepts and the model and framework can have, no rule
    applied."""
    found = []
    names = ("tp", "pp", "cp", "ep", "etp", "vpp", "micro_batch", "shard_ranks")
    numbers = [getattr(space, name) for name in names]
    words = (space.sharding, space.recompute, space.schedule, space.precision)
    can = ability(base.stack.id)
    layers = base.workload.model.layers
    for values in itertools.product(*numbers, *words):
        degrees = dict(zip(AXES, values, strict=True))
        inner = degrees["tp"] * degrees["pp"] * degrees["cp"]
        if space.gpus % inner:
            continue
        chunks = degrees["pp"] * degrees["vpp"]
        if chunks > layers or (layers % chunks and (layers + 2) % chunks):
            continue
        if degrees["pp"] > 1 and degrees["sharding"] not in can.shardings_with_pp:
            continue
        try:
            layout = Layout(dp=space.gpus // inner, **degrees)
            rounds = layout.micro_batches(base.global_batch)
        except InputError:
            continue
        if can.interleaves_whole_rounds and layout.vpp > 1 and rounds % layout.pp:
            continue
        found.append(layout)
    return found


def exhaustive(space: Space, base: Situation, nodes: int) -> list[Prediction]:
    """Every layout by the predictor's own front door, those that fit, fastest first."""
    network = network_of(h100(nodes))
    every = [predict(with_layout(base, layout), network) for layout in every_layout(space, base)]
    return sorted((p for p in every if p.fits), key=lambda p: p.step_time_s.value)


def searched(plan: Job, nodes: int, **fixed: object) -> tuple[Found, Space, Situation]:
    here = h100(nodes)
    base = plan.on(here)
    space = space_of(base, here.gpus, {"precision": "bf16"} | fixed)
    return search(base, space, network_of(here)), space, base


@pytest.mark.parametrize(
    ("plan", "fixed"),
    [
        (small_job(layers=6), {"cp": 1, "micro_batch": 1}),
        (small_job(layers=6, named="maxtext"), {"cp": 1, "micro_batch": 2, "tp": 1}),
        (small_job(layers=6, named="megatron-2022"), {"cp": 1, "micro_batch": 1, "tp": 2}),
        (small_job(moe=True), {"cp": 1, "micro_batch": 1, "pp": 1}),
        (small_job(layers=2, named="fsdp"), {"micro_batch": 1}),
    ],
    ids=["megatron", "everything", "unfused", "experts", "fsdp"],
)
def test_pruning_loses_no_layout_that_an_exhaustive_search_finds(plan: Job, fixed: dict[str, object]) -> None:
    found, space, base = searched(plan, 1, **fixed)
    every = exhaustive(space, base, 1)
    assert len(every) > 20
    assert found.time_s[0] == pytest.approx(every[0].step_time_s.value, rel=1e-12)
    # What is fastest at every amount of memory is found too, not only the fastest of all.
    best: dict[float, float] = {}
    for p in every:
        best.setdefault(p.total_bytes, p.step_time_s.value)
    for limit in best:
        wanted = min(t for held, t in best.items() if held <= limit * (1 + 1e-12))
        mine = found.time_s[found.total_bytes <= limit * (1 + 1e-12)]
        assert mine.min() == pytest.approx(wanted, rel=1e-12)


def test_every_point_is_evaluated_or_counted_with_its_reason() -> None:
    found, space, _ = searched(small_job(layers=6), 1)
    assert found.evaluated + sum(found.pruned.values()) == space.points
    assert found.evaluated == len(found.points) + found.not_fitting


def test_symmetric_points_are_evaluated_once() -> None:
    base = small_job(layers=6, named="maxtext").on(h100(1))
    points = grid(space_of(base, 8, {"precision": "bf16"}), base)
    seen = set()
    for at in range(len(points)):
        layout = points.layout(at)
        # Without stages or chunks a schedule says nothing; without a peer ZeRO-1 says nothing.
        schedule = layout.schedule if layout.pp > 1 else "1f1b"
        alone = layout.dp * layout.cp == 1 and layout.sharding == "zero1"
        seen.add(replace(layout, schedule=schedule, sharding="none" if alone else layout.sharding))
    assert len(seen) == len(points)
    assert points.pruned["same_as_another"] > 0


@settings(max_examples=25)
@given(st.data())
def test_a_point_is_what_the_predictor_says_of_its_layout(data: st.DataObject) -> None:
    moe = data.draw(st.booleans())
    name = data.draw(st.sampled_from(["megatron", "torchtitan", "deepspeed", "internevo"]))
    plan = small_job(moe=moe, layers=6 if not moe else 4, named=name)
    here = h100(2)
    base = plan.on(here)
    space = space_of(base, here.gpus)
    found = search(base, quick(space), network_of(here))
    at = data.draw(st.integers(0, len(found.points) - 1))
    one = predict(with_layout(base, found.points.layout(at)), network_of(here))
    assert found.time_s[at] == pytest.approx(one.step_time_s.value, rel=1e-12)
    assert found.total_bytes[at] == pytest.approx(one.total_bytes, rel=1e-12)


def test_the_front_is_not_beaten_in_both_speed_and_memory() -> None:
    found, _, _ = searched(small_job(layers=6), 1)
    front = found.front()
    assert len(front) > 1
    for at in front:
        beaten = (found.time_s <= found.time_s[at]) & (found.total_bytes <= found.total_bytes[at])
        assert set(np.flatnonzero(beaten)) == {int(at)} or np.allclose(
            found.total_bytes[beaten], found.total_bytes[at]
        )
    assert front[0] == 0


def test_layouts_come_fastest_first_and_what_is_fixed_stays_fixed() -> None:
    found, _, _ = searched(small_job(layers=6), 2, tp=2, dp=4)
    assert np.all(np.diff(found.time_s) >= 0)
    assert {found.points.layout(at).tp for at in range(len(found.points))} == {2}
    assert {found.points.layout(at).dp for at in range(len(found.points))} == {4}


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"tp": 8, "pp": 4}, ("tp = 8", "pp = 4", "16 GPUs")),
        ({"vpp": 2, "pp": 1}, ("vpp = 2", "pp = 1")),
        ({"pp": 2, "sharding": "zero3"}, ("zero3", "pp = 2")),
        ({"vpp": 2, "schedule": "1f1b", "pp": 2}, ("vpp = 2", "1f1b")),
        ({"dp": 8, "micro_batch": 4}, ("dp × micro_batch = 32", "16")),
    ],
)
def test_contradictory_wishes_name_the_pair(fixed: dict[str, object], words: tuple[str, ...]) -> None:
    base = small_job(layers=6).on(h100(2))
    with pytest.raises(InputError) as fault:
        space_of(base, 16, fixed)
    for word in words:
        assert word in str(fault.value)


@pytest.mark.parametrize(
    ("fixed", "word"),
    [
        ({"tp": 5}, "choose from 1, 2, 4, 8"),
        ({"recompute": "some"}, "none"),
        ({"recompue": "full"}, "'recompute'"),
        ({"ep": 2}, "ep = 2"),
    ],
)
def test_a_wish_that_no_layout_has_is_refused_with_a_suggestion(fixed: dict[str, object], word: str) -> None:
    base = small_job(layers=6).on(h100(2))
    with pytest.raises(InputError) as fault:
        space_of(base, 16, fixed)
    assert word in str(fault.value)


def test_a_model_that_fits_nowhere_says_the_smallest_change_that_fits() -> None:
    from plan_fixtures import named_job

    with pytest.raises(InputError) as fault:
        rank(named_job("gpt3-175b"), h100(2), small=True)
    assert "fits nowhere" in fault.value.what
    assert fault.value.fix == "take 8 nodes, the smallest of the doublings that fits"
    assert rank(named_job("gpt3-175b"), h100(8), count=1, front=0, small=True).candidates
    with pytest.raises(InputError):
        rank(named_job("gpt3-175b"), h100(4), count=1, front=0, small=True)


def test_every_candidate_explains_itself_in_words() -> None:
    from assay.catalog.messages import Texts

    ranking = rank(small_job(layers=6), h100(2), count=5)
    texts = Texts("en")
    for one in ranking.candidates:
        assert one.why
        for message in one.why:
            said = texts.say(message)
            assert said != message.code
            assert "{" not in said


def test_words_of_the_axes_are_those_of_a_layout() -> None:
    base = small_job().on(h100(1))
    space = space_of(base, 8)
    assert set(space.sharding) <= set(SHARDINGS)
    assert set(space.recompute) == set(RECOMPUTES)
    assert set(space.schedule) <= set(SCHEDULES)
