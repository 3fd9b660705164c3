"""Fitting the few numbers of `Physics` on measured steps: robust Gauss–Newton on log errors, NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.predict.physics import Physics

Floats = NDArray[np.float64]

#: A log error beyond this counts linearly, not squared: some rows are slips of their sources.
HUBER = 0.04

#: How many rows' worth of evidence the prior of each number counts for.
PRIOR_ROWS = 20.0

#: The largest step of one number in one round, in log.
_STEP = 0.4

_DIFFERENCE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Rows to fit: `predict` gives seconds per row for a physics; `weights` are relative."""

    predict: Callable[[Physics], Floats]
    measured: Floats
    weights: Floats

    def residual(self, physics: Physics) -> Floats:
        """log(predicted / measured) of every row."""
        return np.asarray(np.log(self.predict(physics) / self.measured))

    def jacobian(self, physics: Physics, residual: Floats) -> Floats:
        """d residual / d log(number), by differences; shape (rows, numbers)."""
        vector = physics.vector()
        columns = []
        for at in range(len(vector)):
            moved = vector.copy()
            moved[at] *= np.exp(_DIFFERENCE)
            columns.append((self.residual(Physics.of(moved)) - residual) / _DIFFERENCE)
        return np.stack(columns, axis=1)


def fit(problem: Problem, *, start: Physics, prior: Physics | None = None, rounds: int = 5) -> Physics:
    """The physics closest to the rows and the prior (default: the record's defaults)."""
    origin = np.log((prior or Physics()).vector())
    theta = np.log(start.vector())
    base = problem.residual(start)
    best = _loss(base, problem.weights, theta - origin)
    for _ in range(rounds):
        jacobian = problem.jacobian(Physics.of(np.exp(theta)), base)
        step = _gauss_newton(jacobian, base, problem.weights, theta - origin)
        for shrink in (1.0, 0.5, 0.25, 0.1):
            trial = theta + shrink * step
            residual = problem.residual(Physics.of(np.exp(trial)))
            loss = _loss(residual, problem.weights, trial - origin)
            if loss < best:
                theta, base, best = trial, residual, loss
                break
        else:
            break
    return Physics.of(np.exp(theta))


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A problem linearised at one point, so that leaving rows out costs no new prediction."""

    at: Physics
    residual: Floats
    jacobian: Floats
    weights: Floats

    @classmethod
    def of(cls, problem: Problem, at: Physics) -> Linear:
        """The linearisation at `at`."""
        residual = problem.residual(at)
        return cls(at=at, residual=residual, jacobian=problem.jacobian(at, residual), weights=problem.weights)

    def without(self, left_out: NDArray[np.bool_], *, rounds: int = 8) -> Physics:
        """The fit on the other rows alone, by reweighted least squares on the linear model."""
        keep = np.where(left_out, 0.0, self.weights)
        origin = np.log(Physics().vector())
        start = np.log(self.at.vector())
        theta = start.copy()
        for _ in range(rounds):
            base = self.residual + self.jacobian @ (theta - start)
            theta = theta + _gauss_newton(self.jacobian, base, keep, theta - origin)
        return Physics.of(np.exp(np.clip(theta, start - 1.2, start + 1.2)))


def _pull(weights: Floats) -> Floats:
    """The prior on the numbers' logs as a matrix: as evidence of `PRIOR_ROWS` rows, one kind together."""
    rows = float((weights > 0).sum())
    # Without any row the prior alone decides.
    mean = float(weights.sum()) / rows if rows else 1.0
    return np.asarray(PRIOR_ROWS * mean * HUBER**2 * np.linalg.inv(Physics.covariance()), np.float64)


def _gauss_newton(jacobian: Floats, base: Floats, weights: Floats, away: Floats) -> Floats:
    pull = _pull(weights)
    robust = weights * HUBER / np.maximum(np.abs(base), HUBER)
    normal = jacobian.T @ (jacobian * robust[:, None]) + pull
    gradient = jacobian.T @ (base * robust) + pull @ away
    return np.clip(-np.linalg.solve(normal, gradient), -_STEP, _STEP)


def _loss(residual: Floats, weights: Floats, away: Floats) -> float:
    size = np.abs(residual)
    huber = np.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER))
    return float((weights * huber).sum() + 0.5 * away @ _pull(weights) @ away)
