"""A run's own training benchmark, predicted from its other readings: the circle on one machine.

No number is fitted to step time. The terms, for a decoder of L layers, width H, V words, on T tokens a rank:

- matrix products: 6·(12·L·H² + H·V)·T FLOP at the rate of linear layers as training runs them (forward,
  both gradients, new memory for every result), all ranks at once; without that reading, at one product's;
- attention: 12·L·H·S·T FLOP (as `training.model_flop_per_s` counts), at the rate of one product;
- cross-entropy: 6 passes over the T × V logits in fp32, at the bandwidth of that kernel;
- elementwise: per layer and token 58·H elements (norms 12, residuals 10, GELU over 4·H 20, the layouts of
  attention 16; each forward and backward, read and written), at the bandwidth of the elementwise chain;
- optimizer: 7 passes over the parameters in fp32, and the gradient of the embedding, which is written whole;
- gradients: one all-reduce of the parameters, its time interpolated between the sizes measured, and 4 passes
  over them (into the buckets, and divided by the ranks). Over Gloo the cores that sum are those that compute,
  so all of it counts; over NCCL what the backward pass does not cover.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject

_MODEL = re.compile(r"gpt-l(?P<layers>\d+)-h(?P<hidden>\d+)-a(?P<heads>\d+)-v(?P<vocabulary>\d+)")
#: Elements that norms, residuals, GELU and the layouts of attention move per layer and token, over H.
ELEMENTWISE_PASSES = 58
#: The backward pass is two thirds of the matrix products; gradients travel while it runs.
_BACKWARD_FRAC = 2 / 3
#: The range of a step over its value. The terms leave out launches, small shapes and the scatter of the
#: embedding's gradient; on the one machine compared so far (2 cores, 1 and 2 ranks, by the clock) steps took
#: 0.79 to 1.33 times their sum.
STEP_RANGE = (0.75, 1.5)
#: The range of the scaling efficiency: what is left out slows both sizes alike (+6 % on that machine).
SCALING_RANGE = (0.85, 1.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a step is made of, as measured: rates of the slowest rank, all ranks at work."""

    gemm_flop_per_s: float
    linear_flop_per_s: float
    cross_entropy_Bps: float
    elementwise_Bps: float
    adamw_Bps: float
    copy_Bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One training step of one rank: its model and tokens."""

    layers: int
    hidden: int
    vocabulary: int
    sequence: int
    tokens: int

    @property
    def multiplying(self) -> int:
        """Weights of projections, MLPs and head."""
        return 12 * self.layers * self.hidden**2 + self.hidden * self.vocabulary

    @property
    def parameters(self) -> int:
        """All weights: those that multiply, embeddings, biases and norms (13·H a layer), the last norm."""
        tables = (self.vocabulary + self.sequence) * self.hidden
        return self.multiplying + tables + 13 * self.layers * self.hidden + 2 * self.hidden

    @property
    def linear_flop(self) -> float:
        """Projections, MLPs and head, forward and backward."""
        return 6.0 * self.multiplying * self.tokens

    @property
    def attention_flop(self) -> float:
        """Scores and values, forward and backward."""
        return 12.0 * self.layers * self.hidden * self.sequence * self.tokens


def predict_training(readings: Sequence[Reading]) -> tuple[Reading, ...]:
    """`training.step_time` and `training.scaling_efficiency` as predicted, by the recipes that were measured.

    Empty where a rate that the step needs was not measured.
    """
    mean = _means(readings)
    steps: dict[Recipe, Reading] = {}
    for reading in readings:
        wanted = reading.quantity == "training.step_time" and reading.recipe.get("statistic") == "median"
        if wanted and reading.recipe not in steps:
            value_s = _step_s(reading.recipe, mean)
            if value_s is not None:
                steps[reading.recipe] = _predicted(reading, value_s, STEP_RANGE)
    return (*steps.values(), *_scaling(readings, steps.values()))


def step_s(work: Work, rates: Rates, all_reduce_s: float, *, overlaps: bool) -> dict[str, float]:
    """Seconds of each term of a step; they add up to its time."""
    linear = work.linear_flop / rates.linear_flop_per_s
    attention = work.attention_flop / rates.gemm_flop_per_s
    covered = _BACKWARD_FRAC * (linear + attention) if overlaps else 0.0
    buckets = 4 * 4.0 * work.parameters / rates.copy_Bps if all_reduce_s else 0.0
    elements = ELEMENTWISE_PASSES * work.hidden * work.layers * work.tokens
    return {
        "gemm": linear,
        "attention": attention,
        "cross_entropy": 6 * 4.0 * work.tokens * work.vocabulary / rates.cross_entropy_Bps,
        "elementwise": 4.0 * elements / rates.elementwise_Bps,
        "optimizer": 7 * 4.0 * work.parameters / rates.adamw_Bps
        + 2 * 4.0 * work.vocabulary * work.hidden / rates.copy_Bps,
        "gradients": max(0.0, all_reduce_s - covered) + buckets,
    }


#: The quantities that a step is predicted from.
_PARTS = ("gemm.", "kernel.", "memory.copy.", "collective.all_reduce.time")
_Means = Mapping[tuple[str, Recipe], float]


def _means(readings: Iterable[Reading]) -> dict[tuple[str, Recipe], float]:
    """The slowest subject's mean over restarts, for every rate; the mean for times."""
    values: dict[tuple[str, Recipe, Subject], list[float]] = {}
    for r in readings:
        if r.quantity.startswith(_PARTS) and r.origin is Origin.MEASURED and r.number is not None:
            values.setdefault((r.quantity, r.recipe, r.subject), []).append(r.number)
    means: dict[tuple[str, Recipe], float] = {}
    for (quantity, recipe, _), found in values.items():
        value = sum(found) / len(found)
        known = means.get((quantity, recipe))
        slower = max if quantity.endswith("time") else min
        means[quantity, recipe] = value if known is None else slower(known, value)
    return means


def _step_s(recipe: Recipe, mean: _Means) -> float | None:
    match = _MODEL.fullmatch(str(recipe.get("model")))
    sequence, batch, ranks = (recipe.get(name) for name in ("sequence", "batch_per_rank", "ranks"))
    if (
        match is None
        or not isinstance(sequence, int)
        or not isinstance(batch, int)
        or not isinstance(ranks, int)
    ):
        return None
    work = Work(
        layers=int(match["layers"]),
        hidden=int(match["hidden"]),
        vocabulary=int(match["vocabulary"]),
        sequence=sequence,
        tokens=batch * sequence,
    )
    rates = _rates(str(recipe.get("dtype")), mean)
    reduce = _all_reduce_s(4.0 * work.parameters, ranks, mean) if ranks > 1 else (0.0, False)
    if rates is None or reduce is None:
        return None
    all_reduce_s, overlaps = reduce
    return sum(step_s(work, rates, all_reduce_s, overlaps=overlaps).values())


def _rates(dtype: str, mean: _Means) -> Rates | None:
    def rate(quantity: str) -> float | None:
        found = [v for (q, r), v in mean.items() if q == quantity and r.get("load") == "all"]
        return found[0] if found else None

    gemm = rate(f"gemm.{dtype}.rate")
    entropy, chain = rate("kernel.cross_entropy.bandwidth"), rate("kernel.elementwise.bandwidth")
    adamw, copy = rate("kernel.adamw.bandwidth"), rate("memory.copy.bandwidth")
    if not gemm or not entropy or not chain or not adamw or not copy:
        return None
    return Rates(
        gemm_flop_per_s=gemm,
        linear_flop_per_s=_linear_flop_per_s(mean) or gemm,
        cross_entropy_Bps=entropy,
        elementwise_Bps=chain,
        adamw_Bps=adamw,
        copy_Bps=copy,
    )


def _linear_flop_per_s(mean: _Means) -> float | None:
    """Of tokens × width × inner through both layers and back: three products each way a layer."""
    for (quantity, recipe), time_s in mean.items():
        if quantity == "kernel.linear.time" and recipe.get("load") == "all":
            tokens, width, inner = map(float, str(recipe.get("shape")).split("x"))
            return 3 * 2 * 2 * tokens * width * inner / time_s
    return None


def _all_reduce_s(size_bytes: float, ranks: int, mean: _Means) -> tuple[float, bool] | None:
    """Time of an all-reduce over that many ranks, on a line through time over size; whether it overlaps."""
    points = sorted(
        (float(size), value, r.get("transport") != "gloo")
        for (q, r), value in mean.items()
        if q == "collective.all_reduce.time"
        and r.get("method") == "pipelined"
        and r.get("ranks") == ranks
        and isinstance(size := r.get("bytes"), int)
    )
    if len(points) < 2:
        return None
    sizes, times = [p[0] for p in points], [p[1] for p in points]
    if size_bytes > sizes[-1]:
        return times[-1] * size_bytes / sizes[-1], points[0][2]
    return float(np.interp(size_bytes, sizes, times)), points[0][2]


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
        source="predict/local.py: from the GEMM, kernel, memory and all-reduce readings of the same run",
    )
