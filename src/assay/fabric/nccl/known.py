"""NCCL's graphs for a node: looked up for the shipped systems, searched for once for any other.

A search takes a fraction of a second, a look-up nothing. The shipped table is what the search finds; a test
holds the two together, and validation/make_known_graphs.py writes it anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib import resources

from assay.domain.cluster import Node
from assay.fabric.nccl.climb import find_graphs
from assay.fabric.nccl.graph import Graph, Graphs, Pattern
from assay.fabric.nccl.system import PathType

_NAMES = ("ring", "tree", "nvls", "collnet_chain", "collnet_direct")

#: Versions from which the search differs.
_ERAS = ((2, 27), (2, 29), (2, 30))


def graphs_of(
    node: Node, gpus: tuple[int, ...], *, inter: bool, collnet: bool, version: tuple[int, int]
) -> Graphs:
    """The graphs of a group on these GPUs; those of shipped systems without the order of their GPUs."""
    era = max((known for known in _ERAS if known <= version), default=_ERAS[0])
    return _graphs_of(node, gpus, inter and bool(node.nics), collnet, era)


@functools.lru_cache(maxsize=1024)
def _graphs_of(node: Node, gpus: tuple[int, ...], inter: bool, collnet: bool, era: tuple[int, int]) -> Graphs:
    known = _shipped().get(key_of(node, gpus, inter=inter, collnet=collnet, era=era))
    if known is not None:
        return Graphs(**{name: _read(fields) for name, fields in zip(_NAMES, known, strict=True)})
    return find_graphs(node, gpus, inter=inter, collnet=collnet, version=era)


def key_of(node: Node, gpus: tuple[int, ...], *, inter: bool, collnet: bool, era: tuple[int, int]) -> str:
    """What decides a search: the node's parts whatever its name, the group, and the version."""
    parts = (node.sockets, node.gpus, node.nics if inter else (), node.switches, gpus, inter, collnet, era)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def row_of(graphs: Graphs) -> list[list[float]]:
    """The table's row for graphs that the search found."""
    return [_write(getattr(graphs, name)) for name in _NAMES]


def _write(g: Graph) -> list[float]:
    kinds = (int(g.type_intra), int(g.type_inter))
    return [int(g.pattern), g.count, g.bw_intra, g.bw_inter, *kinds, int(g.same), g.cross]


def _read(fields: list[float]) -> Graph:
    pattern, count, intra, inter, type_intra, type_inter, same, cross = (int(f) for f in fields)
    return Graph(
        pattern=Pattern(pattern),
        count=count,
        bw_intra=intra,
        bw_inter=inter,
        type_intra=PathType(type_intra),
        type_inter=PathType(type_inter),
        same=bool(same),
        cross=cross,
    )


@functools.cache
def _shipped() -> Mapping[str, list[list[float]]]:
    text = resources.files("assay.fabric").joinpath("data", "nccl_graphs.json").read_text(encoding="utf-8")
    table: Mapping[str, list[list[float]]] = json.loads(text)
    return table
