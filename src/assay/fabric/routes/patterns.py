"""Who sends to whom in a collective, as flows between adapters; every flow carries the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.subject import natural_key
from assay.errors import InputError, unknown_name
from assay.fabric.topology.network import Device, plain_name

Ints = NDArray[np.int64]

PATTERNS = ("ring", "tree", "all_to_all", "incast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """Flow k goes from adapter `sender[k]` to adapter `receiver[k]`, as indices; shape (flows,).

    Beside these, all members of each of `groups` send to all others of it: an all-to-all is not listed pair
    by pair, as it has millions.
    """

    pattern: str
    sender: Ints
    receiver: Ints
    groups: tuple[Ints, ...] = ()

    @property
    def count(self) -> int:
        """How many flows."""
        return int(self.sender.size) + sum(group.size * (group.size - 1) for group in self.groups)

    def among(self, takes_part: NDArray[np.bool_]) -> Flows:
        """The flows between adapters that take part [adapter]."""
        kept = takes_part[self.sender] & takes_part[self.receiver]
        groups = tuple(group[takes_part[group]] for group in self.groups)
        return Flows(
            pattern=self.pattern, sender=self.sender[kept], receiver=self.receiver[kept], groups=groups
        )

    def listed(self) -> Flows:
        """The same flows, each one listed."""
        senders, receivers = [self.sender], [self.receiver]
        for group in self.groups:
            first, second = np.divmod(np.arange(group.size * group.size), max(group.size, 1))
            senders.append(group[first[first != second]])
            receivers.append(group[second[first != second]])
        return Flows(pattern=self.pattern, sender=np.concatenate(senders), receiver=np.concatenate(receivers))


def flows(pattern: str, adapters: Sequence[Device], nodes: Sequence[str] | None = None) -> Flows:
    """The flows of a pattern over `nodes` in their order (all, in the order of their names), rail by rail.

    Ring: to the next node. Tree: a binary tree, both ways. All-to-all: to every other node on the same rail,
    as NCCL sends it with PXN; adapters without a rail talk to all. Incast: all to the first.
    Raises `InputError` for a node that is not there.
    """
    if pattern not in PATTERNS:
        raise unknown_name("pattern", pattern, PATTERNS)
    rails = [members for members in _rails(adapters, nodes) if members.size > 1]
    none = np.zeros(0, np.int64)
    if pattern == "all_to_all":
        return Flows(pattern=pattern, sender=none, receiver=none, groups=tuple(rails))
    pairs = [_pairs(pattern, members.size) for members in rails]
    return Flows(
        pattern=pattern,
        sender=np.concatenate([none, *(m[p[0]] for m, p in zip(rails, pairs, strict=True))]),
        receiver=np.concatenate([none, *(m[p[1]] for m, p in zip(rails, pairs, strict=True))]),
    )


def _pairs(pattern: str, count: int) -> tuple[Ints, Ints]:
    """Places of senders and receivers among `count` members."""
    at = np.arange(count)
    if pattern == "ring":
        return at, (at + 1) % count
    if pattern == "incast":
        return at[1:], np.zeros(count - 1, np.int64)
    child, parent = at[1:], (at[1:] - 1) // 2
    return np.concatenate((child, parent)), np.concatenate((parent, child))


def _rails(adapters: Sequence[Device], nodes: Sequence[str] | None) -> list[Ints]:
    """For each rail the adapters of the nodes, in the nodes' order."""
    by_node: dict[str, list[int]] = {}
    for at, device in enumerate(adapters):
        by_node.setdefault(device.node or device.name, []).append(at)
    if nodes is not None:
        plain = {plain_name(name): name for name in by_node}
        for name in nodes:
            if plain_name(name) not in plain:
                raise unknown_name("node", name, by_node)
        if len({plain_name(name) for name in nodes}) < len(nodes):
            raise InputError("a node stands twice in the placement", fix="name each node once")
        order = [plain[plain_name(name)] for name in nodes]
    else:
        order = sorted(by_node, key=natural_key)
    rails: dict[int, list[int]] = {}
    for name in order:
        for at in by_node[name]:
            rail = adapters[at].rail
            rails.setdefault(-1 if rail is None else rail, []).append(at)
    return [np.array(members) for _, members in sorted(rails.items())]
