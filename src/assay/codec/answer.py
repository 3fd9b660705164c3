"""A judged run as the JSON object that other programs may rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from assay import __version__
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.reading import Reading
from assay.domain.verdict import Assessment, Judgement

SCHEMA_VERSION = 1


def headed(command: str, *, assay_version: str = __version__) -> dict[str, object]:
    """What every JSON answer begins with."""
    return {"schema_version": SCHEMA_VERSION, "command": command, "assay_version": assay_version}


Text = Callable[[Message], str]
#: From the code of a finding: its title, and the ways to fix it.
FindingText = Callable[[str], tuple[str, Sequence[str]]]


def answer(
    assessment: Assessment,
    *,
    command: str,
    assay_version: str,
    run: str | None,
    text: Text,
    finding_text: FindingText,
    attestation_of: Callable[[Judgement], str | None] = lambda _: None,
) -> dict[str, object]:
    """The answer of `qualify` and `judge`; a missing value is null beside a reason."""
    return headed(command, assay_version=assay_version) | {
        "verdict": assessment.verdict.value,
        "profile": assessment.profile,
        "run": run,
        "criteria": [judgement_object(j, text, attestation_of(j)) for j in assessment.judgements],
        "findings": [finding_object(f, text, finding_text) for f in assessment.findings],
        "missing_ranks": list(assessment.missing_ranks),
        "notes": [text(note) for note in assessment.notes],
    }


def judgement_object(j: Judgement, text: Text, attestation: str | None = None) -> dict[str, object]:
    """One criterion about one subject. `bound.value` is the bound applied, in `bound.unit`.

    `attestation` is the id of the transport that its result was carried by.
    """
    c = j.criterion
    carried = {"attestation": attestation} if attestation else {}
    return carried | {
        "id": c.id,
        "quantity": c.quantity,
        "subject": str(j.subject),
        "recipe": j.recipe.as_dict(),
        "bound": {
            "op": c.op.value,
            "value": j.bound,
            "high": j.high,
            "unit": j.unit,
            "over": c.over.value,
            "rule": c.rule.value,
            "of": c.of.value if c.of else None,
        },
        "required": c.required,
        "verdict": j.verdict.value,
        "reason": text(j.reason),
        "reason_code": j.reason.code,
        "more_restarts": j.more_restarts,
        "clause": c.clause,
        "source": c.source,
        "claimed": _reading(j.claimed),
        "predicted": _reading(j.predicted),
        "measured": _reading(j.measured),
    }


def finding_object(f: Finding, text: Text, finding_text: FindingText) -> dict[str, object]:
    """A named cause with its evidence and its fixes."""
    title, fixes = finding_text(f.code)
    return {
        "code": f.code,
        "title": title,
        "severity": f.severity.value,
        "confidence": f.confidence_frac,
        "subject": str(f.subject),
        "because": text(f.because),
        "evidence": [{"file": e.file, "line": e.line, "text": e.text} for e in f.evidence],
        "fix": list(fixes),
        "follows_from": f.follows_from,
    }


def reading_object(r: Reading) -> dict[str, object]:
    """A reading; `reason` is there only where the value is null."""
    data: dict[str, object] = {
        "value": r.value,
        "low": r.low,
        "high": r.high,
        "n": r.n,
        "unit": r.unit,
        "origin": r.origin.value,
        "source": r.source,
    }
    return data if r.reason is None else data | {"reason": r.reason}


def listed_reading(r: Reading) -> dict[str, object]:
    """A reading that stands by itself: with its quantity, subject and recipe."""
    about = {"quantity": r.quantity, "subject": str(r.subject), "recipe": r.recipe.as_dict()}
    return about | reading_object(r)


def fact_object(f: Fact) -> dict[str, object]:
    """One thing read about a machine; `reason` is there only where the value is null."""
    data: dict[str, object] = {
        "key": f.key,
        "subject": str(f.subject),
        "value": f.value,
        "unit": f.unit,
        "source": f.source,
    }
    return data if f.reason is None else data | {"reason": f.reason}


def event_object(e: Event) -> dict[str, object]:
    """Something that happened during the run; `time_s` is since the epoch."""
    return {
        "kind": e.kind,
        "time_s": e.time_s,
        "subject": str(e.subject),
        "text": e.text,
        "details": e.details,
    }


def _reading(r: Reading | None) -> dict[str, object] | None:
    return None if r is None else reading_object(r)
