"""The three readers of the public selection guide, and what its promises of days and speed-ups imply.

A promise is arithmetic: 6·N·D FLOP for N weights and D tokens (Kaplan et al. 2020), so that days on so many
cards bound the tokens, and two promises for the same work give the speed-up between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.errors import InputError, unknown_name
from assay.plan.job import TOKENS_A_WEIGHT

#: The best published model FLOP utilisation of a long dense run on thousands of GPUs (MegaScale, 2024, 175B).
BEST_MFU_FRAC = 0.55
#: A usual one (Llama 3 405B: 38 to 43 %).
USUAL_MFU_FRAC = 0.40
#: Weights, gradients, master copy and both moments of mixed-precision Adam, before activations (Rajbhandari
#: 2020).
TRAINING_BYTES_A_WEIGHT = 16.0
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One reader: the size of models, and what is taken where nothing is said.

    `spot` says whether offers that may be taken back are in question, `several_nodes` whether a network
    between nodes must be known.
    """

    id: str
    least_weights: float
    most_weights: float
    gpus: int
    tokens_a_weight: float
    storage: str
    spot: bool
    several_nodes: bool


NEEDS: dict[str, Need] = {
    one.id: one
    for one in (
        Need(
            id="enterprise",
            least_weights=100e9,
            most_weights=2e12,
            gpus=1024,
            tokens_a_weight=TOKENS_A_WEIGHT,
            storage="best",
            spot=False,
            several_nodes=True,
        ),
        Need(
            id="lab",
            least_weights=10e9,
            most_weights=100e9,
            gpus=128,
            tokens_a_weight=TOKENS_A_WEIGHT,
            storage="better",
            spot=True,
            several_nodes=True,
        ),
        Need(
            id="trial",
            least_weights=1e9,
            most_weights=10e9,
            gpus=8,
            tokens_a_weight=2.0,
            storage="good",
            spot=True,
            several_nodes=False,
        ),
    )
}


def need(name: str) -> Need:
    """The reader of this name; raises `UnknownNameError`."""
    if name not in NEEDS:
        raise unknown_name("need", name, NEEDS)
    return NEEDS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Days that a seller says a model takes on so many cards, and the speed-up against linear it says beside
    it."""

    id: str
    weights: float
    gpus: int
    days: tuple[float, float]
    speedup_frac: tuple[float, float] | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.weights <= 0 or self.gpus < 1 or not 0 < self.days[0] <= self.days[1]:
            raise InputError(
                f"promise {self.id}: {self.weights:g} weights on {self.gpus} cards in {self.days} days"
            )


#: What the public guide prints.
GUIDE: tuple[Promise, ...] = (
    Promise(
        id="100B on one card",
        weights=100e9,
        gpus=1,
        days=(180, 220),
        source="public selection guide: one card",
    ),
    Promise(
        id="100B on a thousand cards",
        weights=100e9,
        gpus=1000,
        days=(14, 21),
        speedup_frac=(0.90, 1.0),
        source="public selection guide: a thousand cards, speed-up at least 90 %",
    ),
)

#: Its three classes of platform: a 70B model on a thousand A100s.
CLASSES: tuple[Promise, ...] = (
    Promise(id="first class", weights=70e9, gpus=1000, days=(18, 18), speedup_frac=(0.91, 0.91)),
    Promise(id="second class", weights=70e9, gpus=1000, days=(19, 20), speedup_frac=(0.89, 0.91)),
    Promise(id="third class", weights=70e9, gpus=1000, days=(0.001, 1e6), speedup_frac=(0.60, 0.70)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """What a promise would need on cards of one kind, each as (for its fewest days, for its most).

    `tokens_at_peak` is what the cards could see with no loss whatever; `tokens_usual` at a usual utilisation;
    `mfu_frac` what `TOKENS_A_WEIGHT` tokens a weight would need. `memory_frac` is the state of training over
    the cards' memory: above 1 the model does not even lie in them.
    """

    promise: Promise
    gpu: str
    tokens_at_peak: tuple[float, float]
    tokens_usual: tuple[float, float]
    mfu_frac: tuple[float, float]
    memory_frac: float

    @property
    def impossible(self) -> bool:
        """Whether physics forbids it: more than the peak for a compute-optimal run, or no room."""
        return self.mfu_frac[1] > 1 or self.memory_frac > 1


def implied(promise: Promise, *, gpu: str, peak_flop_per_s: float, memory_bytes: float) -> Implied:
    """The arithmetic of one promise."""
    flop_a_token = 6 * promise.weights
    peak = tuple(promise.gpus * peak_flop_per_s * d * _DAY_S / flop_a_token for d in promise.days)
    wanted = TOKENS_A_WEIGHT * promise.weights
    return Implied(
        promise=promise,
        gpu=gpu,
        tokens_at_peak=(peak[0], peak[1]),
        tokens_usual=(peak[0] * USUAL_MFU_FRAC, peak[1] * USUAL_MFU_FRAC),
        mfu_frac=(wanted / peak[0], wanted / peak[1]),
        memory_frac=TRAINING_BYTES_A_WEIGHT * promise.weights / (promise.gpus * memory_bytes),
    )


def pair_speedup_frac(few: Promise, many: Promise) -> tuple[float, float]:
    """The linear speed-up that two promises for the same model imply: (least, most) over their ranges."""
    if few.weights != many.weights:
        raise InputError(f"{few.id} and {many.id} are not about the same model")
    ratio = many.gpus / few.gpus
    return few.days[0] / many.days[1] / ratio, few.days[1] / many.days[0] / ratio


def days_at(known: Promise, speedup_frac: float) -> float:
    """Days of the same work at another speed-up: days × speed-up stays what it is."""
    if known.speedup_frac is None:
        raise InputError(f"promise {known.id} names no speed-up")
    return known.days[0] * known.speedup_frac[0] / speedup_frac


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCheck:
    """Days that a class prints, and those that its speed-up implies against the first class."""

    promise: Promise
    implied_days: tuple[float, float]

    @property
    def consistent(self) -> bool:
        """Whether the printed range meets the implied one."""
        return self.promise.days[0] <= self.implied_days[1] and self.implied_days[0] <= self.promise.days[1]


def check_classes(classes: Sequence[Promise] = CLASSES) -> tuple[ClassCheck, ...]:
    """Each class against the first, whose days and speed-up are one pair."""
    first = classes[0]
    return tuple(
        ClassCheck(
            promise=one,
            implied_days=(
                days_at(first, (one.speedup_frac or (1.0, 1.0))[1]),
                days_at(first, (one.speedup_frac or (1.0, 1.0))[0]),
            ),
        )
        for one in classes
    )
