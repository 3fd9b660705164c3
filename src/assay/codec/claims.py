"""Claims: a YAML or TOML file of a provider's promises → readings of origin `claimed`, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assay.codec.amount import read_amount, read_recipe, refuse_impossible, write_amount
from assay.codec.document import Document, read_document, write_yaml
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.quantity import SUBJECTS_OF, Quantity
from assay.domain.reading import Origin, Reading
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One promise: its reading, and in the provider's words where it stands and what it says."""

    reading: Reading
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a provider promises. A promise about `cluster` holds for each subject of its quantity."""

    provider: str
    promises: tuple[Promise, ...]
    offer: str = ""
    date: str = ""
    currency: str = ""

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The promised values, of origin claimed; each one's source is file:line."""
        return tuple(promise.reading for promise in self.promises)


class _PromiseText(FileModel):
    quantity: str
    value: str | int | float
    recipe: dict[str, str | bool | int | float] = Field(default_factory=dict)
    subject: str = "cluster"
    source: str = ""
    note: str = ""


class _ClaimsText(FileModel):
    schema_: int = Field(alias="schema")
    provider: str = Field(min_length=1)
    offer: str = ""
    date: str = ""
    currency: str = ""
    promises: list[_PromiseText] = Field(min_length=1)


def load_claims(
    source: Path | str, name: str | None = None, *, quantity_of: Callable[[str], Quantity]
) -> Claims:
    """Read claims from a file, or from text that is shown as `name`.

    `quantity_of` resolves a quantity id. Raises `InputError` with file:line.
    """
    document = read_document(source, name)
    text = read_as(document, _ClaimsText, kind="claims")
    promises = tuple(_promise(p, at, document, quantity_of) for at, p in enumerate(text.promises))
    seen: dict[object, Promise] = {}
    for promise in promises:
        r = promise.reading
        first = seen.setdefault((r.quantity, r.subject, r.recipe), promise)
        if first is not promise:
            raise InputError(
                f"{r.quantity} of {r.subject} ({r.recipe}) stands twice, first at {first.reading.source}",
                where=r.source,
                fix="keep one of the two",
            )
    return Claims(
        provider=text.provider, promises=promises, offer=text.offer, date=text.date, currency=text.currency
    )


def _promise(
    text: _PromiseText, at: int, document: Document, quantity_of: Callable[[str], Quantity]
) -> Promise:
    def where(key: str) -> str:
        return document.where("promises", at, key)

    with placed(where("quantity")):
        quantity = quantity_of(text.quantity)
    with placed(where("subject")):
        subject = _subject(text.subject, quantity)
    with placed(where("value")):
        reading = Reading(
            quantity=quantity.id,
            subject=subject,
            origin=Origin.CLAIMED,
            value=_value(text.value, quantity, where("value")),
            unit=quantity.unit,
            recipe=read_recipe(text.recipe, quantity, where=where("recipe")),
            source=document.where("promises", at),
        )
    return Promise(reading=reading, source=text.source, note=text.note)


def _subject(text: str, quantity: Quantity) -> Subject:
    subject = Subject.parse(text)
    kinds = SUBJECTS_OF[quantity.scope]
    if subject != CLUSTER and subject.kind not in kinds:
        raise InputError(
            f"{quantity.id} is about a {' or '.join(kinds)}, not about {text!r}",
            fix="leave 'subject' out to promise it for each one",
        )
    return subject


def _value(stated: str | int | float, quantity: Quantity, where: str) -> float | str:
    if quantity.unit == "text":
        if not isinstance(stated, str):
            raise InputError(
                f"{quantity.id} is text, not a number like {stated!r}", where=where, fix="put it in quotes"
            )
        return stated
    value = read_amount(stated, quantity.unit, where=where)
    refuse_impossible(value, quantity, where=where)
    return value


def dump_claims(claims: Claims) -> str:
    """The claims as YAML that `load_claims` reads back, but for the places that `source` names."""
    data: dict[str, object] = {"schema": 1, "provider": claims.provider}
    for key in ("offer", "date", "currency"):
        if stated := getattr(claims, key):
            data[key] = stated
    data["promises"] = [_plain(promise) for promise in claims.promises]
    return write_yaml(data)


def _plain(promise: Promise) -> dict[str, object]:
    r = promise.reading
    value = r.value if r.number is None else write_amount(r.number, r.unit)
    data: dict[str, object] = {"quantity": r.quantity, "value": value}
    optional: dict[str, object] = {
        "recipe": r.recipe.as_dict(),
        "subject": str(r.subject) if r.subject != CLUSTER else "",
        "source": promise.source,
        "note": promise.note,
    }
    return data | {key: stated for key, stated in optional.items() if stated}
