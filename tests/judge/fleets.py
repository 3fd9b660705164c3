"""Generated fleets as families, straight from the generator's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from assay.catalog.quantities import quantity
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading
from assay.domain.subject import Subject
from assay.judge.families import Family, Measured
from assay.judge.fleet import Fleet, find_fleet
from assay.store.figures import DEVICES
from assay.store.invented import Layout, Noise, all_series
from assay.store.plant import Plant, plant_in_series


def measured(layout: Layout, seed: int, plants: Sequence[str], restarts: int = 5) -> Measured:
    series = [s for s in all_series(layout, DEVICES["h100-sxm-like"]) if s.benchmark in ("gemm", "peer")]
    asked = [Plant.parse(text) for text in plants]
    assert plant_in_series(asked, series) == set(asked)
    families: dict[str, list[Family]] = {}
    for one in series:
        made = one.yields[0]
        values = np.stack([made.of(s) for s in one.draw(seed, restarts, Noise())], axis=1)
        family = Family(
            quantity=quantity(made.quantity),
            recipe=one.recipe_of(made.statistic),
            readings=_readings(one.subjects, made.quantity, made.unit),
            values=tuple(values),
            restarts=(tuple(range(restarts)),) * len(values),
            estimates=None,
            lost={},
        )
        families.setdefault(made.quantity, []).append(family)
    return Measured(families={name: tuple(group) for name, group in families.items()})


@cache
def _readings(subjects: tuple[Subject, ...], name: str, unit: str) -> tuple[Reading, ...]:
    return tuple(
        Reading(
            quantity=name,
            subject=s,
            origin=Origin.MEASURED,
            value=1.0,
            unit=unit,
            source=f"rank-0000.jsonl:{at + 2}",
        )
        for at, s in enumerate(subjects)
    )


def facts(layout: Layout, **cohorts: tuple[str, int, int]) -> list[Fact]:
    """That the nodes are there; and KEY=(VALUE, FIRST, LAST) of some of them."""
    every = [_fact("host.os", host, "Linux") for host in layout.hosts]
    for name, (value, first, last) in cohorts.items():
        key = name.partition("__")[0]
        every += [_fact(key, host, value) for host in layout.hosts[first : last + 1]]
    return every


def _fact(key: str, host: str, value: str) -> Fact:
    return Fact(key=key, subject=Subject("node", host), value=value, unit="text", source="test")


def fleet(plants: Sequence[str] = (), *, nodes: int = 24, gpus: int = 4, pairs: str = "all", seed: int = 1,
          restarts: int = 5, **cohorts: tuple[str, int, int]) -> Fleet:  # fmt: skip
    layout = Layout(nodes=nodes, gpus=gpus, pairs=pairs)
    return find_fleet(measured(layout, seed, plants, restarts), facts(layout, **cohorts))


def named(found: Fleet) -> list[tuple[str, str]]:
    return [(finding.code, str(finding.subject)) for finding in found.findings]
