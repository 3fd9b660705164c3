"""Cabling faults that people make, put into a design by a seed; each knows the ports that it is at."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from assay.fabric.topology.network import Cable, Network

KINDS = ("swap", "missing", "slow", "cross_rail")


@dataclass(frozen=True)
class Injected:
    """A faulty network, the code that must be found, and the guilty ends: `leaf003[9]`, …"""

    network: Network
    code: str
    ends: frozenset[str]


def inject(design: Network, kind: str, seed: int) -> Injected:
    """One fault of a kind, drawn by the seed."""
    rng = random.Random(f"{kind}{seed}")
    cables = list(design.cables)
    if kind == "swap":
        first, second = _swappable(design, cables, rng)
        made = [
            replace(first, b=second.b, b_port=second.b_port),
            replace(second, b=first.b, b_port=first.b_port),
        ]
        return _changed(design, {first: made[0], second: made[1]}, "CABLE_SWAPPED", made)
    if kind == "cross_rail":
        first, second = _of_two_rails(design, cables, rng)
        made = [
            replace(first, b=second.b, b_port=second.b_port),
            replace(second, b=first.b, b_port=first.b_port),
        ]
        return _changed(design, {first: made[0], second: made[1]}, "CABLE_CROSS_RAIL", made)
    cable = rng.choice(cables)
    if kind == "missing":
        # The subnet manager sits on the first adapter; without its cable there is no fabric to see.
        while cable.a == design.adapters[0].name:
            cable = rng.choice(cables)
        return _changed(design, {cable: None}, "CABLE_MISSING", [cable])
    slow = replace(cable, rate=rng.choice(("1xHDR", "4xEDR", "4xQDR", "1xQDR")))
    return _changed(design, {cable: slow}, "CABLE_SLOW", [slow])


def _changed(design: Network, changes: dict[Cable, Cable | None], code: str, guilty: list[Cable]) -> Injected:
    cables = tuple(changed for cable in design.cables if (changed := changes.get(cable, cable)) is not None)
    ends = {f"{c.a}[{c.a_port}]" for c in guilty} | {f"{c.b}[{c.b_port}]" for c in guilty}
    return Injected(Network(design.name, design.devices, cables), code, frozenset(ends))


def _swappable(design: Network, cables: list[Cable], rng: random.Random) -> tuple[Cable, Cable]:
    """Two uplinks of two leaves to two spines, or two adapters of one rail on two leaves."""
    while True:
        first, second = rng.sample(cables, 2)
        tiers = [design.devices[c.a].tier for c in (first, second)]
        rails = [design.devices[c.a].rail for c in (first, second)]
        if tiers[0] == tiers[1] and rails[0] == rails[1] and first.b != second.b and first.a != second.a:
            return first, second


def _of_two_rails(design: Network, cables: list[Cable], rng: random.Random) -> tuple[Cable, Cable]:
    adapters = [c for c in cables if design.devices[c.a].is_adapter]
    while True:
        first, second = rng.sample(adapters, 2)
        if design.devices[first.a].rail != design.devices[second.a].rail:
            return first, second
