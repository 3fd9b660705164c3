"""A leaf that is slow by itself is named; one that is slow only beside the others is contention."""

import numpy as np
import pytest
from judging import noisy

from assay.catalog.quantities import quantity
from assay.domain.recipe import Recipe
from assay.judge.families import gather
from assay.judge.groups import find_slow_groups

ID = "leaf.all_reduce.busbw"


def leaf(name, alone, beside, *, ranks=128, transport="nccl", seed=0, noise=0.015):
    common = {"bytes": 2**28, "transport": transport, "method": "pipelined", "statistic": "mean"}
    return [
        r
        for at, (load, mean) in enumerate((("alone", alone), ("side_by_side", beside)))
        for r in noisy(
            mean,
            subject=f"group:{name}",
            id=ID,
            noise=noise,
            seed=2 * seed + at,
            recipe=Recipe.of(common, ranks=ranks, dtype="fp32", load=load),
        )
    ]


def named(*leaves):
    found = find_slow_groups(gather([r for one in leaves for r in one], quantity))
    return [(f.code, str(f.subject)) for f in found]


def healthy(count, **more):
    return [leaf(f"leaf{i}", 3e11, 3e11, seed=i, **more) for i in range(count)]


def test_a_slow_leaf_is_named_though_its_size_is_another():
    slow = leaf("leaf9", 2.5e11, 2.5e11, ranks=96, seed=9)
    assert named(*healthy(7), slow) == [("LEAF_SLOW", "group:leaf9")]


def test_of_two_leaves_the_slower():
    assert named(*healthy(1), leaf("leaf9", 2.4e11, 2.4e11, seed=9)) == [("LEAF_SLOW", "group:leaf9")]


def test_slow_only_side_by_side_is_contention():
    crowded = [leaf(f"leaf{i}", 3e11, 2e11, seed=i) for i in (7, 8)]
    assert named(*healthy(6), *crowded) == [
        ("LINK_CONTENTION", "group:leaf7"),
        ("LINK_CONTENTION", "group:leaf8"),
    ]


def test_a_leaf_that_is_slow_alone_is_not_called_contention_too():
    assert named(*healthy(4), leaf("leaf9", 2e11, 1e11, seed=9)) == [("LEAF_SLOW", "group:leaf9")]


@pytest.mark.parametrize(("alone", "code"), [(1.2e8, []), (0.7e8, [("LEAF_SLOW", "group:leaf9")])])
def test_over_sockets_only_three_times_slower_counts(alone, code):
    sockets = {"transport": "gloo", "ranks": 2, "noise": 0.1}
    others = [leaf(f"leaf{i}", 3e8, 1.6e8, seed=i, **sockets) for i in range(2)]
    assert named(*others, leaf("leaf9", alone, alone, seed=9, **sockets)) == code


def test_healthy_leaves_raise_no_alarm():
    rng = np.random.default_rng(1)
    for _ in range(200):
        fleet = [leaf(f"leaf{i}", 3e11, 3e11, seed=int(rng.integers(1 << 30))) for i in range(8)]
        assert named(*fleet) == []
