"""Lines of the ledger to records, and back. Each has an id, so that it counts once, whoever wrote it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from assay.codec.plain import number_at, text_at, texts_at, whole_at
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.incident import Change, Incident, Step
from assay.domain.ledger import SPENT, Entry, JobTime, Recovery, Session, Spent, Taken, Watched
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.errors import InputError, did_you_mean

SCHEMA_VERSION = 1
_TYPE = {
    Change: "incident",
    Watched: "watched",
    Session: "session",
    JobTime: "job_time",
    Taken: "action",
    Recovery: "recovery",
}


def entry_id(entry: Entry) -> str:
    """The same for the same entry, also when another watcher of the same day writes it."""
    if isinstance(entry, Change):
        key: tuple[object, ...] = (entry.incident.id, entry.step.value, round(entry.time_s, 3))
    elif isinstance(entry, Watched):
        key = (entry.from_s, entry.nodes)
    elif isinstance(entry, Session):
        key = (entry.job, round(entry.started_s, 3), entry.ended_s is not None)
    elif isinstance(entry, JobTime):
        key = (entry.job, entry.from_s)
    elif isinstance(entry, Taken):
        key = (entry.action, entry.incident, entry.target, round(entry.time_s, 3))
    else:
        key = (entry.job, round(entry.time_s, 3))
    return hashlib.sha256(repr((_TYPE[type(entry)], *key)).encode()).hexdigest()[:16]


def encode(entry: Entry) -> dict[str, object]:
    """The plain object of an entry."""
    head: dict[str, object] = {"type": _TYPE[type(entry)], "id": entry_id(entry)}
    if isinstance(entry, Change):
        return head | _change(entry)
    if isinstance(entry, JobTime):
        spent = {name: round(getattr(entry.spent, name), 6) for name in SPENT}
        own = {"job": entry.job, "from_s": entry.from_s, "to_s": entry.to_s, "steps": entry.steps}
        return head | own | {"spent": spent}
    plain = {name: getattr(entry, name) for name in entry.__dataclass_fields__}
    return head | {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def decode(data: Mapping[str, object], *, where: str) -> tuple[str, Entry]:
    """The id and the entry of one line; `InputError` at `where` when it is none."""
    kind = data.get("type")
    read = _READ.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise InputError(f"unknown type of line {kind!r}", where=where, fix=did_you_mean(str(kind), _READ))
    try:
        return text_at(data, "id"), read(data)
    except (InputError, ValueError, TypeError) as fault:
        what = fault.what if isinstance(fault, InputError) else str(fault)
        raise InputError(f"not a line of a ledger: {what}", where=where) from None


def finding_line(finding: Finding) -> dict[str, object]:
    """A finding as plain data, its sentence kept as a code and values."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": str(finding.subject),
        "because": {"code": finding.because.code, "values": dict(finding.because.values)},
        "confidence": finding.confidence_frac,
        "evidence": [{"file": e.file, "line": e.line, "text": e.text} for e in finding.evidence],
        "follows_from": finding.follows_from,
    }


def _change(change: Change) -> dict[str, object]:
    incident = change.incident
    return {
        "step": change.step.value,
        "time_s": change.time_s,
        "incident": {
            "id": incident.id,
            "opened_s": incident.opened_s,
            "acknowledged_s": incident.acknowledged_s,
            "recovered_s": incident.recovered_s,
            "closed_s": incident.closed_s,
            "level": incident.level,
            "nodes": list(incident.nodes),
            "coincides": list(incident.coincides),
            "findings": [finding_line(f) for f in incident.findings],
        },
    }


def _read_change(data: Mapping[str, object]) -> Change:
    inner = _object(data, "incident")
    findings = inner.get("findings")
    if not isinstance(findings, list):
        raise InputError("an incident has a list of findings")
    incident = Incident(
        id=text_at(inner, "id"),
        opened_s=_number(inner, "opened_s"),
        findings=tuple(_read_finding(f) for f in findings),
        nodes=texts_at(inner, "nodes") or (),
        acknowledged_s=number_at(inner, "acknowledged_s"),
        recovered_s=number_at(inner, "recovered_s"),
        closed_s=number_at(inner, "closed_s"),
        level=whole_at(inner, "level") or 0,
        coincides=texts_at(inner, "coincides") or (),
    )
    return Change(step=Step(text_at(data, "step")), time_s=_number(data, "time_s"), incident=incident)


def _read_finding(data: Any) -> Finding:
    because = _object(data, "because")
    values = _object(because, "values")
    return Finding(
        code=text_at(data, "code"),
        severity=Severity(text_at(data, "severity")),
        subject=Subject.parse(text_at(data, "subject")),
        because=Message(
            text_at(because, "code"),
            tuple((k, v) for k, v in values.items() if isinstance(v, str | int | float | None)),
        ),
        confidence_frac=_number(data, "confidence"),
        evidence=tuple(
            Evidence(file=text_at(e, "file"), line=whole_at(e, "line"), text=text_at(e, "text"))
            for e in data["evidence"]
        ),
        follows_from=data.get("follows_from"),
    )


def _read_watched(data: Mapping[str, object]) -> Watched:
    return Watched(
        from_s=_number(data, "from_s"), to_s=_number(data, "to_s"), nodes=texts_at(data, "nodes") or ()
    )


def _read_session(data: Mapping[str, object]) -> Session:
    broken = data.get("broken")
    return Session(
        job=text_at(data, "job"),
        started_s=_number(data, "started_s"),
        ended_s=number_at(data, "ended_s"),
        broken=None if broken is None else bool(broken),
    )


def _read_job_time(data: Mapping[str, object]) -> JobTime:
    spent = _object(data, "spent")
    return JobTime(
        job=text_at(data, "job"),
        from_s=_number(data, "from_s"),
        to_s=_number(data, "to_s"),
        spent=Spent(**{name: _number(spent, name) for name in SPENT}),
        steps=whole_at(data, "steps") or 0,
    )


def _read_taken(data: Mapping[str, object]) -> Taken:
    return Taken(
        action=text_at(data, "action"),
        incident=text_at(data, "incident"),
        time_s=_number(data, "time_s"),
        target=text_at(data, "target"),
        dry_run=bool(data.get("dry_run")),
        done=bool(data.get("done")),
        text=text_at(data, "text"),
    )


def _read_recovery(data: Mapping[str, object]) -> Recovery:
    phases = _object(data, "phases")
    return Recovery(
        job=text_at(data, "job"),
        time_s=_number(data, "time_s"),
        cause=text_at(data, "cause"),
        excluded=texts_at(data, "excluded") or (),
        phases={name: _number(phases, name) for name in phases},
        from_step=whole_at(data, "from_step"),
        to_step=whole_at(data, "to_step"),
    )


_READ: dict[str, Callable[[Mapping[str, object]], Entry]] = {
    "incident": _read_change,
    "watched": _read_watched,
    "session": _read_session,
    "job_time": _read_job_time,
    "action": _read_taken,
    "recovery": _read_recovery,
}


def _number(data: Mapping[str, object], key: str) -> float:
    value = number_at(data, key)
    if value is None:
        raise InputError(f"{key!r} is missing")
    return value


def _object(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise InputError(f"{key!r} is no object")
    return value
