"""What nodes and cards have in common: leaf, firmware, board. Cohorts are compared before their members."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from assay.domain.fact import Fact
from assay.judge.fleet_table import Between, Inside, Table
from assay.judge.polish import Groups, Index, median, p_of_chance, sigma
from assay.stats import Floats
from assay.units import show

Flags = NDArray[np.bool_]

#: Facts that may make cohorts; of keys that divide the nodes alike the earlier one is named.
_KEYS = (
    *("leaf", "*.leaf", "rack", "*.rack", "firmware", "*.firmware", "*.fw_ver", "*.vbios", "*.bios_version"),
    *("gpu.name", "*.board_id", "*.hca_type", "host.product", "cpu.model", "host.kernel", "*.driver"),
    *("software.*.version", "gpu.power_limit", "slot", "*.slot"),
)
#: A cohort has at least this many nodes, and so has the rest.
NODES_LEAST = 3
#: This share of a cohort's nodes must be slow by themselves; else it is some node of it that is slow.
_SHARE_LEAST = 0.8
#: Two kinds of node that nothing on record tells apart have at least so many nodes, and an eighth, each; and
#: the gap between them is so many times what nodes of one kind differ by. Of healthy nodes it is under 2.
_KIND_LEAST, _GAP_SIGMA = 6, 4.0
_NAMES_SHOWN = 4
#: The error of a median against that of a mean of normal values, √(π/2).
_MEDIAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The nodes that have one value of a key. `size` is how much slower they are, in log units;
    `also` are other "key value" that exactly these nodes share; `at` is a row of the table to show. The key
    is empty where nothing on record tells these nodes from the others.
    """

    key: str
    value: str
    nodes: int
    others: int
    size: float
    at: int
    also: tuple[str, ...] = ()

    @property
    def is_leaf(self) -> bool:
        """Nodes below one leaf switch."""
        return self.key.rpartition(".")[2] == "leaf"


@dataclass(frozen=True, slots=True)
class _Label:
    """One key over all nodes: a number of a value for each node, -1 where it is not on record."""

    key: str
    values: tuple[str, ...]
    of: Index


class Records:
    """What the facts say that nodes have in common."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._values: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.node_names: set[str] = set()
        for fact in facts:
            kind, name = fact.subject.kind, fact.subject.name.partition("/")[0]
            if kind not in ("node", "gpu", "port"):
                continue
            self.node_names.add(name)
            if fact.value is not None and any(fnmatchcase(fact.key, key) for key in _KEYS):
                self._values[fact.key][name].add(show(fact.value, fact.unit))

    def labels(self, nodes: Sequence[str]) -> list[_Label]:
        """Keys that divide these nodes into cohorts; a node whose own parts differ has all their values."""
        found = []
        for key, of_node in self._values.items():
            texts = [", ".join(sorted(of_node.get(node, ()))) for node in nodes]
            values = tuple(sorted({text for text in texts if text}))
            if 2 <= len(values) <= len(nodes) // 2 or (len(values) == 1 and "" in texts):
                number = {value: at for at, value in enumerate(values)}
                of = np.array([number.get(text, -1) for text in texts], dtype=np.int64)
                found.append(_Label(key, values, of))
        return sorted(found, key=lambda label: _order(label.key))


def _order(key: str) -> int:
    return next(at for at, pattern in enumerate(_KEYS) if fnmatchcase(key, pattern))


def take_out_cohorts(
    table: Table, records: Records, matters: float, error_frac: float
) -> tuple[list[Cohort], Floats]:
    """The slow cohorts of a table, and its values with each held against its own cohort."""
    labels = records.labels(table.nodes)
    values, found = table.values, []
    while labels:
        every = [c for label in labels for c in _slow_cohorts(table, values, label, matters)]
        tests = sum(len(label.values) for label in labels)
        shown = [c for c in every if c.p <= error_frac / tests]
        if not shown:
            break
        best = max(shown, key=lambda c: c.explains)  # of equals the first, so in the order of _KEYS
        also = tuple(
            f"{c.label.key} {c.label.values[c.value]}"
            for c in shown
            if c.label.key != best.label.key and np.array_equal(c.members, best.members)
        )
        found.append(best.told(also))
        values = _within(table, values, best.label)
        labels.remove(best.label)
    unknown = _two_kinds(table, values)
    for candidate in _slow_cohorts(table, values, unknown, matters) if unknown else ():
        if candidate.p <= error_frac:
            found.append(candidate.told(()))
            values = _within(table, values, candidate.label)
    return found, values


def _two_kinds(table: Table, values: Floats) -> _Label | None:
    """Nodes in two kinds by their speed alone, where these lie far apart; None where they do not.

    A node is known by the faster quarter of its values: between two kinds of node a link has the pace of
    the slower, so that a good node has many slow links, but a slow one has no fast ones.
    """
    count = len(table.nodes)
    ends = [table.node.of] if isinstance(table, Inside) else [table.source.of, table.target.of]
    typical = median(values, axis=1)
    speed = np.array(
        [_quarter(typical[np.any([end == node for end in ends], axis=0)]) for node in range(count)]
    )
    order = np.argsort(speed)
    gap = np.diff(speed[order])
    least = max(_KIND_LEAST, count // 8)
    if count < 2 * least or not np.isfinite(speed).all():
        return None
    split = least + int(np.argmax(gap[least - 1 : count - least]))
    fast, slow = speed[order[:split]], speed[order[split:]]
    within = max(sigma((kind - np.median(kind))[:, None]) for kind in (fast, slow))
    if gap[split - 1] <= _GAP_SIGMA * within:
        return None
    of = np.full(count, -1, dtype=np.int64)
    of[order[split:]] = 0
    names = [table.nodes[at] for at in sorted(order[split:].tolist())]
    more = f" +{len(names) - _NAMES_SHOWN}" if len(names) > _NAMES_SHOWN else ""
    return _Label("", (", ".join(names[:_NAMES_SHOWN]) + more,), of)


def _quarter(values: Floats) -> float:
    return float(np.nanquantile(values, 0.25)) if np.isfinite(values).any() else float("nan")


@dataclass(frozen=True, slots=True)
class _Candidate:
    label: _Label
    value: int
    members: Index
    contrast: Floats
    p: float
    explains: float
    at: int

    def told(self, also: tuple[str, ...]) -> Cohort:
        nodes = int((self.label.of == self.value).sum())
        return Cohort(
            key=self.label.key,
            value=self.label.values[self.value],
            nodes=nodes,
            others=len(self.label.of) - nodes,
            size=float(median(self.contrast[None, :], axis=1)[0]),
            at=self.at,
            also=also,
        )


def _slow_cohorts(table: Table, values: Floats, label: _Label, matters: float) -> Iterator[_Candidate]:
    """Cohorts whose members are slow as one: almost every node of it, against all that it has no part in."""
    for value in range(len(label.values)):
        members = np.flatnonzero(label.of == value)
        if not NODES_LEAST <= len(members) <= len(label.of) - NODES_LEAST:
            continue
        touched, own = _members(table, label.of == value)
        if touched.all() or not own.any():
            continue
        against = values - median(values[~touched])
        contrast = median(against[touched])
        size = float(median(contrast[None, :], axis=1)[0])
        if not size >= matters:
            continue
        by_node = Groups(_node_of(table, label.of == value)[own], len(label.of)).median(against[own])
        by_node = by_node[np.isfinite(by_node).any(axis=1)]
        slow = median(by_node, axis=1) >= size / 2
        if slow.mean() < _SHARE_LEAST:
            continue
        noise = sigma(by_node - median(by_node)) * _MEDIAN_ERROR / math.sqrt(len(by_node))
        yield _Candidate(
            label=label,
            value=value,
            members=members,
            contrast=contrast,
            p=float(p_of_chance(contrast[None, :], noise)[0]),
            explains=size * float((2.0 * slow - 1.0).sum()),
            at=int(np.flatnonzero(own)[np.argmax(median(against[own], axis=1))]),
        )


def _members(table: Table, is_member: Flags) -> tuple[Flags, Flags]:
    """(what touches the cohort, what tells of its nodes one by one): of links, those that leave it."""
    if isinstance(table, Inside):
        mine = is_member[table.node.of]
        return mine, mine
    source, target = is_member[table.source.of], is_member[table.target.of]
    return source | target, source ^ target


def _node_of(table: Table, is_member: Flags) -> Index:
    """The node of the cohort that a row tells of."""
    if isinstance(table, Inside):
        return table.node.of
    return np.where(is_member[table.source.of], table.source.of, table.target.of)


def _within(table: Table, values: Floats, label: _Label) -> Floats:
    """Values around the median of their like: same cohort, or for links the same cohorts at both ends."""
    count = len(label.values) + 1
    if isinstance(table, Between):
        blocks = (label.of[table.source.of] + 1) * count + label.of[table.target.of] + 1
        groups = Groups(blocks, count * count)
    else:
        groups = Groups(label.of[table.node.of] + 1, count)
    return np.asarray(values - groups.median(values)[groups.of])
