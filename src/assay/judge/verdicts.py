"""Holding readings against a profile: one judgement per criterion and subject.

A verdict rests on restarts: a bound is shown to hold, or to be broken, when the interval between process
restarts lies wholly on one side, at 95 % for a family of subjects as a whole (Holm). What straddles is
undecided unless the criterion says who bears the doubt. What has no reading is not measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.domain.criterion import Criterion, Op, Over, Profile
from assay.domain.message import Message
from assay.domain.quantity import SUBJECTS_OF, Quantity
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Assessment, Judgement, Verdict
from assay.judge.bounds import Doubt, judge_each, judge_present, judge_spread, judge_statistic, judge_uniform
from assay.judge.families import Family, Measured, QuantityOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a profile is held against.

    `expected` are the subjects that should have values of a quantity of GPU scope: one per rank, in order.
    """

    measured: Measured
    others: tuple[Reading, ...]
    expected: tuple[Subject, ...]


def judge(
    profile: Profile,
    measured: Measured,
    quantity_of: QuantityOf,
    *,
    others: Iterable[Reading] = (),
    expected: Iterable[Subject] = (),
    missing_ranks: Iterable[int] = (),
    sequential: bool = False,
) -> Assessment:
    """Judge what was measured by `profile`.

    `others` are claimed, predicted and datasheet readings, set beside the measured ones and used by
    criteria whose bound is relative. `sequential` uses confidence sequences, for a run that looks after
    every restart whether it may stop. A judgement is made for every criterion, whatever is missing.
    """
    evidence = Evidence(measured=measured, others=tuple(others), expected=tuple(dict.fromkeys(expected)))
    doubt = Doubt(sequential=sequential)
    judgements = [
        judgement
        for criterion in profile.criteria
        for judgement in _judge_criterion(criterion, evidence, quantity_of, doubt)
    ]
    return Assessment(
        profile=profile.name,
        judgements=tuple(_beside(j, evidence.others) for j in judgements),
        missing_ranks=tuple(sorted(set(missing_ranks))),
    )


def _judge_criterion(
    criterion: Criterion, evidence: Evidence, quantity_of: QuantityOf, doubt: Doubt
) -> list[Judgement]:
    """A criterion whose quantity has a `<word>` is judged once for every quantity and recipe measured."""
    quantity = quantity_of(criterion.quantity)
    if "<" not in criterion.quantity:
        return _judge_families(
            criterion, quantity, evidence.measured.families.get(criterion.quantity, ()), evidence, doubt
        )
    judgements = []
    for quantity_id, group in evidence.measured.families.items():
        if not quantity.describes(quantity_id):
            continue
        for family in group:
            if not family.recipe.lacks(criterion.recipe) and family.readings:
                concrete = dataclasses.replace(criterion, quantity=quantity_id, recipe=family.recipe)
                judgements += _judge_families(concrete, family.quantity, (family,), evidence, doubt)
    return judgements or [_nothing(criterion, quantity, (), evidence)]


def _judge_families(
    criterion: Criterion, quantity: Quantity, group: Sequence[Family], evidence: Evidence, doubt: Doubt
) -> list[Judgement]:
    fitting = [f for f in group if not f.recipe.lacks(criterion.recipe)]
    valued = [f for f in fitting if f.readings]
    if not valued:
        return [_nothing(criterion, quantity, fitting or group, evidence)]
    if len(valued) > 1 and _holds_of_each(criterion, quantity, valued):
        each = [(dataclasses.replace(criterion, recipe=family.recipe), family) for family in valued]
        return [j for one, family in each for j in _judge_families(one, quantity, (family,), evidence, doubt)]
    if len(valued) > 1:
        return [_ambiguous(criterion, quantity, valued)]
    family = valued[0]
    bounds = _bounds(criterion, family, evidence.others)
    if isinstance(bounds, Message):
        return [_open(criterion, quantity, bounds, family.recipe)]
    missing = _missing(family, evidence)
    if criterion.op is Op.PRESENT:
        return [*judge_present(criterion, family), *_lost(criterion, family, missing)]
    if criterion.op is Op.UNIFORM:
        return judge_uniform(criterion, family, missing, doubt)
    if criterion.op is Op.SPREAD_AT_MOST:
        return judge_spread(criterion, family, missing)
    if family.estimates is None:
        return [_open(criterion, quantity, Message.of("reason.not_measured.not_a_number"), family.recipe)]
    if criterion.over is not Over.EACH:
        return judge_statistic(criterion, family, missing, bounds, doubt)
    return [*judge_each(criterion, family, bounds, doubt), *_lost(criterion, family, missing)]


def _holds_of_each(criterion: Criterion, quantity: Quantity, fitting: Sequence[Family]) -> bool:
    """Whether a criterion that several recipes answer is to hold of each of them.

    Siblings are alike within each recipe: links in a node, and links between nodes. What must hold of the
    worst must hold of each. And recipes that differ in nothing that defines the quantity are alike.
    """
    worst = (Op.AT_LEAST, Over.MIN), (Op.AT_MOST, Over.MAX)
    if criterion.op is Op.UNIFORM or (criterion.op, criterion.over) in worst:
        return True
    defined = {tuple(family.recipe.get(name) for name in quantity.defining) for family in fitting}
    return len(defined) == 1


def _nothing(
    criterion: Criterion, quantity: Quantity, group: Sequence[Family], evidence: Evidence
) -> Judgement:
    """Why a criterion has no reading: the reason on record, an unlike recipe, or simply none."""
    lost = [reason for family in group for reason in family.lost.values()]
    measured = [family for family in group if family.readings]
    if measured:
        nearest = min(measured, key=lambda f: len(f.recipe.lacks(criterion.recipe)))
        difference = "; ".join(str(d) for d in nearest.recipe.lacks(criterion.recipe))
        return _open(criterion, quantity, Message.of("reason.not_measured.recipe", difference=difference))
    failed = [
        r.reason or ""
        for r in evidence.measured.failures
        if dataclasses.replace(quantity, id=r.quantity).describes(criterion.quantity)
    ]
    for reason in (*lost, *failed):
        return _open(criterion, quantity, Message.of("reason.not_measured.reason", text=reason))
    return _open(criterion, quantity, Message.of("reason.not_measured.no_reading", quantity=quantity.id))


def _ambiguous(criterion: Criterion, quantity: Quantity, fitting: Sequence[Family]) -> Judgement:
    """Several recipes answer the criterion: choosing one in silence would compare unlike things."""
    differ = fitting[0].recipe.conflicts(fitting[1].recipe) or fitting[0].recipe.lacks(fitting[1].recipe)
    return _open(
        criterion,
        quantity,
        Message.of(
            "reason.not_measured.ambiguous", recipes=len(fitting), difference="; ".join(map(str, differ))
        ),
    )


def _bounds(
    criterion: Criterion, family: Family, others: Sequence[Reading]
) -> list[tuple[float, float | None]] | Message:
    """The bound, and the upper one of `within`, for each subject of the family."""
    if criterion.bound is None:
        return []
    if criterion.of is None:
        return [(criterion.bound, criterion.high)] * len(family.readings)
    bounds = []
    for subject in family.subjects:
        reference = _reading_for(family.quantity.id, subject, family.recipe, others, criterion.of)
        if reference is None or reference.number is None:
            return Message.of("reason.not_measured.no_reference", origin=criterion.of.value)
        upper = None if criterion.high is None else criterion.high * reference.number
        bounds.append((criterion.bound * reference.number, upper))
    return bounds


def _missing(family: Family, evidence: Evidence) -> dict[Subject, str]:
    """Subjects that should have a value of this family and have none, with the reason."""
    missing, known = dict(family.lost), set(family.subjects)
    if "rank" in SUBJECTS_OF[family.quantity.scope] and any(s.kind in ("rank", "gpu") for s in known):
        reference = family.recipe.get("reference")
        for rank, subject in enumerate(evidence.expected):
            if subject not in known and subject not in missing and reference != f"rank:{rank}":
                missing[subject] = "no reading"
    return dict(sorted(missing.items()))


def _lost(criterion: Criterion, family: Family, missing: dict[Subject, str]) -> list[Judgement]:
    return [
        dataclasses.replace(
            _open(
                criterion,
                family.quantity,
                Message.of("reason.not_measured.reason", text=reason),
                family.recipe,
            ),
            subject=subject,
        )
        for subject, reason in missing.items()
    ]


def _open(
    criterion: Criterion, quantity: Quantity, reason: Message, recipe: Recipe | None = None
) -> Judgement:
    return Judgement(
        criterion=criterion,
        subject=CLUSTER,
        verdict=Verdict.NOT_MEASURED,
        reason=reason,
        recipe=criterion.recipe if recipe is None else recipe,
        unit=quantity.unit,
        bound=None if criterion.of else criterion.bound,
        high=None if criterion.of else criterion.high,
    )


def _beside(judgement: Judgement, others: Sequence[Reading]) -> Judgement:
    """The judgement with what is claimed and predicted for the same subject and recipe."""
    quantity, subject, recipe = judgement.criterion.quantity, judgement.subject, judgement.recipe
    return dataclasses.replace(
        judgement,
        claimed=_reading_for(quantity, subject, recipe, others, Origin.CLAIMED)
        or _reading_for(quantity, subject, recipe, others, Origin.DATASHEET),
        predicted=_reading_for(quantity, subject, recipe, others, Origin.PREDICTED),
    )


def _reading_for(
    quantity: str, subject: Subject, recipe: Recipe, others: Sequence[Reading], origin: Origin
) -> Reading | None:
    """The reading of that origin for the subject, or for every subject ("cluster"), whose recipe fits."""
    fitting = [
        r
        for r in others
        if r.origin is origin
        and r.quantity == quantity
        and r.subject in (subject, CLUSTER)
        and not recipe.conflicts(r.recipe)
    ]
    return max(fitting, key=lambda r: (r.subject == subject, len(r.recipe.items)), default=None)
