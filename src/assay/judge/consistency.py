"""Whether figures can be trusted: against another program's, and against themselves over time."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.judge.families import QuantityOf, gather
from assay.judge.polish import p_of_chance, sigma
from assay.units import show

#: Two programs with the same loop and averaging differ by noise only; beyond this, by something else.
_DISAGREE_FRAC = 0.03
#: What both recipes must share for the two to be about the same thing.
_SAME_WORK = ("bytes", "ranks", "dtype", "transport")
#: (max−min)/median over the sustained windows of one restart. SuperBench calls a card defective that is 5 %
#: below its fleet, so a card that moves by as much while it is watched cannot be told from a defective one.
_WINDOWS_FRAC = 0.05
#: (max−min)/median over restarts: clocks and allocation are drawn anew in each, which doubles it.
_RESTARTS_FRAC = 0.10
#: A restart or window this far below the median is called a gap.
_GAP_FRAC = 0.02
_EVIDENCE_SHOWN = 12
#: From so many siblings on their noise is known, and none is named for what chance does to one of them.
_SIBLINGS_LEAST = 16
_ERROR_FRAC = 0.01
_Key = TypeVar("_Key", bound=tuple[object, ...])


def find_inconsistent(readings: Iterable[Reading], quantity_of: QuantityOf) -> tuple[Finding, ...]:
    """Findings about measured readings, one per restart: NCCL_TESTS_DISAGREE and SHAPE_UNSTABLE."""
    measured = [r for r in readings if r.origin is Origin.MEASURED and "<" not in r.quantity]
    return (*_disagreements(measured, quantity_of), *_gaps(measured))


def _disagreements(readings: Iterable[Reading], quantity_of: QuantityOf) -> Iterator[Finding]:
    """busbw of nccl-tests against our pipelined loop at the same bytes, ranks, dtype and transport."""
    busbw = [r for r in readings if r.quantity.startswith("collective.") and r.quantity.endswith(".busbw")]
    pairs: dict[tuple[object, ...], dict[object, Reading]] = defaultdict(dict)
    for reading in gather(busbw, quantity_of).aggregated():
        if reading.number:
            work = tuple(reading.recipe.get(name) for name in _SAME_WORK)
            pairs[reading.quantity, work][reading.recipe.get("method")] = reading
    for methods in pairs.values():
        ours, theirs = methods.get("pipelined"), methods.get("nccl-tests")
        if ours is None or theirs is None or not ours.number or not theirs.number:
            continue
        deviation_frac = theirs.number / ours.number - 1
        if abs(deviation_frac) > _DISAGREE_FRAC:
            yield _disagreement(ours, theirs, deviation_frac)


def _disagreement(ours: Reading, theirs: Reading, deviation_frac: float) -> Finding:
    """Sure only where the intervals of both leave a gap between them."""
    apart = (
        ours.low is not None
        and ours.high is not None
        and theirs.low is not None
        and theirs.high is not None
        and (ours.high < theirs.low or theirs.high < ours.low)
    )
    return Finding(
        code="NCCL_TESTS_DISAGREE",
        severity=Severity.MEDIUM,
        subject=ours.subject,
        because=Message.of(
            "because.nccl_tests_disagree",
            quantity=ours.quantity,
            message_bytes=ours.recipe.get("bytes"),
            theirs_Bps=theirs.number,
            ours_Bps=ours.number,
            deviation_frac=deviation_frac,
            limit_frac=_DISAGREE_FRAC,
        ),
        confidence_frac=1.0 if apart else 0.6,
        evidence=tuple(
            _evidence(r, f"{r.recipe.get('method')}: {show(r.value, r.unit)}") for r in (ours, theirs)
        ),
    )


def _gaps(readings: Iterable[Reading]) -> Iterator[Finding]:
    """One finding per subject whose GEMM rate is unsteady, between restarts or within them.

    It tells the largest change; the others are its evidence.
    """
    rates: dict[tuple[Subject, str, Recipe], list[Reading]] = defaultdict(list)
    windows: dict[tuple[Subject, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        family, _, rest = reading.quantity.partition(".")
        if family != "gemm" or not reading.number:
            continue
        dtype, _, what = rest.partition(".")
        if what == "rate":
            rates[reading.subject, dtype, reading.recipe].append(reading)
        elif what == "fluctuation":
            windows[reading.subject, dtype].append(reading)
    unsteady: dict[Subject, list[Finding]] = defaultdict(list)
    changes = {key: _moved_frac([r.number for r in same]) for key, same in rates.items()}
    for key in _beyond_siblings(changes):
        for finding in _between_restarts(rates[key]):
            unsteady[finding.subject].append(finding)
    moves = {key: max(r.number or 0.0 for r in same) for key, same in windows.items()}
    for at in _beyond_siblings(moves):
        for finding in _within_restarts(windows[at]):
            unsteady[finding.subject].append(finding)
    for found in unsteady.values():
        found.sort(key=_change_frac, reverse=True)
        every = tuple(evidence for finding in found for evidence in finding.evidence)
        yield dataclasses.replace(found[0], evidence=every[:_EVIDENCE_SHOWN])


def _beyond_siblings(changes: Mapping[_Key, float]) -> list[_Key]:
    """Keys, a subject first in each, whose change is more than chance does to one of so many.

    Where all of many cards are noisy, some move by more than the limit. A card's change is held against its
    siblings' by their median and median absolute deviation; of a few cards all are kept.
    """
    families: dict[object, list[_Key]] = defaultdict(list)
    for key in changes:
        families[key[1:]].append(key)
    kept: list[_Key] = []
    for keys in families.values():
        every = np.array([changes[key] for key in keys])[:, None]
        excess = every - np.median(every)
        by_chance = p_of_chance(excess, sigma(excess)) > _ERROR_FRAC / len(keys)
        few = len(keys) < _SIBLINGS_LEAST
        kept += [key for key, chance in zip(keys, by_chance, strict=True) if few or not chance]
    return kept


def _moved_frac(values: list[float | None]) -> float:
    """(max−min)/median."""
    numbers = np.array(values, dtype=float)
    return float((numbers.max() - numbers.min()) / np.median(numbers))


def _between_restarts(readings: list[Reading]) -> Iterator[Finding]:
    """How the rate went from restart to restart, in the order of time."""
    ordered = sorted(readings, key=lambda r: (r.time_s or 0.0, r.replicate or 0))
    median = float(np.median([r.number or 0.0 for r in ordered]))
    change_frac = _moved_frac([r.number for r in ordered])
    if len(ordered) < 2 or change_frac <= _RESTARTS_FRAC:
        return
    lowest = min(ordered, key=lambda r: r.number or 0.0)
    low = [r for r in ordered if (r.number or 0.0) < (1 - _GAP_FRAC) * median] or [lowest]
    told = [f"{show(r.value, r.unit)}, {(r.number or 0.0) / median - 1:+.1%}" for r in ordered]
    yield _unstable(
        ordered,
        "because.rate_gaps",
        tuple(_evidence(r, f"{_when(r, ordered)}: {said}") for r, said in zip(ordered, told, strict=True)),
        change_frac=change_frac,
        limit_frac=_RESTARTS_FRAC,
        restarts=len(ordered),
        times=", ".join(_when(r, ordered) for r in low),
    )


def _within_restarts(readings: list[Reading]) -> Iterator[Finding]:
    """Restarts in which the rate moved from window to window by more than the limit, in the order of time."""
    ordered = sorted(readings, key=lambda r: (r.time_s or 0.0, r.replicate or 0))
    moved = [r for r in ordered if (r.number or 0.0) > _WINDOWS_FRAC]
    if not moved:
        return
    yield _unstable(
        ordered,
        "because.window_gaps",
        tuple(_evidence(r, f"{_when(r, ordered)}: {show(r.value, r.unit)}") for r in moved),
        change_frac=max(r.number or 0.0 for r in moved),
        limit_frac=_WINDOWS_FRAC,
        moved=len(moved),
        restarts=len(ordered),
        times=", ".join(_when(r, ordered) for r in moved),
    )


def _unstable(
    readings: list[Reading], code: str, evidence: tuple[Evidence, ...], **values: str | int | float
) -> Finding:
    """On the CPU the operating system is a neighbour that is always there, so it counts for less."""
    first = readings[0]
    on_cpu = first.recipe.get("threads") is not None
    return Finding(
        code="SHAPE_UNSTABLE",
        severity=Severity.LOW if on_cpu else Severity.MEDIUM,
        subject=first.subject,
        because=Message.of(code, quantity=first.quantity, **values),
        evidence=evidence,
    )


def _change_frac(finding: Finding) -> float:
    change = dict(finding.because.values)["change_frac"]
    return change if isinstance(change, float) else 0.0


def _when(reading: Reading, ordered: list[Reading]) -> str:
    """`#2 (+41 s)`: the restart and the time since the first of the series, where times are known."""
    first_s = ordered[0].time_s
    name = f"#{reading.replicate if reading.replicate is not None else ordered.index(reading)}"
    if reading.time_s is None or first_s is None:
        return name
    return f"{name} (+{show(reading.time_s - first_s, 's')})"


def _evidence(reading: Reading, text: str) -> Evidence:
    return Evidence.at(reading.source, f"{reading.quantity} of {reading.subject}, {text}")
