"""Rows of measured against predicted, and their errors by group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One measured row. `low` and `high` are the 80 % interval; `skipped` is why there is no prediction."""

    id: str
    file: str
    line: int
    groups: tuple[str, ...]
    unit: str
    measured: float | None
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    skipped: str | None = None
    assumed: tuple[str, ...] = ()

    @property
    def error_frac(self) -> float | None:
        """predicted / measured − 1."""
        if self.measured is None or self.predicted is None:
            return None
        return self.predicted / self.measured - 1

    @property
    def covered(self) -> bool | None:
        """Whether the interval holds the measured value."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScore:
    """Errors of one group; None where no row of it was predicted."""

    n: int
    skipped: int
    median_abs_error_frac: float | None
    p90_abs_error_frac: float | None
    bias_frac: float | None
    coverage_frac: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Scored rows, groups in order, and the numbers that were fitted (name → value) for this scoring."""

    rows: tuple[ScoredRow, ...]
    groups: dict[str, GroupScore]
    cross: str | None = None
    fitted: dict[str, dict[str, float]] | None = None


def group_scores(rows: Sequence[ScoredRow], order: Iterable[str] = ()) -> dict[str, GroupScore]:
    """Scores of every group that a row names, those of `order` first."""
    named = {name for row in rows for name in row.groups}
    first = [name for name in order if name in named]
    return {
        name: _score([r for r in rows if name in r.groups]) for name in (*first, *sorted(named - set(first)))
    }


def _score(rows: Sequence[ScoredRow]) -> GroupScore:
    errors = np.array([row.error_frac for row in rows if row.error_frac is not None])
    covered = [row.covered for row in rows if row.covered is not None]
    none = not errors.size
    return GroupScore(
        n=int(errors.size),
        skipped=sum(row.skipped is not None for row in rows),
        median_abs_error_frac=None if none else float(np.median(np.abs(errors))),
        p90_abs_error_frac=None if none else float(np.quantile(np.abs(errors), 0.9)),
        bias_frac=None if none else float(np.median(errors)),
        coverage_frac=float(np.mean(covered)) if covered else None,
    )
