"""Lines of recorded events: events as in a run folder, and samples of many subjects in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

import numpy as np

from assay.codec.lines import LineDecoder, encode
from assay.codec.plain import kind_word, number_at, read_object, text_at
from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.errors import InputError


class TelemetryDecoder:
    """Reads lines of `event`, `samples` and `subjects`; a list of subjects is made once and shared.

    `{"type": "subjects", "name": "gpus", "subjects": ["gpu:n1/0", …]}` names a list, and
    `{"type": "samples", "metric": …, "time_s": …, "subjects": "gpus", "values": [1.5, null, …]}` uses it;
    samples may also have a list of their own.
    """

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._named: dict[str, tuple[Subject, ...]] = {}
        self._lists: dict[tuple[str, ...], tuple[Subject, ...]] = {}

    def decode(self, line: str, *, file: str, number: int) -> Event | Samples | None:
        """The record of one line, None for a list of subjects or a header; `InputError` at file:number."""
        if not line.startswith('{"type": "samples"') and '"samples"' not in line and '"subjects"' not in line:
            record = self._lines.decode(line, file=file, number=number)
            return record if isinstance(record, Event) else None
        where = f"{file}:{number}"
        try:
            data = read_object(line)
            if data.get("type") == "subjects":
                self._named[text_at(data, "name")] = self._subjects(data.get("subjects"))
                return None
            return self._samples(data, where)
        except InputError as fault:
            raise InputError(fault.what, where=where, fix=fault.fix) from None

    def _samples(self, data: dict[str, object], where: str) -> Samples:
        time_s = number_at(data, "time_s")
        if time_s is None:
            raise InputError("samples need a time", fix="add 'time_s', seconds since the epoch")
        values = data.get("values")
        if not isinstance(values, list):
            raise InputError(f"'values' is {kind_word(values)}, but a list of numbers is wanted")
        try:
            numbers = np.array([math.nan if v is None else v for v in values], dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("'values' has something that is no number", fix="write null for none") from None
        return Samples(
            metric=text_at(data, "metric"),
            time_s=time_s,
            subjects=self._subjects(data.get("subjects")),
            values=numbers,
            source=text_at(data, "source", where),
        )

    def _subjects(self, given: object) -> tuple[Subject, ...]:
        if isinstance(given, str):
            if given not in self._named:
                raise InputError(f"no list of subjects is named {given!r}", fix="name it in a line before")
            return self._named[given]
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise InputError(f"'subjects' is {kind_word(given)}, but a list of subjects is wanted")
        key = tuple(given)
        if key not in self._lists:
            self._lists[key] = tuple(map(Subject.parse, key))
        return self._lists[key]


def decode_all(lines: Iterable[str], *, file: str) -> Iterator[Event | Samples]:
    """Every event and batch of samples of a file."""
    decoder = TelemetryDecoder()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = decoder.decode(line.rstrip("\n"), file=file, number=number)
            if record is not None:
                yield record


def encode_item(item: Event | Samples) -> dict[str, object]:
    """The plain object of an event or a batch of samples; a value that is not finite is null, or its word."""
    if isinstance(item, Event):
        data = encode(item)
        details = data.get("details")
        if isinstance(details, dict):
            data["details"] = {k: str(v) if _odd(v) else v for k, v in details.items()}
        return data
    return {
        "type": "samples",
        "metric": item.metric,
        "time_s": item.time_s,
        "subjects": [str(subject) for subject in item.subjects],
        "values": [None if _odd(v) else v for v in item.values.tolist()],
    }


def to_line(item: Event | Samples) -> str:
    """One line of text, without its newline."""
    return json.dumps(encode_item(item), ensure_ascii=False, allow_nan=False)


def _odd(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
