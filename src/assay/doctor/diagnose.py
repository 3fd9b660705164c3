"""From the text of files to a diagnosis: read, collect facts, ask every rule, fold, rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assay.doctor.facts import Facts, Job, collect
from assay.doctor.order import fold
from assay.doctor.registry import Rule, rules
from assay.doctor.unexplained import unexplained
from assay.domain.finding import Finding, Severity
from assay.errors import EXIT_NO, EXIT_OK, EXIT_UNDECIDED, InputError
from assay.formats.artefact import Read, Reading, read

#: From this confidence on a finding is a cause; below it is one of several possible ones.
CAUSE_FRAC = 0.5


class Outcome(str, Enum):
    """A cause was found; nothing is wrong; or a symptom with a shortlist of causes, or nothing understood."""

    FAULT = "fault"
    NONE = "none"
    UNDECIDED = "undecided"

    @property
    def exit_code(self) -> int:
        """0 nothing wrong, 1 a cause found, 3 undecided."""
        return {Outcome.FAULT: EXIT_NO, Outcome.NONE: EXIT_OK}.get(self, EXIT_UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Ranked findings; `looked_for` are codes that the files could have shown and did not.

    `not_lookable` are codes for which no file of a fitting kind was given, with those kinds.
    """

    verdict: Outcome
    findings: tuple[Finding, ...]
    looked_for: tuple[str, ...]
    not_lookable: tuple[tuple[str, tuple[str, ...]], ...]
    readings: tuple[Reading, ...]
    facts: Facts

    @property
    def first(self) -> Finding | None:
        """What to act on first; None where there is nothing above info."""
        return next((f for f in self.findings if f.severity is not Severity.INFO), None)


def diagnose(files: Iterable[tuple[str, Iterable[str] | bytes] | Read]) -> Diagnosis:
    """Diagnose files given as (name, lines), or (name, bytes) for a pickle, or as they were read.

    A file that cannot be read is told in its reading; only when none can be read is it an `InputError`.
    """
    facts = Facts()
    for given in files:
        if isinstance(given, Read):
            facts.readings.append(given.reading)
            collect(given.records, facts)
            continue
        name, lines = given
        reading = Reading(file=name)
        facts.readings.append(reading)
        try:
            collect(read(name, lines, reading), facts)
        except InputError as error:
            reading.problem = str(error.what)
    if facts.readings and all(r.problem and not r.kinds for r in facts.readings):
        first = facts.readings[0]
        raise InputError(
            f"{first.problem}", where=first.file, fix="give logs, dumps or command output as text"
        )
    job = Job(facts)
    asked = rules()
    findings = fold([finding for one in asked for finding in one.find(facts, job)])
    if _verdict(findings) is Outcome.NONE:
        findings = [*unexplained(facts), *findings]
    return Diagnosis(
        verdict=_verdict(findings) if _understood(facts) else Outcome.UNDECIDED,
        findings=tuple(findings),
        readings=tuple(facts.readings),
        facts=facts,
        looked_for=_looked_for(asked, facts, findings),
        not_lookable=_not_lookable(asked, facts, findings),
    )


def _verdict(findings: Iterable[Finding]) -> Outcome:
    open_ones = [f for f in findings if f.severity is not Severity.INFO and f.follows_from is None]
    if any(f.confidence_frac >= CAUSE_FRAC for f in open_ones):
        return Outcome.FAULT
    return Outcome.UNDECIDED if open_ones else Outcome.NONE


def _understood(facts: Facts) -> bool:
    """Whether anything was, of files that have lines: a command's answer may be any text."""
    kinds = _kinds(facts) - {"shell"}
    return bool(kinds) or facts.states_anything or not any(r.lines for r in facts.readings)


def _kinds(facts: Facts) -> set[str]:
    return {kind for reading in facts.readings for kind in reading.kinds}


def _looked_for(asked: Iterable[Rule], facts: Facts, findings: Iterable[Finding]) -> tuple[str, ...]:
    kinds, seen = _kinds(facts), {f.code for f in findings}
    return tuple(sorted({c for one in asked for c in one.codes if kinds & set(one.reads)} - seen))


def _not_lookable(
    asked: Iterable[Rule], facts: Facts, findings: Iterable[Finding]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    kinds, needs = _kinds(facts), dict[str, set[str]]()
    for one in asked:
        for code in one.codes:
            needs.setdefault(code, set()).update(one.reads)
    seen = {f.code for f in findings}
    return tuple(
        (code, tuple(sorted(reads)))
        for code, reads in sorted(needs.items())
        if code not in seen and not kinds & reads
    )
