"""What a report says, worked out from its data: no layout, no colour, no words beyond the catalogue's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.catalog.quantities import quantity
from assay.catalog.messages import Texts
from assay.domain.criterion import Criterion, Op, Over
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.quantity import Better
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Judgement, Verdict
from assay.errors import UnknownNameError
from assay.report.data import ReportData
from assay.units import show

#: What decides most comes first.
ORDER = (Verdict.FAIL, Verdict.UNDECIDED, Verdict.NOT_MEASURED, Verdict.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionView:
    """One criterion with its judgements, worst first. `verdict` is that of the worst."""

    criterion: Criterion
    judgements: tuple[Judgement, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict over the subjects."""
        return self.judgements[0].verdict

    @property
    def counts(self) -> tuple[tuple[Verdict, int], ...]:
        """How many subjects have each verdict that occurs, worst first."""
        return count_verdicts(self.judgements)


@dataclass(frozen=True, slots=True, kw_only=True)
class OddOne:
    """A subject that departs from its siblings: its value, their median, and the fraction between them."""

    subject: Subject
    quantity: str
    recipe: Recipe
    value: float | str
    median: float | str
    deviation_frac: float | None
    unit: str
    siblings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A promise beside what was measured. `overstated_frac` > 0 means that less was found than promised.

    Higher is better: claimed/measured − 1; lower is better: measured/claimed − 1; None where nothing was
    measured by a recipe that fits.
    """

    claimed: Reading
    measured: Reading | None
    overstated_frac: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Measured values of one quantity and recipe over all subjects, where no criterion asks for them."""

    quantity: str
    recipe: Recipe
    unit: str
    readings: tuple[Reading, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(r.number for r in self.readings if r.number is not None)


def count_verdicts(judgements: Iterable[Judgement]) -> tuple[tuple[Verdict, int], ...]:
    """(verdict, count) for each verdict that occurs, worst first."""
    found = [j.verdict for j in judgements]
    return tuple((v, found.count(v)) for v in ORDER if v in found)


def criteria(data: ReportData) -> tuple[CriterionView, ...]:
    """The criteria, worst first, then in the profile's order; their subjects likewise."""
    groups: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in data.assessment.judgements:
        groups[judgement.criterion.id].append(judgement)
    views = [
        CriterionView(criterion=group[0].criterion, judgements=tuple(sorted(group, key=_worst_first)))
        for group in groups.values()
    ]
    return tuple(sorted(views, key=lambda view: (ORDER.index(view.verdict), not view.criterion.required)))


def deciding(data: ReportData) -> tuple[CriterionView, ...]:
    """The criteria that make the overall verdict what it is; none when it is a pass."""
    verdict = data.assessment.verdict
    if verdict is Verdict.PASS:
        return ()
    return tuple(
        view
        for view in criteria(data)
        if any(j.verdict is verdict for j in view.judgements)
        and (verdict is Verdict.FAIL or view.criterion.required)
    )


def findings(data: ReportData) -> tuple[Finding, ...]:
    """The findings, worst first; what follows from another comes after it."""
    return tuple(
        sorted(
            data.assessment.findings,
            key=lambda f: (f.severity.rank, f.follows_from is not None, -f.confidence_frac),
        )
    )


def _worst_first(judgement: Judgement) -> tuple[int, float, Subject]:
    """By verdict, then by the distance to the bound on the bad side, then by name."""
    value = judgement.measured.number if judgement.measured else None
    if value is None or judgement.bound is None:
        return ORDER.index(judgement.verdict), 0.0, judgement.subject
    upward_is_good = judgement.criterion.op is Op.AT_LEAST
    return ORDER.index(judgement.verdict), value if upward_is_good else -value, judgement.subject


def odd_ones(data: ReportData) -> tuple[OddOne, ...]:
    """Subjects that a failed criterion or a finding names, with their siblings' median.

    Only quantities in which the subject departs from its siblings are listed; the largest departure
    comes first.
    """
    named = {j.subject for j in data.assessment.judgements if j.verdict is Verdict.FAIL}
    named |= {finding.subject for finding in data.assessment.findings}
    named |= {way for subject in named if subject.kind == "pair" for way in _ways(subject)}
    named.discard(CLUSTER)
    failed = {
        (j.subject, j.criterion.quantity) for j in data.assessment.judgements if j.verdict is Verdict.FAIL
    }
    odd = []
    for group in by_recipe(r for r in data.readings if r.origin is Origin.MEASURED):
        median, far = _median(group), departing(group)
        for reading in group:
            if reading.subject in named and median is not None and len(group) >= 3:
                one = _odd_one(reading, median, len(group) - 1)
                if one and ((reading.subject, reading.quantity) in failed or reading.subject in far):
                    odd.append(one)
    return tuple(sorted(odd, key=lambda one: -abs(one.deviation_frac or 1.0)))


def _ways(pair: Subject) -> tuple[Subject, Subject]:
    a, b = pair.ends
    return Subject("link", f"{a}>{b}"), Subject("link", f"{b}>{a}")


def _odd_one(reading: Reading, median: float, siblings: int) -> OddOne | None:
    if reading.number is None or median == 0:
        return None
    return OddOne(
        subject=reading.subject,
        quantity=reading.quantity,
        recipe=reading.recipe,
        value=reading.number,
        median=median,
        deviation_frac=reading.number / median - 1,
        unit=reading.unit,
        siblings=siblings,
    )


def departing(group: Sequence[Reading]) -> frozenset[Subject]:
    """Subjects of one quantity and recipe that depart from the median by more than noise and 2 %.

    Noise is taken as six times the median absolute deviation (scaled to a standard deviation).
    """
    known = [r for r in group if r.number is not None]
    if len(known) < 3:
        return frozenset()
    numbers = np.array([r.number for r in known], dtype=float)
    median = float(np.median(numbers))
    distance = np.abs(numbers - median)
    allowed = max(6 * 1.4826 * float(np.median(distance)), 0.02 * abs(median))
    return frozenset(r.subject for r, far in zip(known, distance > allowed, strict=True) if far)


def _median(group: Sequence[Reading]) -> float | None:
    numbers = [r.number for r in group if r.number is not None]
    return float(np.median(numbers)) if numbers else None


def by_recipe(readings: Iterable[Reading]) -> list[tuple[Reading, ...]]:
    """Readings of the same quantity and recipe together, in order of first appearance."""
    groups: dict[tuple[str, Recipe], list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.quantity, reading.recipe].append(reading)
    return [tuple(sorted(group, key=lambda r: r.subject)) for group in groups.values()]


def shortfalls(data: ReportData) -> tuple[Shortfall, ...]:
    """Each claimed number beside the measured one that it is about, the most overstated first."""
    measured = [r for r in data.readings if r.origin is Origin.MEASURED and r.number is not None]
    rows = []
    for claim in data.readings:
        if claim.origin is not Origin.CLAIMED or claim.number is None:
            continue
        fitting = [r for r in measured if r.quantity == claim.quantity and not r.recipe.lacks(claim.recipe)]
        found = _counterpart(claim, fitting)
        rows.append(Shortfall(claimed=claim, measured=found, overstated_frac=_overstated(claim, found)))
    return tuple(sorted(rows, key=lambda row: -(row.overstated_frac if row.overstated_frac is not None else -9)))


def _counterpart(claim: Reading, fitting: Sequence[Reading]) -> Reading | None:
    """The worst subject under the recipe that favours the claim most.

    A claim about the cluster is about its worst part; a claim that leaves its recipe open may mean any
    of those that fit, and gets the benefit of the doubt.
    """
    own = [r for r in fitting if r.subject == claim.subject] or (fitting if claim.subject == CLUSTER else [])
    worst, best = (max, min) if better(claim.quantity) is Better.LOWER else (min, max)
    worst_ones = [worst(group, key=lambda r: r.number or 0.0) for group in by_recipe(own)]
    return best(worst_ones, key=lambda r: r.number or 0.0, default=None)


def _overstated(claim: Reading, measured: Reading | None) -> float | None:
    if measured is None or not claim.number or not measured.number:
        return None
    if better(claim.quantity) is Better.LOWER:
        return measured.number / claim.number - 1
    return claim.number / measured.number - 1


def better(quantity_id: str) -> Better:
    """The good direction of a quantity; neither where the catalogue does not know it."""
    try:
        return quantity(quantity_id).better
    except UnknownNameError:
        return Better.NEITHER


def unjudged(data: ReportData) -> tuple[Summary, ...]:
    """Measured quantities that no criterion of the profile asks for, in the order of the run."""
    judged = {(j.measured.quantity, j.measured.recipe) for j in data.assessment.judgements if j.measured}
    return tuple(
        Summary(quantity=group[0].quantity, recipe=group[0].recipe, unit=group[0].unit, readings=group)
        for group in by_recipe(r for r in data.readings if r.origin is Origin.MEASURED)
        if (group[0].quantity, group[0].recipe) not in judged
    )


def title(criterion: Criterion, texts: Texts) -> str:
    """The name of what a criterion judges: quantity, and the statistic over subjects where there is one."""
    name = texts.quantity(criterion.quantity)
    if criterion.op is Op.SPREAD_AT_MOST:
        return texts.say(Message.of("report.spread", name=name))
    if criterion.over is not Over.EACH:
        statistic = texts.label(f"over.{criterion.over.value}")
        return texts.say(Message.of("report.over", name=name, statistic=statistic))
    return name


def counts_text(counts: Iterable[tuple[Verdict, int]], texts: Texts) -> str:
    """`2 fail · 5 pass` in the language of the texts."""
    return " · ".join(f"{count} {texts.label(f'verdict.{verdict.value}').lower()}" for verdict, count in counts)


def value_text(reading: Reading | None) -> str:
    """The value in its unit, or a dash."""
    return show(reading.value, reading.unit) if reading is not None else "–"


def interval_text(reading: Reading | None) -> str:
    """`low – high` in the unit, or nothing."""
    if reading is None or reading.low is None or reading.high is None:
        return ""
    return range_text(reading.low, reading.high, reading.unit)


def range_text(low: float, high: float, unit: str) -> str:
    """Two values with the unit once where both have the same: `762 – 771 TFLOP/s`."""
    left, right = show(low, unit), show(high, unit)
    number, _, name = left.rpartition(" ")
    return f"{number} – {right}" if name and name == right.rpartition(" ")[2] else f"{left} – {right}"


def bound_text(judgement: Judgement, texts: Texts) -> str:
    """The bound in words: `≥ 740 TFLOP/s`, `1 % – 2 %`, `uniform`."""
    op, bound, unit = judgement.criterion.op, judgement.bound, judgement.unit
    spread_unit = "1" if op in (Op.SPREAD_AT_MOST, Op.UNIFORM) else unit
    if op is Op.WITHIN and bound is not None and judgement.high is not None:
        return range_text(bound, judgement.high, unit)
    sign = {Op.AT_LEAST: "≥", Op.AT_MOST: "≤", Op.SPREAD_AT_MOST: "≤", Op.UNIFORM: "±"}.get(op)
    if sign and bound is not None:
        return f"{sign} {show(bound, spread_unit)}"
    return texts.label(f"op.{op.value}") if sign is None or op is Op.UNIFORM else "–"


def signed(frac: float | None) -> str:
    """A fraction as a percentage with its sign: `+2.5 %`, `−11.1 %`."""
    if frac is None:
        return "–"
    return f"{'−' if frac < 0 else '+'}{show(abs(frac), '1')}"
