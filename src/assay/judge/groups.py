"""Leaves that are slow by themselves, and leaves that are slow only while the others talk."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.catalog.findings import finding as kind_of
from assay.domain.finding import Evidence, Finding
from assay.domain.message import Message
from assay.domain.reading import Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.judge.families import Family, Measured
from assay.judge.links import RATE_FACTOR

QUANTITY = "leaf.all_reduce.busbw"
#: Slower than the other leaves by this factor is slow over RDMA: a mean over a leaf's nodes is steady. Over
#: sockets, where hosts may share processors, the factor is that of links.
LEAF_FACTOR = 1.10
#: busbw is made to be compared between groups of unlike size.
_NOT_COMPARED = ("ranks", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A leaf at one size: bytes per second side by side and alone (None: not measured), readings behind."""

    subject: Subject
    beside_Bps: float | None
    alone_Bps: float | None
    readings: tuple[Reading, ...]


def find_slow_groups(measured: Measured) -> tuple[Finding, ...]:
    """One finding per leaf that is slow, by its largest effect over the sizes.

    Alone it is held against the median of the other leaves alone; side by side against itself alone.
    """
    worst: dict[Subject, tuple[float, Finding]] = {}
    for recipe, groups in _by_recipe(measured.families.get(QUANTITY, ())).items():
        limit = RATE_FACTOR if recipe.get("transport") == "gloo" else LEAF_FACTOR
        for group in groups:
            others = [g.alone_Bps for g in groups if g is not group and g.alone_Bps]
            usual_Bps = statistics.median(others) if others else math.nan
            for factor, finding in _judged(group, usual_Bps, len(others), limit, recipe):
                kept = worst.get(group.subject)
                if kept is None or (finding.code == "LEAF_SLOW", factor) > (
                    kept[1].code == "LEAF_SLOW",
                    kept[0],
                ):
                    worst[group.subject] = factor, finding
    return tuple(finding for _, finding in worst.values())


def _by_recipe(families: Iterable[Family]) -> Mapping[Recipe, list[_Group]]:
    values: dict[Recipe, dict[Subject, dict[str, tuple[float, Reading]]]] = {}
    for family in families:
        # Others' load on the processors only ever makes a group over sockets look worse.
        of = max if family.recipe.get("transport") == "gloo" else statistics.median
        for reading, restarts in zip(family.readings, family.values, strict=True):
            groups = values.setdefault(family.recipe.without(_NOT_COMPARED), {})
            loads = groups.setdefault(reading.subject, {})
            loads[str(family.recipe.get("load"))] = (float(of(restarts.tolist())), reading)
    return {
        recipe: [
            _Group(
                subject=subject,
                beside_Bps=loads["side_by_side"][0] if "side_by_side" in loads else None,
                alone_Bps=loads["alone"][0] if "alone" in loads else None,
                readings=tuple(reading for _, reading in loads.values()),
            )
            for subject, loads in groups.items()
        ]
        for recipe, groups in values.items()
    }


def _judged(
    group: _Group, usual_Bps: float, others: int, limit: float, recipe: Recipe
) -> Iterable[tuple[float, Finding]]:
    if not group.alone_Bps:
        return
    slower = usual_Bps / group.alone_Bps
    if slower > limit:
        told = Message.of(
            "because.group_slow",
            quantity=QUANTITY,
            deviation_frac=1 / slower - 1,
            siblings=others,
            recipe=str(recipe),
        )
        yield slower, _finding("LEAF_SLOW", group, told)
    elif group.beside_Bps and (crowded := group.alone_Bps / group.beside_Bps) > limit:
        told = Message.of("because.group_contention", quantity=QUANTITY, crowded=crowded, recipe=str(recipe))
        yield crowded, _finding("LINK_CONTENTION", group, told)


def _finding(code: str, group: _Group, because: Message) -> Finding:
    return Finding(
        code=code,
        severity=kind_of(code).severity,
        subject=group.subject,
        because=because,
        evidence=tuple(
            Evidence.at(
                r.source, f"{r.recipe.get('load')}: {QUANTITY} of {r.subject}: {r.number:.3g} {r.unit}"
            )
            for r in group.readings
        ),
    )
