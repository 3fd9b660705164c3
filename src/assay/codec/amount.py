"""Values, bounds and recipes as people write them ("692 TFLOP/s", "16 GiB"), and back."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from assay.domain.quantity import Better, Quantity
from assay.domain.recipe import Recipe, RecipeValue
from assay.errors import InputError, UnitError
from assay.units import parse, parse_bytes, show


def read_amount(text: str | int | float, unit: str, *, where: str) -> float:
    """A number in the base unit; text that names no unit is taken only for "1" and "count"."""
    return parse(text, unit=unit, where=where).value


def write_amount(value: float, unit: str) -> str | float:
    """The shortest way of writing a value that reads back as the very same number."""
    if unit in ("1", "count"):
        return value
    for digits in (3, 6):
        text = show(value, unit, digits=digits)
        try:
            if parse(text, unit=unit).value == value:
                return text
        except UnitError:
            pass
    return f"{value!r} {unit}"


def refuse_impossible(value: float, quantity: Quantity, *, where: str) -> None:
    """Refuse what no such quantity can be: a rate, a time, a price or a count below zero."""
    has_sign = quantity.unit == "degC" or (quantity.better is Better.NEITHER and quantity.unit != "count")
    if value < 0 and not has_sign:
        raise InputError(
            f"{quantity.id} cannot be negative, but {show(value, quantity.unit)} is given", where=where
        )


def read_recipe(stated: Mapping[str, RecipeValue], quantity: Quantity, *, where: str) -> Recipe:
    """A recipe in which sizes may be written "16 GiB" and times "0.4 s"."""
    for name in stated:
        near = difflib.get_close_matches(name, quantity.defining, n=1, cutoff=0.85)
        if near and name not in quantity.defining:
            raise InputError(
                f"unknown recipe parameter {name!r} of {quantity.id}",
                where=where,
                fix=f"did you mean {near[0]!r}?",
            )
    return Recipe.of({name: _parameter(name, value, where) for name, value in stated.items()})


def _parameter(name: str, value: RecipeValue, where: str) -> RecipeValue:
    if not isinstance(value, str):
        return value
    if name == "bytes" or name.endswith("_bytes"):
        return parse_bytes(value, where=where)
    if name.endswith("_s"):
        return parse(value, unit="s", where=where).value
    return value
