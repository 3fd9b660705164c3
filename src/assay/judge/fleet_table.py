"""A family of readings as arrays: how slow each link or card is, and which nodes and places it belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from assay.domain.quantity import Better, Scope
from assay.domain.subject import Subject, natural_key
from assay.judge.families import Family
from assay.judge.polish import Groups, Index, centred
from assay.stats import Floats

#: With fewer nodes there is no majority to tell who is odd.
NODES_LEAST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """Links between nodes. `rows` is the reading behind each, `source` and `target` are numbers of nodes.

    A pair without direction stands twice, once each way. `rail` is a number into `rails`, where the ends of
    links say one ("node07/3" to "node09/3"); `rails` is empty where they do not.
    """

    family: Family
    values: Floats
    rows: Index
    nodes: tuple[str, ...]
    source: Groups
    target: Groups
    rails: tuple[str, ...] = ()
    rail: Groups | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """What each node has of its own: cards, or links between its cards.

    `place` is the same on every node: the slot of a card, or both slots of a link. Links have cards at both
    ends; a pair without direction stands twice, once each way.
    """

    family: Family
    values: Floats
    rows: Index
    nodes: tuple[str, ...]
    node: Groups
    places: tuple[str, ...]
    place: Groups
    cards: tuple[str, ...] = ()
    source: Groups | None = None
    target: Groups | None = None


Table = Between | Inside


def tables_of(family: Family, node_names: Set[str]) -> list[Table]:
    """The tables of a family; none where some subject is on no known node, or there are too few nodes.

    An end with a slash names its node; any other must be among `node_names`.
    """
    parts = [_parts(subject) for subject in family.subjects]
    heads = {(node, "/" in end) for ends in parts for end, node, _ in ends}
    if not parts or not all(slash or node in node_names for node, slash in heads):
        return []
    nodes = tuple(sorted({node for node, _ in heads}, key=natural_key))
    if len(nodes) < NODES_LEAST:
        return []
    slowness = _slowness(family)
    inside = [at for at, ends in enumerate(parts) if len({node for _, node, _ in ends}) == 1]
    between = [at for at, ends in enumerate(parts) if len({node for _, node, _ in ends}) == 2]
    found: list[Table] = []
    if inside:
        found.append(_inside(family, slowness, nodes, [(at, parts[at]) for at in inside]))
    for form in _forms(parts, between):
        found.append(_between(family, slowness, nodes, form))
    return found


_Ends = Sequence[tuple[str, str, str]]


def _parts(subject: Subject) -> _Ends:
    """(end, node, place on the node) for each end."""
    return [(end, *_split(end)) for end in subject.ends]


def _split(end: str) -> tuple[str, str]:
    node, _, place = end.partition("/")
    return node, place


def _forms(parts: Sequence[_Ends], between: Iterable[int]) -> Iterator[list[tuple[int, _Ends]]]:
    """Links of whole nodes, and links on rails, are different things: each form is fitted by itself."""
    whole: list[tuple[int, _Ends]] = []
    railed: list[tuple[int, _Ends]] = []
    for at in between:
        ends = parts[at]
        (railed if ends[0][2] and ends[0][2] == ends[1][2] else whole).append((at, ends))
    yield from (form for form in (whole, railed) if form)


def _slowness(family: Family) -> Floats:
    """Log of time, or of one over a rate, in units of its median in each restart; (subjects, restarts)."""
    numbers = sorted({r for restarts in family.restarts for r in restarts})
    column = {restart: at for at, restart in enumerate(numbers)}
    values = np.full((len(family.readings), max(1, len(numbers))), np.nan)
    for at, (restarts, found) in enumerate(zip(family.restarts, family.values, strict=True)):
        values[at, [column[r] for r in restarts]] = found
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(values > 0, np.log(values), np.nan)
    return -logs if family.quantity.better is Better.HIGHER else logs


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: at for at, name in enumerate(sorted(set(names), key=natural_key))}


def _groups(names: Sequence[str], number: dict[str, int]) -> Groups:
    return Groups(np.array([number[name] for name in names], dtype=np.int64), len(number))


def _inside(
    family: Family, slowness: Floats, nodes: tuple[str, ...], items: Sequence[tuple[int, _Ends]]
) -> Inside:
    ways = _both_ways(family, items)
    rows = np.array([at for at, _ in ways], dtype=np.int64)
    place = [">".join(p for _, _, p in ends) for _, ends in ways]
    places = _numbered(place)
    is_link = family.quantity.scope is not Scope.GPU
    cards = _numbered(end for _, ends in ways for end, _, _ in ends) if is_link else {}
    return Inside(
        family=family,
        values=centred(slowness[rows]),
        rows=rows,
        nodes=nodes,
        node=_groups([ends[0][1] for _, ends in ways], {name: at for at, name in enumerate(nodes)}),
        places=tuple(places),
        place=_groups(place, places),
        cards=tuple(cards),
        source=_groups([ends[0][0] for _, ends in ways], cards) if is_link else None,
        target=_groups([ends[1][0] for _, ends in ways], cards) if is_link else None,
    )


def _between(
    family: Family, slowness: Floats, nodes: tuple[str, ...], items: Sequence[tuple[int, _Ends]]
) -> Between:
    ways = _both_ways(family, items)
    rows = np.array([at for at, _ in ways], dtype=np.int64)
    number = {name: at for at, name in enumerate(nodes)}
    rail = [a[2] for _, (a, b) in ways if a[2] and a[2] == b[2]]
    rails = _numbered(rail)
    return Between(
        family=family,
        values=centred(slowness[rows]),
        rows=rows,
        nodes=nodes,
        source=_groups([a[1] for _, (a, _) in ways], number),
        target=_groups([b[1] for _, (_, b) in ways], number),
        rails=tuple(rails),
        rail=_groups(rail, rails) if rail else None,
    )


def _both_ways(family: Family, items: Sequence[tuple[int, _Ends]]) -> list[tuple[int, _Ends]]:
    if family.quantity.scope is not Scope.PAIR:
        return list(items)
    return [*items, *((at, ends[::-1]) for at, ends in items)]


def departure_frac(slower: float, better: Better) -> float:
    """A difference of log slowness as the fraction by which the value itself departs."""
    return math.expm1(-slower if better is Better.HIGHER else slower)
