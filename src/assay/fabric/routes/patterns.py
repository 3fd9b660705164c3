"""Who sends to whom in a collective, as flows between adapters; every flow carries the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError, unknown_name
from assay.fabric.topology.network import Device, plain_name

Ints = NDArray[np.int64]

PATTERNS = ("ring", "tree", "all_to_all", "incast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """Flow k goes from adapter `sender[k]` to adapter `receiver[k]`, as indices; shape (flows,)."""

    pattern: str
    sender: Ints
    receiver: Ints

    @property
    def count(self) -> int:
        """How many flows."""
        return int(self.sender.size)


def flows(pattern: str, adapters: Sequence[Device], nodes: Sequence[str] | None = None) -> Flows:
    """The flows of a pattern over `nodes` in their order (all, in the file's order), rail by rail.

    Ring: to the next node. Tree: a binary tree, both ways. All-to-all: to every other node on the same rail,
    as NCCL sends it with PXN; adapters without a rail talk to all. Incast: all to the first.
    Raises `InputError` for a node that is not there.
    """
    if pattern not in PATTERNS:
        raise unknown_name("pattern", pattern, PATTERNS)
    senders: list[Ints] = []
    receivers: list[Ints] = []
    for members in _rails(adapters, nodes):
        count = members.size
        at = np.arange(count)
        if pattern == "ring":
            pairs = (at, (at + 1) % count)
        elif pattern == "incast":
            pairs = (at[1:], np.zeros(max(count - 1, 0), np.int64))
        elif pattern == "tree":
            child = at[1:]
            pairs = (np.concatenate((child, (child - 1) // 2)), np.concatenate(((child - 1) // 2, child)))
        else:
            first, second = np.divmod(np.arange(count * count), max(count, 1))
            pairs = (first[first != second], second[first != second])
        if count > 1:
            senders.append(members[pairs[0]])
            receivers.append(members[pairs[1]])
    none = np.zeros(0, np.int64)
    return Flows(
        pattern=pattern,
        sender=np.concatenate(senders) if senders else none,
        receiver=np.concatenate(receivers) if receivers else none,
    )


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
        order = list(by_node)
    rails: dict[int, list[int]] = {}
    for name in order:
        for at in by_node[name]:
            rail = adapters[at].rail
            rails.setdefault(-1 if rail is None else rail, []).append(at)
    return [np.array(members) for _, members in sorted(rails.items())]
