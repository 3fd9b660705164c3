"""The outcome of holding readings against criteria."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assay.domain.criterion import Criterion
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.reading import Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED


class Verdict(str, Enum):
    """Pass, fail, undecided, or not measured; what is missing is never a pass."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not_measured"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 undecided or not measured."""
        return {Verdict.PASS: EXIT_OK, Verdict.FAIL: EXIT_NO}.get(self, EXIT_UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One criterion about one subject: the verdict, its reason, and the three values side by side.

    `bound` and `high` are the bounds applied, in the base unit of the criterion, after a relative bound
    was worked out. `recipe` is that of the measured reading where there is one, else the one asked for.
    `more_restarts` says how many more process restarts would probably decide, where that can be told.
    """

    criterion: Criterion
    subject: Subject
    verdict: Verdict
    reason: Message
    recipe: Recipe
    unit: str
    bound: float | None = None
    high: float | None = None
    claimed: Reading | None = None
    predicted: Reading | None = None
    measured: Reading | None = None
    more_restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A run judged by a profile. `verdict` follows from the judgements, by `overall`."""

    profile: str
    judgements: tuple[Judgement, ...]
    findings: tuple[Finding, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    notes: tuple[Message, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The overall verdict."""
        return overall((j.verdict, j.criterion.required) for j in self.judgements)


def overall(judged: Iterable[tuple[Verdict, bool]]) -> Verdict:
    """Any fail fails; else a required undecided, then a required not measured, decides; else pass.

    Takes (verdict, required) pairs. With nothing judged at all the answer is not measured.
    """
    every = list(judged)
    if any(verdict is Verdict.FAIL for verdict, _ in every):
        return Verdict.FAIL
    required = {verdict for verdict, is_required in every if is_required}
    for open_verdict in (Verdict.UNDECIDED, Verdict.NOT_MEASURED):
        if open_verdict in required:
            return open_verdict
    return Verdict.PASS if any(v is Verdict.PASS for v, _ in every) else Verdict.NOT_MEASURED
