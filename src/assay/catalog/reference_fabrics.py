"""Printed component counts of NVIDIA's DGX SuperPOD reference architectures, misprints named as such."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from assay.catalog.tables import read_records, shipped_text

_FILE = "reference_fabrics.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFabric:
    """One row as printed. `ufm_ports` are kept for the fabric manager within `node_leaf`; `planes` are equal
    fabrics.

    `misprint` says which number cannot be, `beyond` that the reference builds more than the formula needs.
    """

    id: str
    name: str
    radix: int
    nodes: int
    gpus: int
    leaf: int
    spine: int
    core: int
    node_leaf: int
    leaf_spine: int
    spine_core: int
    source: str
    ufm_ports: int = 0
    planes: int = 1
    misprint: str = ""
    beyond: str = ""


@functools.cache
def reference_fabrics() -> Mapping[str, ReferenceFabric]:
    """Every printed row by id."""
    return read_records(shipped_text(_FILE), file=_FILE, table="fabric", kind=ReferenceFabric)


def reference(*, nodes: int, radix: int) -> tuple[ReferenceFabric, ...]:
    """Rows for just so many nodes on switches of so many ports."""
    return tuple(r for r in reference_fabrics().values() if r.nodes == nodes and r.radix == radix)
