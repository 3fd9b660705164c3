"""What a report says, worked out from its data: no layout, no colour, no words beyond the catalogue's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.catalog.messages import Texts
from assay.catalog.quantities import quantity
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
    """One criterion with its judgements, worst first. `verdict` is that of the worst.

    `apart` is what tells its recipe from those of the criteria about the same quantity.
    """

    criterion: Criterion
    judgements: tuple[Judgement, ...]
    apart: str = ""

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
class Summary:
    """Measured values of one quantity and recipe over all subjects, where no criterion asks for them."""

    quantity: str
    recipe: Recipe
    unit: str
    readings: tuple[Reading, ...]
    predicted: Reading | None = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values that are numbers."""
        return tuple(r.number for r in self.readings if r.number is not None)

    @property
    def median(self) -> float | None:
        """The median of those numbers."""
        return float(np.median(self.numbers)) if self.numbers else None


def count_verdicts(judgements: Iterable[Judgement]) -> tuple[tuple[Verdict, int], ...]:
    """(verdict, count) for each verdict that occurs, worst first."""
    found = [j.verdict for j in judgements]
    return tuple((v, found.count(v)) for v in ORDER if v in found)


def criteria(data: ReportData) -> tuple[CriterionView, ...]:
    """The criteria, worst first, then in the profile's order; their subjects likewise."""
    groups: dict[Criterion, list[Judgement]] = defaultdict(list)
    for judgement in data.assessment.judgements:
        groups[judgement.criterion].append(judgement)
    recipes: dict[tuple[str, Op, Over], set[Recipe]] = defaultdict(set)
    for group in groups.values():
        recipes[_about(group[0].criterion)].add(group[0].criterion.recipe)
    views = [
        CriterionView(
            criterion=group[0].criterion,
            judgements=tuple(sorted(group, key=_worst_first)),
            apart=apart(group[0].criterion.recipe, recipes[_about(group[0].criterion)]),
        )
        for group in groups.values()
    ]
    return tuple(sorted(views, key=lambda view: (ORDER.index(view.verdict), not view.criterion.required)))


def _about(criterion: Criterion) -> tuple[str, Op, Over]:
    return criterion.quantity, criterion.op, criterion.over


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


def unmeasured(data: ReportData) -> tuple[tuple[CriterionView, Judgement], ...]:
    """Criteria with a subject that was not measured, where that does not decide the verdict anyway."""
    if data.assessment.verdict is Verdict.NOT_MEASURED:
        return ()
    return tuple(
        (each, judgement)
        for each in criteria(data)
        for judgement in each.judgements
        if judgement.verdict is Verdict.NOT_MEASURED
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


def better(quantity_id: str) -> Better:
    """The good direction of a quantity; neither where the catalogue does not know it."""
    try:
        return quantity(quantity_id).better
    except UnknownNameError:
        return Better.NEITHER


def unjudged(data: ReportData) -> tuple[Summary, ...]:
    """Measured numbers that no criterion asks for, in the order of the run; texts are in the environment."""
    judged = {(j.measured.quantity, j.measured.recipe) for j in data.assessment.judgements if j.measured}
    predicted = {(r.quantity, r.recipe): r for r in data.readings if r.origin is Origin.PREDICTED}
    return tuple(
        Summary(
            quantity=group[0].quantity,
            recipe=group[0].recipe,
            unit=group[0].unit,
            readings=group,
            predicted=predicted.get((group[0].quantity, group[0].recipe)),
        )
        for group in by_recipe(r for r in data.readings if r.origin is Origin.MEASURED)
        if (group[0].quantity, group[0].recipe) not in judged and group[0].unit != "text"
    )


def title(criterion: Criterion, texts: Texts) -> str:
    """The name of what a criterion judges: quantity, and the statistic over subjects where there is one."""
    name = texts.quantity(criterion.quantity)
    if criterion.op is Op.SPREAD_AT_MOST:
        return texts.say(Message.of("report.spread", name=name))
    if criterion.op is Op.UNIFORM:
        return texts.say(
            Message.of("report.alike" if criterion.bound is None else "report.departure", name=name)
        )
    if criterion.over is not Over.EACH:
        statistic = texts.label(f"over.{criterion.over.value}")
        return texts.say(Message.of("report.over", name=name, statistic=statistic))
    return name


def counts_text(counts: Iterable[tuple[Verdict, int]], texts: Texts) -> str:
    """`2 fail · 5 pass` in the language of the texts."""
    return " · ".join(
        f"{count} {texts.label(f'verdict.{verdict.value}').lower()}" for verdict, count in counts
    )


def apart(recipe: Recipe, others: Iterable[Recipe]) -> str:
    """What tells this recipe from the `others` of its quantity: `bytes 16 MiB, ranks 2`; else nothing."""
    every = [dict(other.items) for other in others]
    telling = [
        (name, value) for name, value in recipe.items if any(other.get(name) != value for other in every)
    ]
    return ", ".join(
        f"{name} {show(value, 'B') if name == 'bytes' and not isinstance(value, str) else value}"
        for name, value in telling
    )


def folded(summaries: Sequence[Summary], *, sizes_above: int = 4) -> tuple[Summary, ...]:
    """Without the middle of long message-size sweeps, which a picture shows: the largest size remains."""
    sweeps: dict[tuple[str, Recipe], list[Summary]] = defaultdict(list)
    for summary in summaries:
        sweeps[summary.quantity, summary.recipe.without(("bytes",))].append(summary)
    kept: list[Summary] = []
    for sweep in sweeps.values():
        sweep.sort(key=lambda s: _size(s.recipe))
        kept += sweep[-1:] if len(sweep) > sizes_above else sweep
    return tuple(kept)


def _size(recipe: Recipe) -> float:
    size = recipe.get("bytes")
    return float(size) if isinstance(size, int | float) else 0.0


def value_text(reading: Reading | None) -> str:
    """The value in its unit, or a dash."""
    return show(reading.value, reading.unit) if reading is not None else "–"


def interval_text(reading: Reading | None) -> str:
    """`low – high` in the unit, or nothing."""
    if reading is None or reading.low is None or reading.high is None or reading.low == reading.high:
        return ""
    return range_text(reading.low, reading.high, reading.unit)


def range_text(low: float, high: float, unit: str) -> str:
    """Two values with the unit once where both have the same: `762 – 771 TFLOP/s`, `± 1 ms`."""
    if low == -high:
        return f"± {show(high, unit)}"
    left, right = show(low, unit), show(high, unit)
    number, _, name = left.rpartition(" ")
    return f"{number} – {right}" if name and name == right.rpartition(" ")[2] else f"{left} – {right}"


def bound_text(judgement: Judgement, texts: Texts) -> str:
    """The bound in words: `≥ 740 TFLOP/s`, `1 % – 2 %`, `present`."""
    op, bound, unit = judgement.criterion.op, judgement.bound, judgement.unit
    spread_unit = "1" if op in (Op.SPREAD_AT_MOST, Op.UNIFORM) else unit
    if op is Op.WITHIN and bound is not None and judgement.high is not None:
        return range_text(bound, judgement.high, unit)
    if bound is None:
        return texts.label(f"op.{op.value}") if op in (Op.UNIFORM, Op.PRESENT) else "–"
    return f"{'≥' if op is Op.AT_LEAST else '≤'} {show(bound, spread_unit)}"


def signed(frac: float | None) -> str:
    """A fraction as a percentage with its sign: `+2.5 %`, `−11.1 %`."""
    if frac is None:
        return "–"
    return f"{'−' if frac < 0 else '+'}{show(abs(frac), '1')}"
