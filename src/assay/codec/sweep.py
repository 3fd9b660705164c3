"""Sweep files: YAML or TOML lists of values for each axis of a grid → the axes, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from assay.codec.document import Document, read_document
from assay.codec.schema import FileModel, read_as


class _GridText(FileModel):
    cluster: list[str]
    nodes: list[int]
    workload: list[str]
    layout: list[str] = Field(default_factory=lambda: ["best"])
    global_batch: list[int] = Field(default_factory=lambda: [0])
    seq_len: list[int] = Field(default_factory=lambda: [0])
    task: list[str] = Field(default_factory=lambda: ["pretrain"])
    stack: list[str] = Field(default_factory=lambda: ["megatron"])
    tokens: list[int | float] = Field(default_factory=lambda: [0.0])
    steps: list[int | float] = Field(default_factory=lambda: [0.0])
    failures_per_1000_node_days: list[int | float] = Field(default_factory=lambda: [0.0])
    save_s: list[int | float] = Field(default_factory=lambda: [30.0])


class _SweepText(FileModel):
    schema_: int = Field(alias="schema")
    grid: _GridText


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The values of each axis, and where the file says them."""

    axes: dict[str, list[object]]
    document: Document


def load_sweep(source: Path | str, name: str | None = None) -> Grid:
    """Read a sweep file. Raises `InputError` with file:line for an unknown axis or a value of the wrong
    kind."""
    document = read_document(source, name)
    text = read_as(document, _SweepText, kind="sweep")
    return Grid(axes=text.grid.model_dump(), document=document)
