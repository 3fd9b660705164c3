"""An attestation as a line of a run, and the transport of a result as an object of an answer."""

from __future__ import annotations

from dataclasses import fields

from assay.codec.plain import kind_word, number_at, require_known, text_at, whole_at
from assay.domain.attestation import TOLD, Attestation, Attested, Calls, Counted, Told, Way
from assay.errors import InputError

_KEYS = ("type", "benchmark", "replicate", "rank", "host", "transport", "told", "calls", "counted", "rails")
_OPTIONAL = ("rails", "source")
_TOLD_KEYS, _COUNTED_KEYS = (tuple(f.name for f in fields(record)) for record in (Told, Counted))
_CALLS_KEYS = tuple(f.name for f in fields(Calls))


def attestation_of(data: dict[str, object], where: str) -> Attestation:
    """The record in the object of a line; `InputError` when it is none."""
    require_known(data, (*_KEYS, *_OPTIONAL), of="an attestation")
    told = _object(data, "told")
    require_known(told, TOLD, of="what is told of a transport")
    return Attestation(
        benchmark=text_at(data, "benchmark"),
        replicate=_whole(data, "replicate"),
        rank=_whole(data, "rank"),
        host=text_at(data, "host"),
        transport=text_at(data, "transport"),
        **{key: _told(_object(told, key)) for key in TOLD},
        calls=tuple(_calls(one) for one in _objects(data, "calls")),
        counted=tuple(_counted(one) for one in _objects(data, "counted")),
        rails=tuple((port, _whole(_object(data, "rails"), port)) for port in _object(data, "rails"))
        if "rails" in data
        else (),
        source=text_at(data, "source", where),
    )


def attestation_object(a: Attestation) -> dict[str, object]:
    """The object of a line; what is not set is left out."""
    return {
        "type": "attestation",
        "benchmark": a.benchmark,
        "replicate": a.replicate,
        "rank": a.rank,
        "host": a.host,
        "transport": a.transport,
        "told": {key: _told_object(getattr(a, key)) for key in TOLD},
        "calls": [{name: getattr(one, name) for name in _CALLS_KEYS} for one in a.calls],
        "counted": [
            {"over": one.over, "device": one.device, "bytes": one.bytes}
            | {k: v for k, v in (("reason", one.reason), ("source", one.source)) if v}
            for one in a.counted
        ],
        "rails": dict(a.rails),
    } | ({"source": a.source} if a.source else {})


def attested_object(a: Attested) -> dict[str, object]:
    """The transport of a result; each thing that is not known is null beside its reason."""
    return {
        "id": a.id,
        "benchmark": a.benchmark,
        "op": a.op,
        "bytes": a.bytes,
        "ranks": a.ranks,
        "transport": a.transport,
        "standing": a.standing.value,
        "standings": {standing.value: count for standing, count in a.standings},
        **{name: _told_object(getattr(a, name)) for name in (*TOLD, "algorithm", "registration")},
        "ways": [_way_object(way) for way in a.ways],
        "rails": [_way_object(way) for way in a.rails],
    }


def _way_object(way: Way) -> dict[str, object]:
    data: dict[str, object] = {
        "over": way.over,
        "node": way.node,
        "replicate": way.replicate,
        "expected_bytes": way.expected_bytes,
        "counted_bytes": way.counted_bytes,
        "share_frac": way.share_frac,
    }
    return data | {k: v for k, v in (("device", way.device), ("reason", way.reason)) if v}


def _told_object(told: Told) -> dict[str, object]:
    data: dict[str, object] = {"value": told.value}
    return data | {k: v for k, v in (("reason", told.reason), ("source", told.source)) if v}


def _told(data: dict[str, object]) -> Told:
    require_known(data, _TOLD_KEYS, of="a thing told of a transport")
    value, reason = data.get("value"), data.get("reason")
    return Told(
        value=None if value is None else text_at(data, "value"),
        reason=None if reason is None else text_at(data, "reason"),
        source=text_at(data, "source", ""),
    )


def _calls(data: dict[str, object]) -> Calls:
    require_known(data, _CALLS_KEYS, of="calls")
    op = text_at(data, "op")
    size, ranks, nodes, here, count = (_whole(data, name) for name in _CALLS_KEYS[1:])
    return Calls(op=op, bytes=size, ranks=ranks, nodes=nodes, here=here, count=count)


def _counted(data: dict[str, object]) -> Counted:
    require_known(data, _COUNTED_KEYS, of="bytes counted")
    return Counted(
        over=text_at(data, "over"),
        device=text_at(data, "device"),
        bytes=number_at(data, "bytes"),
        reason=None if data.get("reason") is None else text_at(data, "reason"),
        source=text_at(data, "source", ""),
    )


def _whole(data: dict[str, object], key: str) -> int:
    value = whole_at(data, key)
    if value is None:
        raise InputError(f"{key!r} is missing", fix=f"add {key!r}: a whole number")
    return value


def _object(data: dict[str, object], key: str) -> dict[str, object]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise InputError(f"{key!r} is {kind_word(value)}, but an object is wanted")
    return value


def _objects(data: dict[str, object], key: str) -> list[dict[str, object]]:
    value = data.get(key)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InputError(f"{key!r} is {kind_word(value)}, but a list of objects is wanted")
    return value
