"""Profiles: a YAML or TOML file of criteria → `Profile`, and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from assay.codec.amount import read_amount, read_recipe, refuse_impossible, write_amount
from assay.codec.document import Document, read_document, write_yaml
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.criterion import Criterion, Op, Over, Profile, Rule
from assay.domain.quantity import Quantity
from assay.domain.reading import Origin
from assay.errors import InputError

_OF_MEDIAN = (Op.SPREAD_AT_MOST, Op.UNIFORM)


class _CriterionText(FileModel):
    id: str = Field(min_length=1)
    quantity: str
    op: Op = Field(strict=False)
    bound: str | int | float | None = None
    high: str | int | float | None = None
    of: Origin | None = Field(default=None, strict=False)
    recipe: dict[str, str | bool | int | float] = Field(default_factory=dict)
    over: Over = Field(default=Over.EACH, strict=False)
    rule: Rule = Field(default=Rule.SIMPLE, strict=False)
    required: bool = True
    repeatability: str | int | float | None = None
    clause: str = ""
    source: str = ""
    note: str = ""


class _ProfileText(FileModel):
    schema_: int = Field(alias="schema")
    name: str = Field(min_length=1)
    title: str
    description: str = ""
    applies_to: list[str] = Field(default_factory=list)
    source: str = ""
    date: str = ""
    criteria: list[_CriterionText]


def load_profile(
    source: Path | str, name: str | None = None, *, quantity_of: Callable[[str], Quantity]
) -> Profile:
    """Read a profile from a file, or from text that is shown as `name`.

    `quantity_of` resolves a quantity id. Raises `InputError` with file:line.
    """
    document = read_document(source, name)
    text = read_as(document, _ProfileText, kind="profile")
    return Profile(
        name=text.name,
        title=text.title,
        criteria=tuple(_criterion(c, at, document, quantity_of) for at, c in enumerate(text.criteria)),
        description=text.description,
        applies_to=tuple(text.applies_to),
        source=text.source,
        date=text.date,
        where=document.where(),
    )


def _criterion(
    text: _CriterionText, at: int, document: Document, quantity_of: Callable[[str], Quantity]
) -> Criterion:
    def where(key: str) -> str:
        return document.where("criteria", at, key)

    with placed(where("quantity")):
        quantity = quantity_of(text.quantity)
    if quantity.unit == "text" and text.bound is not None:
        raise InputError(
            f"{quantity.id} is text, which has no more and no less",
            where=where("bound"),
            fix="ask for 'op: uniform' or 'op: present', without a bound",
        )
    unit = bound_unit(text.op, text.of, quantity)
    bound, high = (
        None if value is None else read_amount(value, unit, where=where(key))
        for key, value in (("bound", text.bound), ("high", text.high))
    )
    for key, number in (("bound", bound), ("high", high)):
        if number is not None:
            refuse_impossible(number, quantity, where=where(key))
    repeatability_frac = None
    if text.repeatability is not None:
        repeatability_frac = read_amount(text.repeatability, "1", where=where("repeatability"))
    return Criterion(
        id=text.id,
        quantity=quantity.id,
        op=text.op,
        unit=unit,
        recipe=read_recipe(text.recipe, quantity, where=where("recipe")),
        bound=bound,
        high=high,
        of=text.of,
        over=text.over,
        required=text.required,
        rule=text.rule,
        repeatability_frac=repeatability_frac,
        clause=text.clause,
        source=text.source,
        note=text.note,
        where=document.where("criteria", at),
    )


def bound_unit(op: Op, of: Origin | None, quantity: Quantity) -> str:
    """The base unit of a bound: that of the quantity, or "1" where it is a ratio or a fraction."""
    if quantity.unit != "text" and (of is not None or op in _OF_MEDIAN):
        return "1"
    return quantity.unit


def dump_profile(profile: Profile) -> str:
    """The profile as YAML that `load_profile` reads back, but for the places that `where` names."""
    data: dict[str, object] = {"schema": 1, "name": profile.name, "title": profile.title}
    data |= _stated(description=profile.description, applies_to=list(profile.applies_to))
    data |= _stated(source=profile.source, date=profile.date)
    data["criteria"] = [_plain(criterion) for criterion in profile.criteria]
    return write_yaml(data)


def _plain(c: Criterion) -> dict[str, object]:
    data: dict[str, object] = {"id": c.id, "quantity": c.quantity, "op": c.op.value}
    for key, value in (("bound", c.bound), ("high", c.high)):
        if value is not None:
            data[key] = write_amount(value, c.unit)
    if c.repeatability_frac is not None:
        data["repeatability"] = c.repeatability_frac
    if not c.required:
        data["required"] = False
    return data | _stated(
        of=c.of.value if c.of else None,
        recipe=c.recipe.as_dict(),
        over=c.over.value if c.over is not Over.EACH else None,
        rule=c.rule.value if c.rule is not Rule.SIMPLE else None,
        clause=c.clause,
        source=c.source,
        note=c.note,
    )


def _stated(**values: object) -> dict[str, object]:
    return {key: value for key, value in values.items() if value}
