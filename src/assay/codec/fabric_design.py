"""Design files of a fabric: its counts, the rate of its cables, and how its devices are named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assay.codec.document import Document, read_document
from assay.codec.schema import FileModel, read_as
from assay.domain.fabric import Wiring
from assay.errors import InputError, unknown_name

_PARTS = ("node", "adapter", "leaf", "spine", "core")


class _NamesText(FileModel):
    node: str | None = None
    adapter: str | None = None
    leaf: str | None = None
    spine: str | None = None
    core: str | None = None


class _DesignText(FileModel):
    schema_: int = Field(alias="schema")
    id: str = "design"
    nodes: int = Field(ge=1)
    rails: int = Field(default=8, ge=1, le=64)
    radix: int = Field(default=64, ge=4)
    oversubscription: float | int = 1.0
    planes: int = Field(default=1, ge=1, le=8)
    wiring: str = Wiring.RAIL.value
    rate: str = "4xNDR"
    names: _NamesText = Field(default_factory=_NamesText)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignParts:
    """A design file as read; `names` holds the patterns that it gives."""

    id: str
    nodes: int
    rails: int
    radix: int
    oversubscription: float
    planes: int
    wiring: Wiring
    rate: str
    names: dict[str, str]
    document: Document


def load_design(source: Path | str, name: str | None = None) -> DesignParts:
    """Read a design file, or text that is shown as `name`. Raises `InputError` with file:line."""
    document = read_document(source, name)
    text = read_as(document, _DesignText, kind="fabric design")
    kinds = [kind.value for kind in Wiring if kind is not Wiring.OPAQUE]
    if text.wiring not in kinds:
        raise unknown_name("wiring", text.wiring, kinds, where=document.where("wiring"))
    names = {part: getattr(text.names, part) for part in _PARTS if getattr(text.names, part) is not None}
    for part, pattern in names.items():
        try:
            pattern.format(i=0, node="n", rail=0)
        except (KeyError, ValueError, IndexError):
            raise InputError(
                f"names.{part} is {pattern!r}",
                where=document.where("names", part),
                fix="write {i} for the number; an adapter may also have {node} and {rail}",
            ) from None
    return DesignParts(
        id=text.id,
        nodes=text.nodes,
        rails=text.rails,
        radix=text.radix,
        oversubscription=float(text.oversubscription),
        planes=text.planes,
        wiring=Wiring(text.wiring),
        rate=text.rate,
        names=names,
        document=document,
    )
