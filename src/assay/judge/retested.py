"""What was slow in a crowded round, measured again alone: a bad link stays slow, contention does not.

While every node talks to another, links share what lies between them. A suspect is therefore measured again
with nothing else on the network, and with partners that are known to be good, before it is named.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.quantity import Better
from assay.domain.reading import Reading
from assay.domain.subject import Subject
from assay.judge.families import Family, Measured

#: Part of a slowdown (of its logarithm) that must be left when alone, for it to be the link's own.
_LEFT_FRAC = 0.5
_SUSPECTED = ("LINK_SLOW", "LINK_SLOW_ONE_WAY", "NODE_SLOW")
#: Pairs that a retest takes at most: each costs seconds of the whole cluster's time.
PAIRS_MOST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Retests:
    """Families that were measured alone, to hold findings against."""

    families: tuple[Family, ...]

    def settle(self, findings: Iterable[Finding], measured: Measured) -> tuple[Finding, ...]:
        """The findings; what is not slow alone is contention. What was not measured again stays as it is."""
        return tuple(self._settled(finding, measured) for finding in findings)

    def _settled(self, finding: Finding, measured: Measured) -> Finding:
        told = dict(finding.because.values)
        departure, quantity, recipe = told.get("deviation_frac"), told.get("quantity"), told.get("recipe")
        if finding.code not in _SUSPECTED or not isinstance(departure, float):
            return finding
        for alone in self.families:
            usual = _usual(alone, measured, finding.subject, str(recipe))
            again = [r for r in alone.readings if r.number and _is_about(finding.subject, r.subject)]
            if alone.quantity.id != quantity or usual is None or not again:
                continue
            better = alone.quantity.better
            crowded = 1 / (1 + departure) if better is Better.HIGHER else 1 + departure
            left = min(_cost(r.number or 0.0, better) for r in again) / usual
            if math.log(max(left, 1e-9)) >= _LEFT_FRAC * math.log(crowded):
                return dataclasses.replace(finding, evidence=(*finding.evidence, *_evidence(again)))
            return Finding(
                code="LINK_CONTENTION",
                severity=Severity.MEDIUM,
                subject=finding.subject,
                because=Message.of(
                    "because.contention", quantity=str(quantity), crowded=crowded, alone=left, n=len(again)
                ),
                evidence=(*finding.evidence[:3], *_evidence(again)),
            )
        return finding


def without_retests(measured: Measured) -> tuple[Measured, Retests]:
    """What was measured at large, and the retests, which must not be judged as its siblings."""
    alone = [f for group in measured.families.values() for f in group if is_retest(f)]
    left = {name: tuple(f for f in group if not is_retest(f)) for name, group in measured.families.items()}
    kept: Mapping[str, tuple[Family, ...]] = {name: group for name, group in left.items() if group}
    return dataclasses.replace(measured, families=dict(kept)), Retests(families=tuple(alone))


def is_retest(family: Family) -> bool:
    """Whether a family of links was measured alone, or counts what was sent meanwhile."""
    alone = family.recipe.get("span") == "nodes" and family.recipe.get("load") == "alone"
    return alone or family.recipe.get("benchmark") == "pairs_alone"


def suspects(findings: Iterable[Finding], nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of nodes to measure again alone: each suspect with good partners, and a suspected pair itself."""
    accused = [f.subject for f in findings if f.code in _SUSPECTED and _nodes_of(f.subject, nodes)]
    bad = {node for subject in accused for node in _nodes_of(subject, nodes)}
    good = [node for node in nodes if node not in bad] or list(nodes)
    pairs: dict[tuple[str, str], None] = {}
    for at, subject in enumerate(sorted(accused)):
        ends = _nodes_of(subject, nodes)
        if len(ends) == 2:
            pairs[_pair(*ends)] = None
        for node in ends:
            partners = [other for other in good[at % len(good) :] + good[: at % len(good)] if other != node]
            for partner in partners[: 3 - len(ends)]:
                pairs[_pair(node, partner)] = None
    return list(pairs)[:PAIRS_MOST]


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _nodes_of(subject: Subject, nodes: Sequence[str]) -> list[str]:
    return [end for end in subject.ends if end in nodes] if subject.kind in ("node", "link", "pair") else []


def _is_about(suspect: Subject, again: Subject) -> bool:
    """Whether a retest of a link or pair bears on the suspect."""
    if suspect.kind == "pair":
        return set(suspect.ends) == set(again.ends)
    if suspect.kind == "node":
        return suspect.name in again.ends
    if again.kind == "pair":
        return set(suspect.ends) - {"*"} <= set(again.ends)
    return all(mine in ("*", other) for mine, other in zip(suspect.ends, again.ends, strict=True))


def _usual(alone: Family, measured: Measured, suspect: Subject, told: str) -> float | None:
    """The median cost of all but the suspect in the crowded family that told of it, if otherwise alike."""
    recipe = alone.recipe.without(["load"])
    for family in measured.families.get(alone.quantity.id, ()):
        others = [r for r in family.readings if not _is_about(suspect, r.subject)]
        if str(family.recipe) == told and family.recipe.without(["load"]) == recipe and others:
            return statistics.median(_cost(r.number or 0.0, family.quantity.better) for r in others)
    return None


def _cost(value: float, better: Better) -> float:
    """A time, or one over a rate."""
    return 1 / max(value, 1e-12) if better is Better.HIGHER else value


def _evidence(again: Sequence[Reading]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence.at(r.source, f"alone: {r.quantity} of {r.subject}: {r.number:.3g} {r.unit}") for r in again
    )
