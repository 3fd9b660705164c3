"""A thing that can be known about a cluster, apart from any value of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from assay.domain.recipe import Recipe
from assay.errors import InputError
from assay.units import BASE_UNITS


class Better(str, Enum):
    """Which direction is good."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = "neither"


class Scope(str, Enum):
    """What kind of subject has this quantity."""

    GPU = "gpu"
    NODE = "node"
    PORT = "port"
    LINK = "link"
    PAIR = "pair"
    GROUP = "group"
    CLUSTER = "cluster"


#: Subjects that may carry a quantity of each scope; a rank stands for its GPU, or for its cores where
#: there is no GPU.
SUBJECTS_OF: dict[Scope, tuple[str, ...]] = {
    Scope.GPU: ("gpu", "rank"),
    Scope.NODE: ("node",),
    Scope.PORT: ("port",),
    Scope.LINK: ("link",),
    Scope.PAIR: ("pair",),
    Scope.GROUP: ("group", "cluster", "node"),
    Scope.CLUSTER: ("cluster",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Id, unit, good direction, scope, and the parameters that its recipe must state.

    An id segment in angle brackets stands for any word: `gemm.<dtype>.rate` describes
    `gemm.bf16.rate`. `exact` marks counts, identities and versions, which one look settles and whose
    repetition adds nothing; everything else varies and needs restarts.
    """

    id: str
    unit: str
    better: Better
    scope: Scope
    defining: tuple[str, ...] = ()
    exact: bool = False
    summary: str = ""

    def __post_init__(self) -> None:
        if self.unit not in BASE_UNITS:
            raise InputError(f"quantity {self.id}: unit {self.unit!r} is not a base unit")
        if not self.id or any(not part for part in self.id.split(".")):
            raise InputError(f"quantity id {self.id!r} has an empty part")

    def describes(self, quantity_id: str) -> bool:
        """Whether `quantity_id` is this quantity, reading `<word>` parts as any word."""
        mine, theirs = self.id.split("."), quantity_id.split(".")
        return len(mine) == len(theirs) and all(
            m == t or (m.startswith("<") and m.endswith(">")) for m, t in zip(mine, theirs, strict=True)
        )

    def named(self, quantity_id: str) -> Quantity:
        """This quantity with its placeholders filled in."""
        return Quantity(
            id=quantity_id,
            unit=self.unit,
            better=self.better,
            scope=self.scope,
            defining=self.defining,
            exact=self.exact,
            summary=self.summary,
        )

    def unstated(self, recipe: Recipe) -> tuple[str, ...]:
        """Defining parameters that `recipe` leaves open: a value without them means little."""
        return tuple(name for name in self.defining if recipe.get(name) is None)
