"""The quantities that Assay knows, from `data/quantities.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from assay.catalog.tables import shipped_text
from assay.domain.quantity import Better, Quantity, Scope
from assay.errors import InputError, unknown_name

_FILE = "quantities.toml"


@cache
def quantities() -> tuple[Quantity, ...]:
    """Every quantity, with its placeholders, in the order of the file."""
    return tuple(q for family in families().values() for q in family)


@cache
def families() -> Mapping[str, tuple[Quantity, ...]]:
    """The quantities of each family (compute, memory, interconnect, …), in the order of the file."""
    return MappingProxyType(read_quantities(shipped_text(_FILE), file=_FILE))


def read_quantities(text: str, *, file: str) -> dict[str, tuple[Quantity, ...]]:
    """Quantities by family from `[family."id"]` tables."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InputError(f"is not TOML: {fault}", where=file) from fault
    return {
        family: tuple(_quantity(name, table, file) for name, table in entries.items())
        for family, entries in tables.items()
    }


@cache
def quantity(quantity_id: str) -> Quantity:
    """The quantity with this id: `gemm.bf16.rate` is `gemm.<dtype>.rate` filled in, which is an id too.

    Raises `UnknownNameError` with the closest ids.
    """
    for known in quantities():
        if known.id == quantity_id:
            return known
    for known in quantities():
        if "<" not in quantity_id and known.describes(quantity_id):
            return known.named(quantity_id)
    raise unknown_name("quantity", quantity_id, [_filled(q, quantity_id) for q in quantities()])


def _quantity(name: str, table: Mapping[str, object], file: str) -> Quantity:
    unlike = table.keys() - {"unit", "better", "scope", "defining", "exact", "summary"}
    if unlike:
        raise InputError(f"quantity {name}: unknown key {sorted(unlike)[0]!r}", where=file)
    defining = table.get("defining", [])
    if not isinstance(defining, list):
        raise InputError(f"quantity {name}: 'defining' is not a list", where=file)
    try:
        return Quantity(
            id=name,
            unit=str(table["unit"]),
            better=Better(table["better"]),
            scope=Scope(table["scope"]),
            defining=tuple(map(str, defining)),
            exact=table.get("exact") is True,
            summary=str(table.get("summary", "")),
        )
    except KeyError as fault:
        raise InputError(f"quantity {name}: {fault} is missing", where=file) from fault
    except ValueError as fault:
        raise InputError(f"quantity {name}: {fault}", where=file) from fault


def _filled(known: Quantity, asked: str) -> str:
    """A known id with its placeholders taken from what was asked, so that the nearest id can be used."""
    mine, theirs = known.id.split("."), asked.split(".")
    if len(mine) != len(theirs):
        return known.id
    return ".".join(t if m.startswith("<") and "<" not in t else m for m, t in zip(mine, theirs, strict=True))
