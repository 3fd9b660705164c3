"""Facts about machines → findings: what differs, what is shared or cut down, what runs below its means.

Thresholds and their sources stand beside the rules: `agreement` (what should be the same, and what should
be the only one), `gpus`, `links` (PCIe and network ports) and `hosts` (processors, limits, programs).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator

from assay.domain.fact import Fact
from assay.domain.finding import Evidence, Finding
from assay.domain.reading import Reading
from assay.domain.subject import CLUSTER
from assay.judge.environment.agreement import differences, duplicates
from assay.judge.environment.gpus import gpu_findings
from assay.judge.environment.hosts import host_findings, missing_tools
from assay.judge.environment.links import link_findings
from assay.judge.environment.table import FactTable

__all__ = ["environment_findings"]

#: From this many subjects on, what most of their kind have in common is told once.
_COMMON_FROM = 4
_EVIDENCE_KEPT = 3


def environment_findings(
    facts: Iterable[Fact], *, ranks: int, readings: Iterable[Reading] = ()
) -> tuple[Finding, ...]:
    """Findings about the machines of a run with so many ranks in all, worst first.

    `readings` only tell which programs a benchmark went without. A healthy machine has no finding above
    low, and a fact that could not be read is never held against it. What most subjects of a kind have alike
    is told once, about the cluster.
    """
    table = FactTable(facts)
    found = (
        *differences(table),
        *duplicates(table),
        *gpu_findings(table),
        *link_findings(table),
        *host_findings(table, ranks),
        *missing_tools(readings),
    )
    return tuple(sorted(_common_once(found, table), key=lambda f: (f.severity.rank, f.code, f.subject)))


def _common_once(found: Iterable[Finding], table: FactTable) -> Iterator[Finding]:
    """What more than half of a kind of subject have alike is how the cluster was set up: one finding."""
    groups: dict[object, list[Finding]] = defaultdict(list)
    for one in found:
        groups[one.code, one.severity, one.subject.kind, one.because].append(one)
    for alike in groups.values():
        kind = alike[0].subject.kind
        every = len(table.subjects(kind))
        if len(alike) < _COMMON_FROM or 2 * len(alike) <= every:
            yield from alike
            continue
        evidence = [e for one in alike[:_EVIDENCE_KEPT] for e in one.evidence[:1]]
        more = Evidence(file="", line=None, text=f"the same on {len(alike)} of {every} ({kind})")
        yield dataclasses.replace(alike[0], subject=CLUSTER, evidence=(*evidence, more))
