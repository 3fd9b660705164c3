"""One JSON line of a run to a record, and back. Hand-written: a large run has millions of lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from assay.codec.attestation import attestation_object, attestation_of
from assay.codec.plain import kind_word, number_at, read_object, require_known, text_at, whole_at
from assay.domain.attestation import Attestation
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading, SampleRef
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import InputError, did_you_mean

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a file: which run it belongs to, and which rank wrote it (None: the agent)."""

    run: str
    rank: int | None = None
    schema_version: int = SCHEMA_VERSION


LineRecord = Reading | Fact | Event | Attestation | Header

# A line has the names of its record's fields, and its type.
_READING_KEYS = frozenset(field.name for field in fields(Reading)) | {"type"}
_FACT_KEYS = frozenset(field.name for field in fields(Fact)) | {"type"}
_EVENT_KEYS = frozenset(field.name for field in fields(Event)) | {"type"}
_HEADER_KEYS = frozenset(field.name for field in fields(Header)) | {"type"}
_SAMPLES_KEYS = frozenset(field.name for field in fields(SampleRef))
_ORIGINS = {origin.value: origin for origin in Origin}


class LineDecoder:
    """Reads lines into records; subjects and recipes that repeat are made once and shared."""

    def __init__(self) -> None:
        self._subjects: dict[str, Subject] = {}
        self._recipes: dict[object, Recipe] = {}
        self._sound: set[object] = set()
        self._of_type: dict[str, Callable[[dict[str, object], str], LineRecord]] = {
            "reading": self._reading,
            "fact": self._fact,
            "event": self._event,
            "attestation": attestation_of,
            "header": self._header,
        }

    def decode(self, line: str, *, file: str, number: int) -> LineRecord:
        """The record in one line; `InputError` at file:number when it is none."""
        where = f"{file}:{number}"
        try:
            data = read_object(line)
            kind = data.get("type")
            make = self._of_type.get(kind) if isinstance(kind, str) else None
            if make is None:
                raise InputError(f"unknown type of line {kind!r}", fix=did_you_mean(str(kind), self._of_type))
            return make(data, where)
        except InputError as fault:
            raise InputError(fault.what, where=where, fix=fault.fix) from None

    def _reading(self, data: dict[str, object], where: str) -> Reading:
        # Lines of one kind have the same keys with values of the same types; those are looked at once.
        form = (tuple(data), tuple(map(type, data.values())))
        if form not in self._sound:
            _require_reading(data)
            self._sound.add(form)
        get: Callable[[str], Any] = data.get
        origin, numbers = get("origin"), (get("low"), get("high"), get("cpu_share_frac"), get("time_s"))
        for number in numbers:
            if number is not None and not math.isfinite(number):
                raise InputError(f"{number} is not a finite number")
        low, high, cpu_share_frac, time_s = numbers
        return Reading(
            quantity=get("quantity"),
            subject=self._subject(data),
            origin=Origin.MEASURED if origin is None else _origin(origin),
            value=get("value"),
            unit=get("unit"),
            recipe=self._recipe(data.get("recipe", {})),
            low=low,
            high=high,
            n=get("n"),
            replicate=whole_at(data, "replicate"),
            cpu_share_frac=cpu_share_frac,
            reason=get("reason"),
            samples=_samples(get("samples")),
            source=get("source") or where,
            time_s=time_s,
        )

    def _fact(self, data: dict[str, object], where: str) -> Fact:
        require_known(data, _FACT_KEYS, of="a fact")
        return Fact(
            key=text_at(data, "key"),
            subject=self._subject(data),
            value=_yes_no(data) if isinstance(data.get("value"), bool) else _value(data),
            unit=text_at(data, "unit"),
            reason=_reason(data),
            source=text_at(data, "source", where),
        )

    def _event(self, data: dict[str, object], where: str) -> Event:
        require_known(data, _EVENT_KEYS, of="an event")
        time_s = number_at(data, "time_s")
        if time_s is None:
            raise InputError("an event needs a time", fix="add 'time_s', seconds since the epoch")
        return Event(
            kind=text_at(data, "kind"),
            time_s=time_s,
            subject=self._subject(data),
            text=text_at(data, "text", ""),
            details=_details(data.get("details", {})),
            source=text_at(data, "source", where),
        )

    def _header(self, data: dict[str, object], where: str) -> Header:
        require_known(data, _HEADER_KEYS, of="a header")
        version = data.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(
                f"schema_version is {version!r}, but this version of assay reads {SCHEMA_VERSION}",
                fix="use the version of assay that made the run",
            )
        return Header(run=text_at(data, "run"), rank=whole_at(data, "rank"))

    def _subject(self, data: dict[str, object]) -> Subject:
        text = text_at(data, "subject")
        subject = self._subjects.get(text)
        if subject is None:
            subject = self._subjects[text] = Subject.parse(text)
        return subject

    def _recipe(self, data: object) -> Recipe:
        if not isinstance(data, dict):
            raise InputError(f"'recipe' is {kind_word(data)}, but an object is wanted")
        # The types are part of the key, because True == 1 == 1.0.
        values = tuple(data.values())
        key = (tuple(data), tuple(map(type, values)))
        try:
            cached = self._recipes.get((key, values))
        except TypeError:
            cached = None
        if cached is None:
            for name, value in data.items():
                if not isinstance(value, str | int | float):
                    raise InputError(
                        f"recipe parameter {name!r} is {kind_word(value)}, but text or a number is wanted"
                    )
            cached = self._recipes[(key, values)] = Recipe.of(data)
        return cached


def _require_reading(data: dict[str, object]) -> None:
    """Refuse unknown keys and values of a wrong type."""
    require_known(data, _READING_KEYS, of="a reading")
    _origin(text_at(data, "origin", "measured"))
    for name in ("quantity", "unit"):
        text_at(data, name)
    for name in ("low", "high", "cpu_share_frac", "time_s"):
        number_at(data, name)
    for name in ("n", "replicate"):
        whole_at(data, name)
    _value(data)
    _reason(data)
    text_at(data, "source", "")


def _origin(name: str) -> Origin:
    if name not in _ORIGINS:
        raise InputError(f"unknown origin {name!r}", fix=did_you_mean(name, _ORIGINS))
    return _ORIGINS[name]


def encode(record: LineRecord) -> dict[str, object]:
    """The plain object of a record; what is not set is left out."""
    if isinstance(record, Reading):
        return _encode_reading(record)
    if isinstance(record, Fact):
        return _encode_fact(record)
    if isinstance(record, Event):
        return _encode_event(record)
    if isinstance(record, Attestation):
        return attestation_object(record)
    return {
        "type": "header",
        "schema_version": record.schema_version,
        "run": record.run,
        "rank": record.rank,
    }


def to_line(record: LineRecord) -> str:
    """One line of text, without its newline."""
    return json.dumps(encode(record), ensure_ascii=False, allow_nan=False)


def to_text(records: Iterable[LineRecord]) -> str:
    """Many lines, each with its newline."""
    return "".join(to_line(record) + "\n" for record in records)


def _encode_reading(r: Reading) -> dict[str, object]:
    data: dict[str, object] = {
        "type": "reading",
        "quantity": r.quantity,
        "subject": str(r.subject),
        "value": r.value,
        "unit": r.unit,
        "recipe": r.recipe.as_dict(),
    }
    if r.origin is not Origin.MEASURED:
        data["origin"] = r.origin.value
    for key, value in (
        ("low", r.low),
        ("high", r.high),
        ("n", r.n),
        ("replicate", r.replicate),
        ("cpu_share_frac", r.cpu_share_frac),
        ("reason", r.reason),
        ("time_s", r.time_s),
    ):
        if value is not None:
            data[key] = value
    if r.samples is not None:
        s = r.samples
        data["samples"] = {"file": s.file, "offset": s.offset, "count": s.count, "unit": s.unit}
    if r.source:
        data["source"] = r.source
    return data


def _encode_fact(f: Fact) -> dict[str, object]:
    data: dict[str, object] = {
        "type": "fact",
        "key": f.key,
        "subject": str(f.subject),
        "value": f.value,
        "unit": f.unit,
    }
    if f.reason is not None:
        data["reason"] = f.reason
    if f.source:
        data["source"] = f.source
    return data


def _encode_event(e: Event) -> dict[str, object]:
    data: dict[str, object] = {
        "type": "event",
        "kind": e.kind,
        "time_s": e.time_s,
        "subject": str(e.subject),
    }
    if e.text:
        data["text"] = e.text
    if e.details:
        data["details"] = dict(e.details)
    if e.source:
        data["source"] = e.source
    return data


def _value(data: dict[str, object]) -> float | str | None:
    """The value of a reading or fact; it must be stated, even when it is null."""
    value = data.get("value")
    if value is None and "value" not in data:
        raise InputError("'value' is missing", fix="add 'value', or null and a 'reason'")
    if isinstance(value, bool) or not isinstance(value, float | int | str | None):
        raise InputError(f"'value' is {kind_word(value)}, but a number, text or null is wanted")
    return value


def _yes_no(data: dict[str, object]) -> str:
    """A state that the probe wrote as true or false."""
    return "yes" if data["value"] else "no"


def _reason(data: dict[str, object]) -> str | None:
    return None if data.get("reason") is None else text_at(data, "reason")


def _samples(data: object) -> SampleRef | None:
    if data is None:
        return None
    if not isinstance(data, dict):
        raise InputError(f"'samples' is {kind_word(data)}, but an object is wanted")
    if not data.keys() <= _SAMPLES_KEYS:
        require_known(data, _SAMPLES_KEYS, of="samples")
    offset, count = whole_at(data, "offset"), whole_at(data, "count")
    if offset is None or count is None:
        raise InputError("samples need an 'offset' and a 'count'")
    return SampleRef(file=text_at(data, "file"), offset=offset, count=count, unit=text_at(data, "unit"))


def _details(data: object) -> dict[str, str | int | float | None]:
    if not isinstance(data, dict):
        raise InputError(f"'details' is {kind_word(data)}, but an object is wanted")
    for name, value in data.items():
        if not isinstance(value, str | int | float | None):
            raise InputError(f"detail {name!r} is {kind_word(value)}, but text, a number or null is wanted")
    return data
