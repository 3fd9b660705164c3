"""A run's own training benchmark, predicted from its other readings: the circle on one machine.

No number is fitted to step time. A step is its parts, each measured by itself with all ranks at once (linear
layers, attention, pointwise, head, embedding, update), in proportion to their work; and the gradients: copied
into buckets and summed over the ranks while the backward pass goes on. Formulas: docs/models/circle.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject

_MODEL = re.compile(r"gpt-l(?P<layers>\d+)-h(?P<hidden>\d+)-a(?P<heads>\d+)-v(?P<vocabulary>\d+)")
#: Of a layer's time, what its backward pass takes: two products of three.
_BACKWARD_FRAC = 2 / 3
#: DistributedDataParallel sends off a bucket when it holds so many bytes: the first one early.
_BUCKETS_BYTES = (2**20, 25 * 2**20)
#: The range of a step over its value: on the one machine compared so far, 2 cores, single runs took 0.90 to
#: 1.23 times their prediction (docs/models/circle.md).
STEP_RANGE = (0.85, 1.25)
#: The range of the scaling efficiency: what is left out slows the larger group more (+8 % on that machine).
SCALING_RANGE = (0.85, 1.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One training step of one rank: its model and tokens."""

    layers: int
    hidden: int
    vocabulary: int
    sequence: int
    tokens: int

    @classmethod
    def of(cls, recipe: Recipe) -> Work | None:
        """The work of a recipe that names a model, a sequence and a batch; None where it does not."""
        match = _MODEL.fullmatch(str(recipe.get("model")))
        sequence, batch = recipe.get("sequence"), recipe.get("batch_per_rank")
        if match is None or not isinstance(sequence, int) or not isinstance(batch, int):
            return None
        sides = {name: int(match[name]) for name in ("layers", "hidden", "vocabulary")}
        return cls(**sides, sequence=sequence, tokens=batch * sequence)

    @property
    def parameters(self) -> int:
        """All weights: matrices, biases and norms (13·H) of each block, head, embeddings, the last norm."""
        tables = (2 * self.vocabulary + self.sequence) * self.hidden
        return self.layers * (12 * self.hidden**2 + 13 * self.hidden) + tables + 2 * self.hidden


#: Part of a step → what its time is proportional to.
_AMOUNT: Mapping[str, Callable[[Work], float]] = {
    "linear": lambda w: w.layers * w.hidden**2 * w.tokens,
    "attention": lambda w: w.layers * w.hidden * w.sequence * w.tokens,
    "pointwise": lambda w: w.layers * w.hidden * w.tokens,
    "head": lambda w: w.hidden * w.vocabulary * w.tokens,
    "embedding": lambda w: w.hidden * w.vocabulary,
    "update": lambda w: w.parameters,
}


#: The terms of a step that one rank has too.
COMPUTING = tuple(_AMOUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What summing gradients costs: seconds at each size measured, ascending.

    `overlaps` says that it goes on beside computing: over NCCL. Over Gloo the cores that sum are those that
    compute.
    """

    sizes_bytes: tuple[float, ...]
    times_s: tuple[float, ...]
    overlaps: bool
    copy_Bps: float

    def time_s(self, size_bytes: float) -> float:
        """On a line through time over size; beyond the largest size at its rate."""
        if size_bytes > self.sizes_bytes[-1]:
            return self.times_s[-1] * size_bytes / self.sizes_bytes[-1]
        return float(np.interp(size_bytes, self.sizes_bytes, self.times_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """A step by its recipe: the seconds of each term, which add up to it."""

    recipe: Recipe
    terms_s: Mapping[str, float]

    @property
    def time_s(self) -> float:
        """The whole."""
        return sum(self.terms_s.values())


def training_steps(readings: Sequence[Reading]) -> tuple[TrainingStep, ...]:
    """The steps that the run measured, as predicted; none where a part that they need was not measured."""
    known = _Known.of(readings)
    recipes = dict.fromkeys(
        r.recipe
        for r in readings
        if r.quantity == "training.step_time" and r.recipe.get("statistic") == "median"
    )
    steps = ((recipe, _terms(recipe, known)) for recipe in recipes)
    return tuple(TrainingStep(recipe=recipe, terms_s=terms) for recipe, terms in steps if terms)


def predict_training(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """`training.step_time` and `training.scaling_efficiency` as predicted, by the recipes measured."""
    like = {r.recipe: r for r in reversed(readings) if r.quantity == "training.step_time"}
    steps = [_predicted(like[step.recipe], step.time_s, STEP_RANGE) for step in training_steps(readings)]
    return (*steps, *_scaling(readings, steps))


def gradient_terms(work: Work, parts_s: Mapping[str, float], reduction: Reduction) -> dict[str, float]:
    """Seconds that the gradients add to a step of these parts: into buckets, and until all are summed.

    A bucket is sent off when its last gradient is there and the one before has come back. What overlaps is
    waited for when the backward pass is over.
    """
    ready_s = came_s = summed_s = 0.0
    for size_bytes, ready_s in _buckets(work, parts_s):
        time_s = reduction.time_s(size_bytes)
        summed_s += time_s
        came_s = max(came_s, ready_s) + time_s
    passes_bytes = 2 * 4.0 * work.parameters
    return {
        "buckets": passes_bytes / reduction.copy_Bps,
        "all_reduce": came_s - ready_s if reduction.overlaps else summed_s,
    }


def _buckets(work: Work, parts_s: Mapping[str, float]) -> Iterator[tuple[float, float]]:
    """Bytes of each bucket and the moment of the backward pass when it is full."""
    held_bytes, now_s, (full_bytes, later_bytes) = 0.0, 0.0, _BUCKETS_BYTES
    for parameters, took_s in _gradients(work, parts_s):
        held_bytes, now_s = held_bytes + 4.0 * parameters, now_s + took_s
        if held_bytes >= full_bytes:
            yield held_bytes, now_s
            held_bytes, full_bytes = 0.0, later_bytes
    if held_bytes:
        yield held_bytes, now_s


def _gradients(work: Work, parts_s: Mapping[str, float]) -> Iterator[tuple[float, float]]:
    """Parameters and seconds of the backward pass, from the head to the embeddings, matrix by matrix."""
    square = work.hidden**2
    yield work.vocabulary * work.hidden, _BACKWARD_FRAC * parts_s["head"]
    blocks_s = parts_s["linear"] + parts_s["attention"] + parts_s["pointwise"]
    layer_s = _BACKWARD_FRAC * blocks_s / work.layers
    for _ in range(work.layers):
        for squares in (4, 4, 1, 3):
            yield squares * square, layer_s * squares / 12
    small = 13 * work.layers * work.hidden + 2 * work.hidden
    yield (work.vocabulary + work.sequence) * work.hidden + small, parts_s["embedding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a run measured of the parts: means over restarts, by quantity, recipe and subject."""

    means: Mapping[tuple[str, Recipe, Subject], float]

    @classmethod
    def of(cls, readings: Iterable[Reading]) -> _Known:
        values: dict[tuple[str, Recipe, Subject], list[float]] = {}
        for r in readings:
            if r.quantity.startswith(_PARTS) and r.origin is Origin.MEASURED and r.number is not None:
                values.setdefault((r.quantity, r.recipe, r.subject), []).append(r.number)
        return cls(means={key: fmean(found) for key, found in values.items()})

    def of_quantity(self, quantity: str) -> Iterator[tuple[Recipe, Subject, float]]:
        """Every mean of a quantity."""
        return ((recipe, subject, v) for (q, recipe, subject), v in self.means.items() if q == quantity)

    def parts_s(self, recipe: Recipe) -> dict[str, float] | None:
        """Seconds of each part of a step on the slowest rank; None where one is missing."""
        work = Work.of(recipe)
        ranks: dict[Subject, dict[str, float]] = {}
        for name, amount in _AMOUNT.items():
            for measured, subject, time_s in self.of_quantity(f"part.{name}.time"):
                done = Work.of(measured)
                if work and done and measured.get("dtype") == recipe.get("dtype"):
                    ranks.setdefault(subject, {})[name] = time_s * amount(work) / amount(done)
        whole = [parts for parts in ranks.values() if len(parts) == len(_AMOUNT)]
        return max(whole, key=lambda parts: sum(parts.values()), default=None)

    def reduction(self, ranks: int) -> Reduction | None:
        """What summing over so many ranks costs; None where it was not measured."""
        points: dict[float, float] = {}
        transports = set()
        for recipe, _, time_s in self.of_quantity("collective.all_reduce.time"):
            size, wanted = recipe.get("bytes"), ("pipelined", ranks)
            if (recipe.get("method"), recipe.get("ranks")) == wanted and isinstance(size, int):
                points[float(size)] = time_s
                transports.add(recipe.get("transport"))
        copies = [v for r, _, v in self.of_quantity("memory.copy.bandwidth") if r.get("load") == "all"]
        if len(points) < 2 or not copies:
            return None
        sizes = sorted(points)
        return Reduction(
            sizes_bytes=tuple(sizes),
            times_s=tuple(points[size] for size in sizes),
            overlaps="gloo" not in transports,
            copy_Bps=min(copies),
        )


#: The quantities that a step is predicted from.
_PARTS = ("part.", "memory.copy.", "collective.all_reduce.time")


def _terms(recipe: Recipe, known: _Known) -> dict[str, float] | None:
    parts_s, work, ranks = known.parts_s(recipe), Work.of(recipe), recipe.get("ranks")
    if parts_s is None or work is None or not isinstance(ranks, int):
        return None
    if ranks == 1:
        return parts_s
    reduction = known.reduction(ranks)
    return parts_s | gradient_terms(work, parts_s, reduction) if reduction else None


def _scaling(readings: Iterable[Reading], steps: Iterable[Reading]) -> list[Reading]:
    """Weak scaling: the predicted step of the base over that of the larger group."""
    by_ranks = {step.recipe.get("ranks"): step.number for step in steps}
    found: dict[Recipe, Reading] = {}
    for r in readings:
        base, larger = by_ranks.get(r.recipe.get("base_ranks")), by_ranks.get(r.recipe.get("ranks"))
        if r.quantity == "training.scaling_efficiency" and base and larger:
            found.setdefault(r.recipe, _predicted(r, base / larger, SCALING_RANGE))
    return list(found.values())


def _predicted(like: Reading, value: float, span: tuple[float, float]) -> Reading:
    return dataclasses.replace(
        like,
        origin=Origin.PREDICTED,
        value=value,
        reason=None,
        low=value * span[0],
        high=value * span[1],
        n=None,
        replicate=None,
        cpu_share_frac=None,
        samples=None,
        source="predict/local.py: from the parts, copies and all-reduces of the same run",
    )
