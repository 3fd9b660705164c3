"""Readings and criteria for the tests of judging."""

from __future__ import annotations

import numpy as np

from assay.catalog.quantities import quantity
from assay.domain.criterion import Criterion, Op, Profile
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.judge.families import gather
from assay.judge.verdicts import judge

RECIPE = Recipe.of(shape="8192x8192x8192", load="all", statistic="median")


def reading(value, *, subject="rank:0", restart=0, id="gemm.bf16.rate", recipe=RECIPE, **more):
    q = quantity(id)
    return Reading(
        quantity=id,
        subject=Subject.parse(subject),
        origin=more.pop("origin", Origin.MEASURED),
        value=value,
        unit=q.unit,
        recipe=recipe,
        replicate=restart,
        **more,
    )


def restarts(values, *, subject="rank:0", **more):
    return [reading(v, subject=subject, restart=i, **more) for i, v in enumerate(values)]


def noisy(mean, *, subject, n=5, noise=0.003, seed=0, **more):
    rng = np.random.default_rng(seed)
    return restarts(mean * (1 + noise * rng.standard_normal(n)), subject=subject, **more)


def criterion(op=Op.AT_LEAST, bound=700e12, *, id="c", quantity_id="gemm.bf16.rate", recipe=RECIPE, **more):
    unit = more.pop(
        "unit", "1" if op in (Op.UNIFORM, Op.SPREAD_AT_MOST) or "of" in more else quantity(quantity_id).unit
    )
    return Criterion(id=id, quantity=quantity_id, op=op, bound=bound, unit=unit, recipe=recipe, **more)


def judged(readings, *criteria, **more):
    profile = Profile(name="test", title="test", criteria=tuple(criteria))
    return judge(profile, gather(readings, quantity), quantity, **more)


def only(assessment):
    (judgement,) = assessment.judgements
    return judgement
