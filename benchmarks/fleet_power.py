"""How often the fit over a fleet raises an alarm where nothing is wrong, and what it finds of what is.

`python -m benchmarks.fleet_power 1000` looks at so many clean fleets, each of them more than a second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

import numpy as np

from assay.catalog.quantities import quantity
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading
from assay.domain.subject import Subject
from assay.judge.families import Family, Measured
from assay.judge.fleet import find_fleet
from assay.store.figures import DEVICES
from assay.store.invented import Layout, Noise, Series, all_series
from assay.store.plant import Plant, plant_in_series
from benchmarks.figure import Figure

NODES, GPUS, RESTARTS, LEAF_NODES = 128, 8, 5, 16
CLEAN, PLANTED = 12, 1
BENCHMARKS = ("gemm", "memory", "peer")

#: What is planted with each effect, and the (code, subject) that must be the only finding.
FAULTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, str]], ...] = (
    ("a node", ("node:node007:peer.bandwidth:-{}%",), ("1", "2", "3", "5"), ("NODE_SLOW", "node:node007")),
    ("a card", ("gpu:node003/2:gemm.bf16.rate:-{}%",), ("4", "6", "8"), ("GPU_SLOW", "gpu:node003/2")),
    (
        "a pair",
        ("link:node005>node009:peer.bandwidth:-{}%", "link:node009>node005:peer.bandwidth:-{}%"),
        ("4", "6", "8", "10"),
        ("LINK_SLOW", "pair:node005|node009"),
    ),
    (
        "one direction",
        ("link:node011>*:peer.bandwidth:-{}%",),
        ("1", "2", "3"),
        ("LINK_SLOW_ONE_WAY", "link:node011>*"),
    ),
    ("a rail", ("link:*/3>*/3:peer.bandwidth:-{}%",), ("2", "5", "10"), ("RAIL_SLOW", "group:rail3")),
    ("a leaf", ("nodes:16-31:peer.bandwidth:-{}%",), ("1", "2", "3", "5"), ("LEAF_SLOW", "group:leaf1")),
    ("half, other firmware", ("nodes:0-63:*:-{}%",), ("2", "3", "5"), ("COHORTS_DIFFER", "cluster")),
)


def run(clean: int = CLEAN, planted: int = PLANTED) -> list[Figure]:
    """The false-alarm rate, then the share of seeds in which exactly the planted fault was named."""
    layout = Layout(nodes=NODES, gpus=GPUS, pairs="all")
    alarms = sum(bool(found(layout, seed, ())) for seed in range(clean))
    figures = [Figure(what="clean fleets with an alarm", value=f"{alarms} of {clean}", reach="1 %")]
    for name, plants, effects, wanted in FAULTS:
        rails = name == "a rail"
        of = Layout(nodes=NODES, gpus=GPUS, pairs="rails") if rails else layout
        for effect in effects:
            asked = [text.format(effect) for text in plants]
            named = [found(of, 10_000 + seed, asked) for seed in range(planted)]
            hits = sum(names == [wanted] for names in named)
            reach = "all" if (name, effect) in _WANTED else ""
            figures.append(
                Figure(what=f"{name} at −{effect} %: named, alone", value=f"{hits} of {planted}", reach=reach)
            )
    return figures


_WANTED = {
    ("a node", "3"),
    ("a rail", "10"),
    ("a pair", "10"),
    ("a leaf", "5"),
    ("half, other firmware", "5"),
}


def found(layout: Layout, seed: int, plants: Sequence[str]) -> list[tuple[str, str]]:
    """Codes and subjects of the findings about one generated fleet, 1.5 % of heavy-tailed noise."""
    fleet = find_fleet(measured(layout, seed, plants), facts(layout))
    return [(finding.code, str(finding.subject)) for finding in fleet.findings]


def measured(layout: Layout, seed: int, plants: Sequence[str]) -> Measured:
    """Families straight from the generator's arrays: a thousand run folders would take hours to read."""
    series = [
        one
        for one in all_series(layout, DEVICES["h100-sxm-like"])
        if one.benchmark in BENCHMARKS and any("fluct" not in y.quantity for y in one.yields)
    ]
    plant_in_series([Plant.parse(text) for text in plants], series)
    families: dict[str, list[Family]] = {}
    for number, one in enumerate(series):
        draws = list(one.draw(seed, RESTARTS, Noise()))
        made = one.yields[0]
        values = np.stack([made.of(samples) for samples in draws], axis=1)
        family = Family(
            quantity=quantity(made.quantity),
            recipe=one.recipe_of(made.statistic),
            readings=readings(layout, number, _Once(one)),
            values=tuple(values),
            restarts=(tuple(range(RESTARTS)),) * len(values),
            estimates=None,
            lost={},
        )
        families.setdefault(made.quantity, []).append(family)
    return Measured(families={name: tuple(group) for name, group in families.items()})


class _Once:
    """A series as an argument that all seeds share: its subjects do not depend on the seed."""

    def __init__(self, series: Series) -> None:
        self.series = series

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once)

    def __hash__(self) -> int:
        return 0


@cache
def readings(layout: Layout, number: int, once: _Once) -> tuple[Reading, ...]:
    """A reading for each subject of a series; only the subjects matter here."""
    made = once.series.yields[0]
    return tuple(
        Reading(quantity=made.quantity, subject=s, origin=Origin.MEASURED, value=1.0, unit=made.unit)
        for s in once.series.subjects
    )


@cache
def facts(layout: Layout) -> tuple[Fact, ...]:
    """Leaves of 16 nodes, and two firmwares that divide the nodes in halves."""

    def fact(key: str, host: str, value: str) -> Fact:
        return Fact(key=key, subject=Subject("node", host), value=value, unit="text", source="generated")

    leaves = [fact("leaf", host, f"leaf{at // LEAF_NODES}") for at, host in enumerate(layout.hosts)]
    halves = [
        fact("firmware", h, "28.39" if at < NODES // 2 else "28.43") for at, h in enumerate(layout.hosts)
    ]
    return (*leaves, *halves)


if __name__ == "__main__":
    for figure in run(*map(int, sys.argv[1:3])):
        print(f"{figure.what:<46}{figure.value:>14}  {figure.reach}", flush=True)
