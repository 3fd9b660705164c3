"""The transport of results as words: what is known, what is not and why, bytes expected beside counted."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.catalog.messages import Texts
from assay.domain.attestation import TOLD, Attested, Standing, Told, Way
from assay.domain.message import Message
from assay.units import show

#: What is told of a transport, in the order in which it is shown.
FIELDS = (*TOLD, "algorithm", "registration")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportView:
    """The transport of one result: rows of text, and in `unknown` names beside the reason that they share."""

    id: str
    anchor: str
    standing: Standing
    title: str
    word: str
    known: tuple[tuple[str, str, str], ...]
    unknown: tuple[tuple[str, str], ...]
    ways: tuple[WayView, ...]
    rails: tuple[WayView, ...]
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WayView:
    """Bytes over one kind of device: where, expected, counted and their ratio; `reason` where not counted."""

    over: str
    place: str
    expected: str
    counted: str
    share: str
    reason: str


def transports(attested: Iterable[Attested], texts: Texts) -> dict[str, TransportView]:
    """The views by the ids of their attestations; the first of a benchmark without proof is `open`."""
    views: dict[str, TransportView] = {}
    seen: set[str] = set()
    for one in attested:
        bad = one.standing in (Standing.SOCKETS, Standing.UNATTESTED)
        views[one.id] = dataclasses.replace(_view(one, texts), open=bad and one.benchmark not in seen)
        seen.add(one.benchmark)
    return views


def by_benchmark(attested: Iterable[Attested], texts: Texts) -> tuple[TransportView, ...]:
    """One view per benchmark whose bytes left a node or went over NVLink, with what all of its calls took.

    What stays within a node over host memory needs no proof of its way.
    """
    groups: dict[str, list[Attested]] = defaultdict(list)
    for one in attested:
        if one.standing is not Standing.WITHIN or any(way.over.startswith("nvlink") for way in one.ways):
            groups[one.benchmark].append(one)
    return tuple(
        _view(
            dataclasses.replace(
                those[0],
                op=None,
                bytes=None,
                ranks=None,
                algorithm=_taken([one.algorithm for one in those]),
                registration=_taken([one.registration for one in those]),
            ),
            texts,
        )
        for those in groups.values()
    )


def _taken(told: Sequence[Told]) -> Told:
    """What several calls took, each once; why it is not known where it is not for any."""
    values = sorted({one.value for one in told if one.value is not None})
    return Told(value=", ".join(values), source=told[0].source) if values else told[0]


def _view(one: Attested, texts: Texts) -> TransportView:
    told: list[tuple[str, Told]] = [(texts.label(f"transport.{name}"), getattr(one, name)) for name in FIELDS]
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, each in told:
        if each.value is None:
            reasons[each.reason or ""].append(name)
    size = "" if one.bytes is None else f" · {show(one.bytes, 'B')}"
    return TransportView(
        id=one.id,
        anchor=f"transport-{one.id.replace('/', '-')}",
        standing=one.standing,
        title=one.benchmark + (f" · {texts.word(one.op)}{size}" if one.op else ""),
        word=texts.label(f"standing.{one.standing.value}"),
        known=tuple((name, each.value, each.source) for name, each in told if each.value is not None),
        unknown=tuple((", ".join(names), reason) for reason, names in reasons.items()),
        # Where nothing had to go there is nothing to hold a count against.
        ways=tuple(_way(way, texts) for way in one.ways if way.expected_bytes != 0),
        rails=tuple(_way(way, texts) for way in one.rails),
    )


def _way(way: Way, texts: Texts) -> WayView:
    restart = texts.say(Message.of("transport.at_restart", node=way.node, restart=way.replicate))
    return WayView(
        over=texts.label(f"way.{way.over}"),
        place=way.device or restart,
        expected="–" if way.expected_bytes is None else show(way.expected_bytes, "B"),
        counted="–" if way.counted_bytes is None else show(way.counted_bytes, "B"),
        share="–" if way.share_frac is None else show(way.share_frac, "1"),
        reason=way.reason or "",
    )
