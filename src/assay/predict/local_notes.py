"""Where the training benchmark's predicted and measured times differ, term by term."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.predict.local import COMPUTING, TrainingStep, training_steps


def step_notes(readings: Sequence[Reading]) -> Iterator[Message]:
    """For every size that was trained, the terms predicted beside what was measured of them.

    A step without communication tells what computing takes, and the rest of the whole step is the gradients.
    """
    for step in training_steps(readings):
        measured_s = _mean(readings, "training.step_time", step.recipe)
        if measured_s is None:
            continue
        exposed_frac = _mean(readings, "training.exposed_communication", step.recipe)
        computing = {name: value for name, value in step.terms_s.items() if name in COMPUTING}
        yield _note("note.step_computing", step, computing, measured_s * (1 - (exposed_frac or 0.0)))
        if exposed_frac is not None:
            gradients = {name: value for name, value in step.terms_s.items() if name not in COMPUTING}
            yield _note("note.step_gradients", step, gradients, measured_s * exposed_frac)


def _note(code: str, step: TrainingStep, terms_s: dict[str, float], measured_s: float) -> Message:
    ranks, predicted_s = step.recipe.get("ranks"), sum(terms_s.values())
    said: dict[str, float] = {f"{name}_s": value for name, value in terms_s.items()}
    return Message.of(code, ranks=ranks, predicted_s=predicted_s, measured_s=measured_s, **said)


def _mean(readings: Sequence[Reading], quantity: str, recipe: Recipe) -> float | None:
    found = [
        r.number
        for r in readings
        if r.quantity == quantity and r.recipe == recipe and r.origin is Origin.MEASURED
    ]
    values = [value for value in found if value is not None]
    return fmean(values) if values else None
