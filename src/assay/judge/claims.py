"""Promises against measurements and physics: what falls short, by how much, and what nothing can keep.

A promise about the cluster is held against its worst subject. One that leaves its recipe open may mean any
recipe that fits and gets the one that favours it most, so that falling short is never a matter of reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.catalog.devices import gpu_by_nvml_name, gpus
from assay.domain.device import Gpu
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.quantity import Better, Quantity
from assay.domain.reading import ABSENT, Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER
from assay.judge.families import QuantityOf
from assay.judge.lint import Ceiling, ceiling_of
from assay.stats import student_t_quantile
from assay.units import show

#: Families of subjects as a whole keep this error rate, two-sided.
_ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One promise beside what was measured.

    `measured` is the worst subject's reading under the recipe that favours the promise most, of `subjects`
    that have one; `median` is theirs. `overstated_frac` is claimed/measured − 1, or measured/claimed − 1
    where less is better: positive where the promise is broken, None where the two are no numbers. `shown`
    says that the worst subject's interval, widened for the choice among all subjects, leaves the promise
    out. `unstated` are the recipe parameters that the promise should state and does not; `refused` says why
    nothing is compared. `ceiling` is what the devices can do at most, and `device` their name.
    """

    claimed: Reading
    measured: Reading | None = None
    median: float | None = None
    subjects: int = 0
    predicted: Reading | None = None
    datasheet: Reading | None = None
    overstated_frac: float | None = None
    shown: bool = False
    unstated: tuple[str, ...] = ()
    refused: Message | None = None
    ceiling: Ceiling | None = None
    device: str = ""

    @property
    def is_impossible(self) -> bool:
        """Whether the promise exceeds what the devices can do."""
        claimed = self.claimed.number
        return self.ceiling is not None and claimed is not None and claimed > self.ceiling.value * 1.000001


def shortfalls(
    claims: Iterable[Reading],
    measured: Iterable[Reading],
    others: Iterable[Reading],
    quantity_of: QuantityOf,
) -> tuple[Shortfall, ...]:
    """Every claim beside the measured readings, the most overstated first.

    `measured` are aggregated over restarts; `others` are datasheet and predicted readings. Recipes that
    conflict are never compared: the claim then says what differs.
    """
    promised = tuple(claims)
    by_quantity: dict[str, list[Reading]] = defaultdict(list)
    for reading in measured:
        by_quantity[reading.quantity].append(reading)
    beside = tuple(others)
    devices = _devices(by_quantity.get("gpu.name", ()), promised)
    rows = [
        _shortfall(claim, by_quantity.get(claim.quantity, ()), beside, quantity_of(claim.quantity), devices)
        for claim in promised
    ]
    return tuple(sorted(rows, key=lambda row: (row.overstated_frac is None, -(row.overstated_frac or 0.0))))


def claim_findings(rows: Iterable[Shortfall]) -> tuple[Finding, ...]:
    """Promises that are shown to be broken, and promises that no device of the kind can keep."""
    found = []
    for row in rows:
        if row.is_impossible and row.ceiling is not None:
            found.append(_impossible(row, row.ceiling))
        if row.shown:
            found.append(_overstated(row))
    return tuple(found)


def _shortfall(
    claim: Reading,
    measured: Sequence[Reading],
    others: Sequence[Reading],
    quantity: Quantity,
    devices: Sequence[Gpu],
) -> Shortfall:
    own = [r for r in measured if claim.subject in (CLUSTER, r.subject)]
    valued = [r for r in own if r.value is not None]
    fitting = [r for r in valued if not r.recipe.lacks(claim.recipe)]
    group = _favourable(fitting, quantity)
    worst = _worst(group, claim, quantity)
    highest = max(_ceilings(claim, quantity, devices), key=lambda found: found[0].value, default=None)
    numbers = [r.number for r in group if r.number is not None]
    return Shortfall(
        claimed=claim,
        measured=worst,
        median=float(np.median(numbers)) if numbers else None,
        subjects=len(group),
        predicted=_beside(claim, worst, others, Origin.PREDICTED),
        datasheet=_beside(claim, worst, others, Origin.DATASHEET),
        overstated_frac=None if worst is None else _overstated_frac(claim, worst, quantity),
        shown=worst is not None and _is_shown(claim, worst, len(group), quantity),
        unstated=quantity.unstated(claim.recipe),
        refused=None if worst is not None else _why_nothing(claim, own, valued),
        ceiling=highest[0] if highest else None,
        device=highest[1].name if highest else "",
    )


def _favourable(fitting: Sequence[Reading], quantity: Quantity) -> list[Reading]:
    """The readings of one recipe: of those that fit the claim, the one with the best median."""
    groups: dict[Recipe, list[Reading]] = defaultdict(list)
    for reading in fitting:
        groups[reading.recipe].append(reading)
    sign = 1.0 if quantity.better is Better.HIGHER else -1.0

    def merit(group: list[Reading]) -> float:
        numbers = [_magnitude(r, quantity) for r in group if r.number is not None]
        return sign * float(np.median(numbers)) if numbers else 0.0

    return max(groups.values(), key=merit, default=[])


def _worst(group: Sequence[Reading], claim: Reading, quantity: Quantity) -> Reading | None:
    """The subject that keeps the promise least; of texts, one that does not say what was promised."""
    if quantity.unit == "text" or _is_identity(quantity):
        return min(group, key=lambda r: _is_kept(claim, r), default=None)
    sign = 1.0 if quantity.better is Better.HIGHER else -1.0
    return min(group, key=lambda r: sign * _magnitude(r, quantity), default=None)


def _is_identity(quantity: Quantity) -> bool:
    """Whether it is a name or a count, which is as promised or is not, rather than better or worse."""
    return quantity.exact and quantity.better is Better.NEITHER


def _is_kept(claim: Reading, found: Reading) -> bool:
    """Whether a name, version or count is what was promised: a version may be told more exactly."""
    if claim.number is not None or found.number is not None:
        return claim.number == found.number
    promised, said = str(claim.value).strip().lower(), str(found.value).strip().lower()
    if said == ABSENT:
        return promised == ABSENT
    if promised in ("present", "yes") or promised in said:
        return True
    device = gpu_by_nvml_name(said) if claim.quantity == "gpu.name" else None
    return device is not None and promised in (device.id, *device.aliases, device.name.lower())


def _magnitude(reading: Reading, quantity: Quantity) -> float:
    """What is better or worse: of an offset or drift its size, whatever its sign."""
    value = reading.number or 0.0
    return abs(value) if quantity.better is Better.NEITHER else value


def _overstated_frac(claim: Reading, worst: Reading, quantity: Quantity) -> float | None:
    if claim.number is None or worst.number is None or _is_identity(quantity):
        return None
    promised, found = _magnitude(claim, quantity), _magnitude(worst, quantity)
    over, under = (promised, found) if quantity.better is Better.HIGHER else (found, promised)
    return over / under - 1 if under else None


def _is_shown(claim: Reading, worst: Reading, subjects: int, quantity: Quantity) -> bool:
    """Whether the measurement leaves the promise out; a single restart without an interval shows nothing."""
    if quantity.unit == "text" or _is_identity(quantity):
        return not _is_kept(claim, worst)
    if claim.number is None or worst.number is None:
        return False
    promised, found = _magnitude(claim, quantity), _magnitude(worst, quantity)
    half = 0.0 if quantity.exact else _half_width(worst, subjects)
    if half is None:
        return False
    return found + half < promised if quantity.better is Better.HIGHER else found - half > promised


def _half_width(worst: Reading, subjects: int) -> float | None:
    """Half the 95 % interval of the worst of so many subjects (Bonferroni), from its own at 95 %."""
    if worst.low is None or worst.high is None:
        return None
    df = float(worst.n - 1) if worst.n is not None and worst.n > 1 else float("inf")
    wider = student_t_quantile(1 - _ALPHA / 2 / subjects, df) / student_t_quantile(1 - _ALPHA / 2, df)
    return (worst.high - worst.low) / 2 * wider


def _why_nothing(claim: Reading, own: Sequence[Reading], valued: Sequence[Reading]) -> Message:
    """Unlike recipes, a reason on record, or nothing measured at all."""
    if valued:
        nearest = min((r.recipe for r in valued), key=lambda recipe: len(recipe.lacks(claim.recipe)))
        difference = "; ".join(map(str, nearest.lacks(claim.recipe)))
        return Message.of("reason.not_measured.recipe", difference=difference)
    for reading in own:
        return Message.of("reason.not_measured.reason", text=reading.reason)
    return Message.of("reason.not_measured.no_reading", quantity=claim.quantity)


def _beside(
    claim: Reading, worst: Reading | None, others: Sequence[Reading], origin: Origin
) -> Reading | None:
    """What is predicted, or on the datasheet, for the same thing by a recipe that does not conflict."""
    subjects = (claim.subject, CLUSTER) if worst is None else (claim.subject, CLUSTER, worst.subject)
    recipe = claim.recipe if worst is None else worst.recipe
    fitting = [
        r
        for r in others
        if r.origin is origin
        and r.quantity == claim.quantity
        and r.subject in subjects
        and not recipe.conflicts(r.recipe)
    ]
    return max(fitting, key=lambda r: (r.subject != CLUSTER, len(r.recipe.items)), default=None)


def _devices(found: Iterable[Reading], claims: Iterable[Reading]) -> tuple[Gpu, ...]:
    """The kinds of GPU that the drivers name, else those that are promised."""
    named = [gpu_by_nvml_name(str(r.value)) for r in found if r.value is not None]
    if not named:
        promised = {str(c.value).strip().lower() for c in claims if c.quantity == "gpu.name"}
        named = [gpu_by_nvml_name(text) for text in promised]
        named += [gpu for gpu in gpus() if promised & {gpu.id, *gpu.aliases, gpu.name.lower()}]
    return tuple({gpu.id: gpu for gpu in named if gpu is not None}.values())


def _ceilings(claim: Reading, quantity: Quantity, devices: Sequence[Gpu]) -> list[tuple[Ceiling, Gpu]]:
    if quantity.better is not Better.HIGHER or claim.number is None:
        return []
    found = [(ceiling_of(claim.quantity, claim.recipe, gpu), gpu) for gpu in devices]
    return [(ceiling, gpu) for ceiling, gpu in found if ceiling is not None]


def _impossible(row: Shortfall, ceiling: Ceiling) -> Finding:
    claim = row.claimed
    return Finding(
        code="CLAIM_IMPOSSIBLE",
        severity=Severity.HIGH,
        subject=claim.subject,
        because=Message.of(
            "because.claim_impossible",
            quantity=claim.quantity,
            value=claim.number,
            bound=ceiling.value,
            unit=claim.unit,
            device=row.device,
            arithmetic=ceiling.arithmetic,
        ),
        evidence=(_evidence(claim),),
    )


def _overstated(row: Shortfall) -> Finding:
    claim, worst = row.claimed, row.measured
    if worst is None:
        raise ValueError(f"{claim.quantity}: nothing was measured, so nothing is overstated")
    if row.overstated_frac is None:
        because = Message.of(
            "because.claim_differs", quantity=claim.quantity, promised=_said(claim), found=_said(worst)
        )
    else:
        because = Message.of(
            "because.claim_overstated",
            quantity=claim.quantity,
            subject=str(worst.subject),
            value=worst.number,
            low=worst.low,
            high=worst.high,
            restarts=worst.n,
            bound=claim.number,
            unit=claim.unit,
            overstated_frac=row.overstated_frac,
        )
    return Finding(
        code="CLAIM_OVERSTATED",
        severity=Severity.MEDIUM,
        subject=worst.subject,
        because=because,
        evidence=(_evidence(claim), _evidence(worst)),
        follows_from="CLAIM_IMPOSSIBLE" if row.is_impossible else None,
    )


def _said(reading: Reading) -> str:
    return show(reading.value, reading.unit)


def _evidence(reading: Reading) -> Evidence:
    about = f"{reading.quantity} of {reading.subject} ({reading.recipe})"
    return Evidence.at(reading.source, f"{about}: {_said(reading)} {reading.origin.value}")
