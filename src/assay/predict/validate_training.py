"""Scoring the predictor on published training runs, plainly or with each source left out of the fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from assay.domain.score import ScoredRow, Validation, group_scores
from assay.domain.workload import Transformer
from assay.errors import InputError
from assay.predict.doubt import class_of, width
from assay.predict.fitting import Linear, Problem, fit
from assay.predict.memory import memory
from assay.predict.network import LinkNetwork
from assay.predict.physics import FITTED, Physics
from assay.predict.published import Marginal, link_network, marginal, measured_s
from assay.predict.published_shapes import SHAPE_GUESSED
from assay.predict.published_systems import groups_of
from assay.predict.situation import Columns, columns
from assay.predict.step import step_times
from assay.predict.tables import TableRow

Floats = NDArray[np.float64]

#: Published runs are tuned: a setting that a row leaves unsaid is this power of its speed more likely.
TUNED = 4.0

#: Rows of a class on which each number is tried, and the change of a step that counts as none.
_SAMPLE = 24
_STILL = 1e-4

#: Columns that a table of training runs must have; more are read where present.
NEEDS = ("id", "gpu_model", "gpus_total", "model_name", "global_batch_seqs", "seq_len", "precision")

GROUPS = (
    "selective-recompute table",
    "dense",
    "dense A100",
    "dense H100",
    "A100 multi-node table",
    "A100 single-node table",
    "FSDP/ZeRO",
    "MoE",
    "Blackwell dense",
    "2,048 GPUs and more",
    "fine-tuning",
    "recompute unknown",
    "confidence 1",
)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows that can be predicted, as columns of their situations.

    `of` maps a situation to its row, `shape` to a number for its row and model: settings are tuned for a
    model, but the model is what it is.
    """

    rows: tuple[TableRow, ...]
    marginals: tuple[Marginal, ...]
    measured: Floats
    columns: Columns
    network: LinkNetwork
    of: NDArray[np.int64]
    shape: NDArray[np.int64]
    weights: Floats

    def predict(self, physics: Physics) -> tuple[Floats, Floats]:
        """Seconds of each row, the weighted geometric mean of its situations, and their spread in log."""
        logs = np.log(step_times(self.columns, self.network, physics).time_s)
        count = len(self.rows)
        tuned = self.weights * np.exp(-TUNED * logs)
        share = np.bincount(self.shape, self.weights) / np.maximum(np.bincount(self.shape, tuned), 1e-300)
        chance = tuned * share[self.shape]
        mean = np.bincount(self.of, chance * logs, minlength=count)
        square = np.bincount(self.of, chance * (logs - mean[self.of]) ** 2, minlength=count)
        return np.exp(mean), np.sqrt(square)


def validate_training(rows: Sequence[TableRow], *, cross: str | None = None) -> Validation:
    """Predicted against measured step seconds of every row.

    `cross` = "source" scores each source with the numbers fitted on all others, "fit" with those fitted on
    all rows here; None uses the shipped fit. The selective-recompute table never takes part in a fit.
    """
    if cross not in (None, "source", "fit"):
        raise InputError(f"--cross {cross!r} is neither 'source' nor 'fit'")
    kept, skipped = _sort(rows)
    if kept is None:
        scored = skipped
        return Validation(rows=tuple(scored), groups=group_scores(scored, GROUPS), cross=cross)
    if cross is None:
        predicted, spread = kept.predict(FITTED)
        fitted = _by_class(kept, FITTED, "shipped")
    else:
        predicted, spread, fitted = _crossed(kept, by_source=cross == "source")
    scored = [*_scored(kept, predicted, spread), *skipped]
    scored.sort(key=lambda row: (row.file, row.line))
    return Validation(rows=tuple(scored), groups=group_scores(scored, GROUPS), cross=cross, fitted=fitted)


def source_of(row: TableRow) -> str:
    """The source a row belongs to: one document, whichever submitter or version it prints."""
    said = row.cells.get("source", "") or row.file
    return re.split(r"[(,\"]| v\d", said)[0].strip() or said


def _sort(rows: Sequence[TableRow]) -> tuple[_Kept | None, list[ScoredRow]]:
    found: list[TableRow] = []
    marginals: list[Marginal] = []
    measured: list[float] = []
    skipped: list[ScoredRow] = []
    for row in rows:
        value = measured_s(row.cells)
        try:
            if value is None or value <= 0:
                raise InputError("the row has neither a step time nor a rate")
            one = marginal(row.cells)
            columns(one.situations[:1])
        except InputError as error:
            skipped.append(_row(row, value, skipped=error.what))
            continue
        found.append(row)
        marginals.append(one)
        measured.append(value)
    return (_kept(found, marginals, measured) if found else None), skipped


def _kept(rows: list[TableRow], marginals: list[Marginal], measured: list[float]) -> _Kept:
    situations = [one for m in marginals for one in m.situations]
    of = np.repeat(np.arange(len(rows)), [len(m.situations) for m in marginals])
    all_columns = columns(situations)
    chance = np.array([w for m in marginals for w in m.weights])
    chance = chance * likely(all_columns)
    chance = chance / np.bincount(of, chance, minlength=len(rows))[of]
    return _Kept(
        rows=tuple(rows),
        marginals=tuple(marginals),
        measured=np.array(measured),
        columns=all_columns,
        network=link_network([m.wires for m in marginals for _ in m.situations]),
        of=of,
        shape=_shapes(of, [one.workload.model for one in situations]),
        weights=chance,
    )


def _shapes(of: NDArray[np.int64], models: Sequence[Transformer]) -> NDArray[np.int64]:
    numbers: dict[tuple[int, Transformer], int] = {}
    return np.array(
        [numbers.setdefault((int(row), m), len(numbers)) for row, m in zip(of, models, strict=True)], np.int64
    )


def likely(c: Columns) -> Floats:
    """How likely it is that a setting was run, from its memory alone: those that do not fit hardly were.

    The estimate of memory is itself good to some 8 %, and public runs hold tricks it does not know, so
    nothing is ruled out.
    """
    held = memory(c)
    over = held.total_bytes / held.capacity_bytes
    return np.maximum(np.exp(-np.maximum(over - 0.95, 0) / 0.08), 0.03)


def problem_of(rows: Sequence[TableRow]) -> Problem:
    """The rows that can be predicted, as a problem for `fitting.fit`."""
    kept, _ = _sort(rows)
    if kept is None:
        raise InputError("no row can be predicted, so nothing can be fitted")
    return _problem(kept)


def _problem(kept: _Kept) -> Problem:
    return Problem(
        predict=lambda physics: kept.predict(physics)[0],
        measured=kept.measured,
        weights=_fit_weights(kept),
    )


def _crossed(kept: _Kept, *, by_source: bool) -> tuple[Floats, Floats, dict[str, dict[str, float]]]:
    problem = _problem(kept)
    whole = fit(problem, start=FITTED)
    predicted, spread = kept.predict(whole)
    fitted = {"all rows": _numbers(whole)} | _by_class(kept, whole, "all rows")
    if not by_source:
        return predicted, spread, fitted
    linear = Linear.of(problem, whole)
    sources = np.array([source_of(row) for row in kept.rows])
    predicted = predicted.copy()
    for name in dict.fromkeys(sources.tolist()):
        out = sources == name
        physics = linear.without(out)
        predicted[out] = kept.predict(physics)[0][out]
        fitted[f"without {name}"] = _numbers(physics)
    return predicted, spread, fitted


def _fit_weights(kept: _Kept) -> Floats:
    """Rows of one family (source, GPU, precision, task) together count as the root of their number.

    A row whose model's shape is not stated says nothing about the numbers, and takes no part.
    """
    rows = kept.rows
    families = [
        (
            source_of(row),
            row.cells.get("gpu_model", "")[:5],
            row.cells.get("precision", "")[:3],
            row.cells.get("task", "")[:3],
            bool(row.cells.get("experts")),
        )
        for row in rows
    ]
    sizes = {family: families.count(family) for family in set(families)}
    weights = np.array([sizes[family] ** -0.5 for family in families])
    for at, row in enumerate(rows):
        groups = groups_of(row.cells)
        guessed = SHAPE_GUESSED in kept.marginals[at].assumed
        if guessed or "selective-recompute table" in groups or "confidence 1" in groups:
            weights[at] = 0.0
    return np.asarray(weights / max(float(weights.mean()), 1e-12))


def _scored(kept: _Kept, predicted: Floats, spread: Floats) -> list[ScoredRow]:
    found = []
    for at, row in enumerate(kept.rows):
        one = kept.marginals[at]
        half = width(one.situations[int(np.argmax(one.weights))], float(spread[at]))
        value = float(predicted[at])
        found.append(
            _row(
                row,
                float(kept.measured[at]),
                predicted=value,
                low=value * float(np.exp(-half)),
                high=value * float(np.exp(half)),
                assumed=one.assumed,
            )
        )
    return found


def _row(
    row: TableRow,
    measured: float | None,
    *,
    predicted: float | None = None,
    low: float | None = None,
    high: float | None = None,
    skipped: str | None = None,
    assumed: tuple[str, ...] = (),
) -> ScoredRow:
    return ScoredRow(
        id=row.cells.get("id", ""),
        file=row.file,
        line=row.line,
        groups=groups_of(row.cells),
        unit="s",
        measured=measured,
        predicted=predicted,
        low=low,
        high=high,
        skipped=skipped,
        assumed=assumed,
    )


def _by_class(kept: _Kept, physics: Physics, name: str) -> dict[str, dict[str, float]]:
    """For each class of run, beside the count of its rows, the numbers that move the steps of some."""
    firsts = [m.situations[int(np.argmax(m.weights))] for m in kept.marginals]
    kinds = [class_of(one) for one in firsts]
    found: dict[str, dict[str, float]] = {}
    for kind in sorted(set(kinds)):
        rows = [at for at, one in enumerate(kinds) if one == kind]
        some = rows[:: max(1, len(rows) // _SAMPLE)]
        c = columns([firsts[at] for at in some])
        network = link_network([kept.marginals[at].wires for at in some])
        base = step_times(c, network, physics).time_s
        numbers = _numbers(physics)
        for key, value in _numbers(physics).items():
            moved = step_times(c, network, replace(physics, **{key: 1.1 * value})).time_s
            if np.all(np.abs(moved / base - 1) < _STILL):
                del numbers[key]
        found[f"{name}, {kind} ({len(rows)} rows)"] = numbers
    return found


def _numbers(physics: Physics) -> dict[str, float]:
    return {entry.name: float(getattr(physics, entry.name)) for entry in fields(physics)}
