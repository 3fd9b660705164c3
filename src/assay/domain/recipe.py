"""How a value was made. A recipe is part of a quantity's identity: unlike recipes are never compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

RecipeValue = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One parameter in which two recipes differ; None stands for "not stated"."""

    name: str
    left: RecipeValue | None
    right: RecipeValue | None

    def __str__(self) -> str:
        return f"{self.name} {_word(self.left)} against {_word(self.right)}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Parameters of a measurement, sorted by name: collective, bytes, ranks, dtype, shape, statistic, …

    Sizes are in bytes, times in seconds; the name carries the unit (`bytes`, `window_s`).
    """

    items: tuple[tuple[str, RecipeValue], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(sorted(dict(self.items).items())))

    @classmethod
    def of(cls, params: Mapping[str, RecipeValue] | None = None, /, **more: RecipeValue) -> Recipe:
        """A recipe from a mapping, keywords, or both."""
        return cls(tuple((dict(params or {}) | more).items()))

    def as_dict(self) -> dict[str, RecipeValue]:
        """A plain copy, for writing."""
        return dict(self.items)

    def get(self, name: str) -> RecipeValue | None:
        """The value of one parameter, or None where it is not stated."""
        return dict(self.items).get(name)

    def without(self, names: Iterable[str]) -> Recipe:
        """The same recipe with some parameters unstated."""
        gone = set(names)
        return Recipe(tuple(item for item in self.items if item[0] not in gone))

    @property
    def digest(self) -> str:
        """Twelve hex digits that name this recipe in tables, annexes and file names."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def lacks(self, asked: Recipe) -> tuple[Difference, ...]:
        """What keeps this recipe from being the one that is `asked` for; empty when it is.

        Every parameter that `asked` states must be stated here with the same value; parameters that it
        leaves open do not matter.
        """
        mine = dict(self.items)
        return tuple(
            Difference(name=name, left=mine.get(name), right=value)
            for name, value in asked.items
            if not _same(mine.get(name), value)
        )

    def conflicts(self, other: Recipe) -> tuple[Difference, ...]:
        """Parameters that both state and in which they differ."""
        mine = dict(self.items)
        return tuple(
            Difference(name=name, left=mine[name], right=value)
            for name, value in other.items
            if name in mine and not _same(mine[name], value)
        )

    def __str__(self) -> str:
        return ", ".join(f"{name}={_word(value)}" for name, value in self.items) or "any recipe"


def _same(left: RecipeValue | None, right: RecipeValue | None) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _word(value: RecipeValue | None) -> str:
    if value is None:
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
