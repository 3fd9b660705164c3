"""What a soak shows: how rarely things fail, at the least, and whether rates change in the course of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.event import Event
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.stats import Floats, normal_cdf

LEVEL = 0.95
#: A change of rate over the whole soak that matters, and the error of all subjects together.
_DRIFT_FRAC, _ALPHA = 0.02, 0.01
_SLICES_LEAST = 6
_FAILED = ("rank_lost", "rank_late", "task_failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """The findings of a soak, the readings that follow from it, and what it shows in words."""

    findings: tuple[Finding, ...] = ()
    readings: tuple[Reading, ...] = ()
    notes: tuple[Message, ...] = ()


def mtbf_shown_s(duration_s: float, failures: int, level: float = LEVEL) -> float:
    """The mean time between failures that is shown: with a shorter one, so few have a chance below 1 − level.

    Failures come as a Poisson process. Duration over the mean m with P(X ≤ failures; m) = 1 − level: m is 3.0
    without a failure (the rule of three) and 4.7 with one.
    """
    low, high = 0.0, failures + 10.0 + 10.0 * math.sqrt(failures + 1.0)
    for _ in range(80):
        mean = (low + high) / 2
        term = total = math.exp(-mean)
        for k in range(1, failures + 1):
            term *= mean / k
            total += term
        low, high = (mean, high) if total > 1 - level else (low, mean)
    return duration_s / high


def find_soaked(readings: Sequence[Reading], events: Sequence[Event]) -> Soaked:
    """Judge the soak of a run; nothing where there is none."""
    measured = [r for r in readings if r.origin is Origin.MEASURED and r.number is not None]
    lasted: dict[Subject, float] = defaultdict(float)
    for r in measured:
        if r.quantity == "soak.duration":
            lasted[r.subject] += r.number or 0.0
    if not lasted:
        return Soaked()
    hosts = {e.subject: str(e.details.get("host", "")) for e in events if e.kind == "worker_started"}
    nodes: dict[str, float] = defaultdict(float)
    for subject, duration_s in lasted.items():
        node = _node(subject, hosts)
        nodes[node] = max(nodes[node], duration_s)
    failed = _failures(measured, events, hosts)
    whole_s, failures = max(nodes.values()), sum(failed.values())
    shown = [_shown(CLUSTER, whole_s, failures, "session")]
    shown += [
        _shown(Subject("node", node), s, failed[node], "node") for node, s in sorted(nodes.items()) if node
    ]
    pooled_s = mtbf_shown_s(sum(nodes.values()), failures)
    note = Message.of(
        "note.soak_shows",
        lasted_s=whole_s,
        nodes=len(nodes),
        failures=failures,
        whole_s=mtbf_shown_s(whole_s, failures),
        node_s=min(mtbf_shown_s(s, failed[node]) for node, s in nodes.items()),
        pooled_s=pooled_s,
    )
    return Soaked(findings=tuple(_findings(measured)), readings=tuple(shown), notes=(note,))


def _node(subject: Subject, hosts: Mapping[Subject, str]) -> str:
    """The node of a rank, of a card, or the node itself; "" for what belongs to none."""
    if subject.kind in ("gpu", "node"):
        return subject.name.partition("/")[0]
    return hosts.get(subject, "")


def _failures(
    readings: Iterable[Reading], events: Iterable[Event], hosts: Mapping[Subject, str]
) -> Counter[str]:
    """Failures by node: lost ranks, slices with wrong results, lost links; those of no node count for ""."""
    failed: Counter[str] = Counter()
    for r in readings:
        wrong = r.quantity in ("soak.wrong_sums", "soak.link_losses") or r.quantity.endswith(
            ".unlike_repeats"
        )
        if wrong and r.number:
            failed[_node(r.subject, hosts)] += int(r.number) if r.quantity == "soak.link_losses" else 1
    told: set[object] = set()
    for event in events:
        task = event.details.get("replicate")
        if event.kind not in _FAILED or event.details.get("benchmark") != "soak":
            continue
        if event.subject != CLUSTER:
            failed[_node(event.subject, hosts)] += 1
            told.add(task)
        elif task not in told:
            failed[""] += 1
    return failed


def _shown(subject: Subject, duration_s: float, failures: int, of: str) -> Reading:
    return Reading(
        quantity="soak.mtbf_shown",
        subject=subject,
        origin=Origin.MEASURED,
        value=mtbf_shown_s(duration_s, failures),
        unit="s",
        recipe=Recipe.of(level=LEVEL, of=of),
        n=failures + 1,
        replicate=0,
        source="soak.duration",
    )


def _findings(readings: Sequence[Reading]) -> Iterable[Finding]:
    for code, quantity in (("SOAK_WRONG_RESULT", "soak.wrong_sums"), ("LINK_DROPPED", "soak.link_losses")):
        wrong: dict[Subject, list[Reading]] = defaultdict(list)
        for r in readings:
            if r.quantity == quantity and r.number:
                wrong[r.subject].append(r)
        for subject, found in sorted(wrong.items()):
            because = Message.of(
                f"because.{quantity}", count=int(sum(r.number or 0 for r in found)), slices=len(found)
            )
            yield _finding(code, Severity.CRITICAL, subject, because, found)
    yield from _drifts(readings)


def _drifts(readings: Sequence[Reading]) -> Iterable[Finding]:
    series: dict[Subject, list[Reading]] = defaultdict(list)
    for r in readings:
        if r.recipe.get("load") == "soak" and r.quantity.endswith(".rate"):
            series[r.subject].append(r)
    for subject, found in sorted(series.items()):
        rates = np.array([r.number or 0.0 for r in sorted(found, key=lambda r: r.replicate or 0)])
        if len(rates) < _SLICES_LEAST:
            continue
        change_frac, p = trend(rates)
        if change_frac < -_DRIFT_FRAC and p < _ALPHA / len(series):
            because = Message.of("because.rate_drifts", change_frac=change_frac, slices=len(rates))
            yield _finding("RATE_DRIFTS", Severity.HIGH, subject, because, found)


def trend(values: Floats) -> tuple[float, float]:
    """Change over a series as a fraction (Theil–Sen on the logarithm), and its p-value (Mann–Kendall)."""
    n = len(values)
    at = np.arange(n)
    early, late = np.triu_indices(n, k=1)
    logs = np.log(values)
    slope = float(np.median((logs[late] - logs[early]) / (at[late] - at[early])))
    score = float(np.sign(logs[late] - logs[early]).sum())
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(0.0, abs(score) - 1) / deviation
    return math.expm1(slope * (n - 1)), 2 * (1 - float(normal_cdf(z)))


def _finding(
    code: str, severity: Severity, subject: Subject, because: Message, found: Sequence[Reading]
) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        subject=subject,
        because=because,
        evidence=tuple(
            Evidence.at(r.source, f"{r.quantity} of {r.subject}, slice {(r.replicate or 0) + 1}: {r.value}")
            for r in found[:5]
        ),
    )
