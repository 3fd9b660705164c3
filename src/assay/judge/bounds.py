"""How each operator turns a family of readings into judgements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.criterion import Criterion, Op, Over, Rule
from assay.domain.message import Message, MessageValue
from assay.domain.quantity import Better
from assay.domain.reading import ABSENT, Reading
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Judgement, Verdict
from assay.judge.doubt import Doubt, Flags
from assay.judge.families import Family
from assay.stats import (
    Estimates,
    Floats,
    estimate_family,
    expected_range,
    restarts_to_decide,
    studentized_range_quantile,
)

Bounds = Sequence[tuple[float, float | None]]


def judge_each(criterion: Criterion, family: Family, bounds: Bounds, doubt: Doubt) -> list[Judgement]:
    """Every subject against its bound; the family as a whole keeps the error rate."""
    estimates = _with_repeatability(criterion, _require(family.estimates))
    lower = np.array([b for b, _ in bounds])
    upper = np.array([math.nan if u is None else u for _, u in bounds])
    good, bad = _sides(criterion.op, family.values, estimates, lower, upper, doubt)
    readings = _shown(family, estimates)
    return [
        _judgement(criterion, family, reading, bool(good[i]), bool(bad[i]), bounds[i], _sigma(estimates, i))
        for i, reading in enumerate(readings)
    ]


def judge_statistic(
    criterion: Criterion, family: Family, missing: dict[Subject, str], bounds: Bounds, doubt: Doubt
) -> list[Judgement]:
    """One figure over the subjects (their minimum, median, …), worked out in every restart."""
    if missing:
        return [_some_missing(criterion, family, missing)]
    table = family.by_restart()
    if not len(table):
        return [_some_missing(criterion, family, {})]
    values = _over_subjects(criterion.over, table)
    estimates = _with_repeatability(criterion, estimate_family([values]))
    bound, upper = bounds[0]
    good, bad = _sides(
        criterion.op,
        [values],
        estimates,
        np.array([bound]),
        np.array([math.nan if upper is None else upper]),
        doubt,
    )
    low, high = estimates.interval()
    reading = _cluster_reading(family, float(estimates.mean[0]), float(low[0]), float(high[0]), len(values))
    return [
        _judgement(
            criterion, family, reading, bool(good[0]), bool(bad[0]), (bound, upper), _sigma(estimates, 0)
        )
    ]


def _over_subjects(over: Over, table: Floats) -> Floats:
    """One value per restart from restarts × subjects."""
    if over is Over.MEDIAN:
        return np.asarray(np.median(table, axis=1))
    if over is Over.MEAN:
        return np.asarray(table.mean(axis=1))
    return np.asarray(table.min(axis=1) if over is Over.MIN else table.max(axis=1))


def judge_spread(criterion: Criterion, family: Family, missing: dict[Subject, str]) -> list[Judgement]:
    """(max−min)/median over the subjects' means.

    The noise of the means can widen or narrow their range by at most its own range, which stays under
    Tukey's studentized range: that bounds the true spread on both sides.
    """
    if missing or len(family.readings) < 2 or family.estimates is None:
        return [_some_missing(criterion, family, missing)]
    estimates = family.estimates
    median = float(np.median(estimates.mean))
    spread = float(estimates.mean.max() - estimates.mean.min()) / abs(median) if median else math.inf
    low = high = math.nan
    if np.all(estimates.df > 0):
        subjects, df = len(estimates.mean), float(estimates.df.min())
        error = float(np.sqrt(np.mean(estimates.standard_error**2))) / abs(median)
        noise = studentized_range_quantile(0.95, subjects, df) * error if error else 0.0
        low, high = max(0.0, spread - noise), spread + noise
    bound = criterion.bound or 0.0
    reading = dataclasses.replace(
        _cluster_reading(family, spread, low, high, int(estimates.n.min())), unit="1"
    )
    judgement = _judgement(
        criterion, family, reading, high <= bound, low > bound, (bound, None), 0.0, unit="1"
    )
    sigma_frac = (
        float(np.sqrt(np.mean((estimates.standard_error**2) * estimates.n))) / abs(median) if median else 0.0
    )
    chance = expected_range(len(estimates.mean)) * sigma_frac / math.sqrt(float(estimates.n.mean()))
    return [_add(judgement, chance_frac=None if math.isnan(chance) else chance, subjects=len(estimates.mean))]


def judge_uniform(
    criterion: Criterion, family: Family, missing: dict[Subject, str], doubt: Doubt
) -> list[Judgement]:
    """No subject departs from its siblings by more than the bound and the noise; texts are all equal.

    The worst subject is named in the reason, all of them in the findings.
    """
    if missing or len(family.readings) < 2:
        return [_some_missing(criterion, family, missing)]
    if family.estimates is None:
        return [_judge_equal(criterion, family)]
    departures, bound = _departures(family), criterion.bound or 0.0
    bad, good = departures.shown_beyond(bound, doubt), departures.shown_within(bound, doubt)
    worst = int(np.argmax(np.where(bad, departures.size.mean + 1e9, departures.size.mean)))
    low, high = departures.size.interval()
    reading = _cluster_reading(
        family,
        float(departures.size.mean[worst]),
        float(np.maximum(low[worst], 0.0)),
        float(high[worst]),
        int(departures.size.n[worst]),
    )
    judgement = _judgement(
        criterion,
        family,
        dataclasses.replace(reading, unit="1"),
        bool(good.all()),
        bool(bad.any()),
        (bound, None),
        _sigma(departures.size, worst),
        unit="1",
    )
    return [
        _add(
            judgement,
            subject=str(family.subjects[worst]),
            deviation_frac=float(departures.signed[worst]),
            subjects=len(family.readings),
        )
    ]


def odd_ones(family: Family, bound: float, doubt: Doubt) -> list[tuple[Subject, float]]:
    """Subjects shown to depart from their siblings by more than `bound`, with their signed departure."""
    if family.estimates is None or len(family.readings) < 2:
        return []
    departures = _departures(family)
    odd = np.flatnonzero(departures.shown_beyond(bound, doubt))
    return [(family.subjects[i], float(departures.signed[i])) for i in odd]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Departures:
    """How far each subject lies from its siblings, as fractions: with sign, and their size with its doubt."""

    signed: Floats
    size: Estimates
    values: tuple[Floats, ...]

    def shown_beyond(self, bound: float, doubt: Doubt) -> Flags:
        """Subjects shown to depart by more than `bound`."""
        return doubt.shown_above(self.values, self.size, np.full(len(self.signed), bound))

    def shown_within(self, bound: float, doubt: Doubt) -> Flags:
        """Subjects shown to depart by less."""
        return doubt.shown_below(self.values, self.size, np.full(len(self.signed), bound))


def _departures(family: Family) -> _Departures:
    """Departures restart by restart, so that what slows all subjects of a restart alike cancels.

    Siblings are represented by their median; of two, by the one that is better on average. Where the
    subjects do not share two restarts, each is held against the siblings' mean over all of theirs.
    """
    mean = _require(family.estimates).mean
    table = family.by_restart()
    better_of_two = int(np.argmin(mean) if family.quantity.better is Better.LOWER else np.argmax(mean))
    if len(table) < 2:
        reference = mean[better_of_two] if len(mean) == 2 else np.median(mean)
        relative = tuple(values / reference for values in family.values)
    else:
        references = table[:, better_of_two] if len(mean) == 2 else np.median(table, axis=1)
        relative = tuple((table / references[:, None]).T)
    estimates = estimate_family(relative)
    signed = estimates.mean - 1
    size = Estimates(np.abs(signed), estimates.standard_error, estimates.df, estimates.n)
    values = tuple(sign * (r - 1) for sign, r in zip(np.sign(signed), relative, strict=True))
    return _Departures(signed=signed, size=size, values=values)


def judge_present(criterion: Criterion, family: Family) -> list[Judgement]:
    """Every subject that was looked at has the thing."""
    judgements = []
    for reading in family.readings:
        absent = reading.value == ABSENT
        judgements.append(
            Judgement(
                criterion=criterion,
                subject=reading.subject,
                verdict=Verdict.FAIL if absent else Verdict.PASS,
                reason=Message.of(
                    f"reason.{'fail' if absent else 'pass'}.present", value=reading.value, unit="text"
                ),
                recipe=family.recipe,
                unit=family.quantity.unit,
                measured=reading,
            )
        )
    return judgements


def _judge_equal(criterion: Criterion, family: Family) -> Judgement:
    words = sorted({str(reading.value) for reading in family.readings})
    same = len(words) == 1
    return Judgement(
        criterion=criterion,
        subject=CLUSTER,
        verdict=Verdict.PASS if same else Verdict.FAIL,
        reason=Message.of("reason.pass.same" if same else "reason.fail.differs", text=", ".join(words[:6])),
        recipe=family.recipe,
        unit="text",
        measured=dataclasses.replace(
            family.readings[0], subject=CLUSTER, value=" / ".join(words[:6]), n=len(family.readings)
        ),
    )


def _sides(
    op: Op, values: Sequence[Floats], estimates: Estimates, lower: Floats, upper: Floats, doubt: Doubt
) -> tuple[Flags, Flags]:
    """Which subjects are shown to be on the good side of their bound, and which on the bad side.

    A value that has no noise and lies exactly on the bound keeps it.
    """
    exact = estimates.standard_error == 0
    below, above = (doubt.shown_below(values, estimates, lower), doubt.shown_above(values, estimates, lower))
    if op is Op.AT_LEAST:
        return above | (exact & (estimates.mean >= lower)), below
    if op is Op.AT_MOST:
        return below | (exact & (estimates.mean <= lower)), above
    over = doubt.shown_above(values, estimates, upper)
    under_upper = doubt.shown_below(values, estimates, upper)
    inside = exact & (estimates.mean >= lower) & (estimates.mean <= upper)
    return (above & under_upper) | inside, below | over


def _judgement(
    criterion: Criterion,
    family: Family,
    reading: Reading,
    good: bool,
    bad: bool,
    bounds: tuple[float, float | None],
    sigma: float | None,
    *,
    unit: str | None = None,
) -> Judgement:
    """The verdict for one subject, by the criterion's decision rule."""
    unit = unit or family.quantity.unit
    bound, upper = bounds
    values: dict[str, MessageValue] = {
        "value": reading.number,
        "low": reading.low,
        "high": reading.high,
        "bound": bound,
        "upper": upper,
        "unit": unit,
        "restarts": reading.n,
    }
    more = None
    if good or bad:
        verdict = Verdict.FAIL if bad else Verdict.PASS
        code = f"reason.{verdict.value}.{criterion.op.value}"
    else:
        verdict, code = _in_doubt(
            criterion.rule, has_interval=reading.low is not None or criterion.op is Op.UNIFORM
        )
        more = _more_restarts(reading, bounds, sigma)
        values["more_restarts"] = more
    return Judgement(
        criterion=criterion,
        subject=reading.subject,
        verdict=verdict,
        reason=Message(code, tuple(values.items())),
        recipe=family.recipe,
        unit=unit,
        bound=bound,
        high=upper,
        measured=reading,
        more_restarts=more,
    )


def _in_doubt(rule: Rule, *, has_interval: bool) -> tuple[Verdict, str]:
    if rule is Rule.GUARDED_BUYER and has_interval:
        return Verdict.FAIL, "reason.fail.doubt_buyer"
    if rule is Rule.GUARDED_VENDOR and has_interval:
        return Verdict.PASS, "reason.pass.doubt_vendor"
    return (
        Verdict.UNDECIDED,
        "reason.undecided.straddles" if has_interval else "reason.undecided.single_restart",
    )


def _more_restarts(reading: Reading, bounds: tuple[float, float | None], sigma: float | None) -> int | None:
    if not sigma or reading.number is None or not reading.n:
        return None
    nearest = min((b for b in bounds if b is not None), key=lambda b: abs(b - (reading.number or 0.0)))
    return restarts_to_decide(reading.number, sigma, nearest, reading.n)


def _some_missing(criterion: Criterion, family: Family, missing: dict[Subject, str]) -> Judgement:
    reason = (
        Message.of(
            "reason.not_measured.some_missing",
            missing=", ".join(f"{s} ({why})" for s, why in list(missing.items())[:4]),
        )
        if missing
        else Message.of("reason.not_measured.too_few_subjects", subjects=len(family.readings))
    )
    return Judgement(
        criterion=criterion,
        subject=CLUSTER,
        verdict=Verdict.NOT_MEASURED,
        reason=reason,
        recipe=family.recipe,
        unit=family.quantity.unit,
        bound=criterion.bound,
        high=criterion.high,
    )


def _with_repeatability(criterion: Criterion, estimates: Estimates) -> Estimates:
    """Give single restarts the noise between restarts that the criterion states, where it does."""
    if criterion.repeatability_frac is None:
        return estimates
    single = estimates.df == 0
    error = np.where(single, np.abs(estimates.mean) * criterion.repeatability_frac, estimates.standard_error)
    return Estimates(estimates.mean, error, np.where(single, np.inf, estimates.df), estimates.n)


def _shown(family: Family, estimates: Estimates) -> tuple[Reading, ...]:
    """The family's readings with the intervals that were used."""
    if estimates is family.estimates:
        return family.readings
    low, high = estimates.interval()
    return tuple(
        dataclasses.replace(r, low=_number(low[i]), high=_number(high[i]))
        for i, r in enumerate(family.readings)
    )


def _cluster_reading(family: Family, value: float, low: float, high: float, n: int) -> Reading:
    return dataclasses.replace(
        family.readings[0],
        subject=CLUSTER,
        value=value,
        low=_number(low),
        high=_number(high),
        n=n,
        cpu_share_frac=None,
        samples=None,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _sigma(estimates: Estimates, i: int) -> float | None:
    sigma = float(estimates.standard_error[i]) * math.sqrt(float(estimates.n[i]))
    return None if math.isnan(sigma) else sigma


def _require(estimates: Estimates | None) -> Estimates:
    if estimates is None:
        raise ValueError("a family of texts has no estimates")
    return estimates


def _add(judgement: Judgement, **values: MessageValue) -> Judgement:
    reason = Message(judgement.reason.code, (*judgement.reason.values, *values.items()))
    return dataclasses.replace(judgement, reason=reason)
