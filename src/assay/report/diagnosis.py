"""A diagnosis for people and for programs: the action and its target first, then why, then what was read."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from assay.catalog.findings import finding as kind_of
from assay.catalog.messages import Texts
from assay.codec.answer import finding_object, headed
from assay.doctor.diagnose import CAUSE_FRAC, Diagnosis, Outcome
from assay.doctor.registry import rules
from assay.doctor.timeline import Moment
from assay.doctor.unexplained import UNEXPLAINED
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.report.plain import wrapped

WIDTH = 80
#: From this confidence on the evidence is said to prove the cause.
PROVEN_FRAC = 0.8
_SHOWN, _EVIDENCE_SHOWN = 6, 3


def how_sure(finding: Finding) -> str:
    """`proven`, `likely` or `possible`; `unexplained` where a failure shows and no cause."""
    if finding.code in UNEXPLAINED:
        return "unexplained"
    sure = finding.confidence_frac
    return "proven" if sure >= PROVEN_FRAC else "likely" if sure >= CAUSE_FRAC else "possible"


def because(finding: Finding, texts: Texts) -> str:
    """Why it follows, with a hedge where it is not proven."""
    return f"{texts.say(finding.because)} {texts.label(f'doctor.sure.{how_sure(finding)}')}"


def answer(diagnosis: Diagnosis, texts: Texts, *, assay_version: str) -> dict[str, object]:
    """The JSON object of `assay doctor`; keys are only ever added."""
    return headed("doctor", assay_version=assay_version) | {
        "verdict": diagnosis.verdict.value,
        "findings": [_finding(finding, texts) for finding in diagnosis.findings],
        "looked_for": list(diagnosis.looked_for),
        "not_lookable": {code: list(kinds) for code, kinds in diagnosis.not_lookable},
        "unread": [
            {
                "file": r.file,
                "lines": r.lines,
                "kinds": r.kinds,
                "unread": r.unread,
                "first_unread": r.first_unread,
                "problem": r.problem,
            }
            for r in diagnosis.readings
        ],
    }


def _finding(finding: Finding, texts: Texts) -> dict[str, object]:
    def words(code: str) -> tuple[str, Sequence[str]]:
        found = texts.finding(code)
        return found.title, found.fixes

    told = finding_object(finding, texts.say, words)
    return told | {
        "because": because(finding, texts),
        "how_sure": how_sure(finding),
        "source": kind_of(finding.code).source,
    }


def plain_text(diagnosis: Diagnosis, texts: Texts) -> str:
    """80 columns: what to do and to what, then each cause with its proof, then what was read."""
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    for indent, line in _lines(diagnosis, texts):
        console.print(Padding(Text(line), (0, 0, 0, indent)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def action(diagnosis: Diagnosis, texts: Texts) -> str:
    """What to do first: the first fix of the first finding, as far as its first half sentence."""
    if diagnosis.first is None:
        return texts.label(
            "doctor.page.nothing" if diagnosis.verdict is Outcome.NONE else "doctor.page.not_understood"
        )
    fixes = texts.finding(diagnosis.first.code).fixes
    return re.split("[;；]", fixes[0])[0] if fixes else diagnosis.first.code


def verdict_label(diagnosis: Diagnosis) -> str:
    """The key of the sentence that sums up the verdict."""
    if diagnosis.first is None and diagnosis.verdict is Outcome.UNDECIDED:
        return "doctor.verdict.not_understood"
    return f"doctor.verdict.{diagnosis.verdict.value}"


def _lines(diagnosis: Diagnosis, texts: Texts) -> Iterator[tuple[int, str]]:
    first, first_line = diagnosis.first, action(diagnosis, texts)
    if cell_len(first_line) > WIDTH:
        first_line = set_cell_size(first_line, WIDTH - 1).rstrip() + "…"
    yield 0, first_line
    if first is None:
        files = texts.say(Message.of("doctor.page.files_read", files=len(diagnosis.readings)))
        yield 0, f"{texts.label(verdict_label(diagnosis))}: {files}"
    else:
        yield 0, f"→ {first.subject}: {texts.finding(first.code).title} [{first.severity.value}]"
        if diagnosis.verdict is Outcome.UNDECIDED:
            yield 0, f"{texts.label('doctor.verdict.undecided')}:"
    open_ones = [f for f in diagnosis.findings if f.follows_from is None]
    for number, finding in enumerate(open_ones[:_SHOWN], 1):
        yield 0, ""
        yield from _told(number, finding, diagnosis.findings, texts)
    if len(open_ones) > _SHOWN:
        yield 0, texts.say(Message.of("doctor.page.more_findings", n=len(open_ones) - _SHOWN))
    yield 0, ""
    yield from _read(diagnosis, texts)


def _told(number: int, finding: Finding, every: Sequence[Finding], texts: Texts) -> Iterator[tuple[int, str]]:
    words = texts.finding(finding.code)
    yield 0, f"{number}. {words.title} ({finding.code}, {finding.severity.value}, {how_sure(finding)})"
    yield 3, f"@ {finding.subject}"
    yield 3, because(finding, texts)
    for proof in finding.evidence[:_EVIDENCE_SHOWN]:
        yield 3, f"{proof.file}:{proof.line}: {proof.text[:160]}"
    if len(finding.evidence) > _EVIDENCE_SHOWN:
        yield 3, texts.say(Message.of("doctor.page.more_lines", n=len(finding.evidence) - _EVIDENCE_SHOWN))
    for fix in words.fixes:
        yield 3, f"• {fix}"
    echoes = [f.code for f in every if f.follows_from == finding.code]
    if echoes:
        yield 3, f"{texts.label('doctor.page.echoes')}: {', '.join(dict.fromkeys(echoes))}"


def _read(diagnosis: Diagnosis, texts: Texts) -> Iterator[tuple[int, str]]:
    for reading in diagnosis.readings[:20]:
        kinds = ", ".join(sorted(reading.kinds)) or texts.label("doctor.page.nothing_known")
        left = texts.say(Message.of("doctor.page.lines_unread", n=reading.unread, lines=reading.lines))
        problem = f"; {reading.problem}" if reading.problem else ""
        yield 0, f"{reading.file}: {kinds}{'; ' + left if reading.unread else ''}{problem}"
    if len(diagnosis.readings) > 20:
        yield 0, texts.say(Message.of("doctor.page.more_files", n=len(diagnosis.readings) - 20))
    yield 0, texts.say(Message.of("doctor.page.others", n=len(diagnosis.looked_for)))
    if diagnosis.not_lookable:
        wanted = sorted({kind for _, kinds in diagnosis.not_lookable for kind in kinds})
        yield 0, f"{texts.label('doctor.page.not_given')}: {', '.join(wanted)}"


def explained(code: str, texts: Texts) -> str:
    """What a code means: title, why, what to do, where it is read, and its source."""
    kind, words = kind_of(code), texts.finding(code)
    reads = sorted({read for one in rules() if code in one.codes for read in one.reads})
    severity = f"{texts.label('doctor.page.severity')}: {kind.severity.value}"
    lines = [f"{code}: {words.title}", severity, "", words.why, ""]
    lines += [f"• {fix}" for fix in words.fixes]
    where = ", ".join(reads) or texts.label("doctor.page.measurements")
    lines += ["", f"{texts.label('doctor.page.read_in')}: {where}"]
    lines += [f"{texts.label('doctor.page.source')}: {kind.source}"]
    return "\n".join(lines) + "\n"


def story(moments: Sequence[Moment]) -> str:
    """The timeline as text: when, who and where, and below it what was said; each line of a file once."""
    width = max((len(m.at) for m in moments), default=0)
    said = {f"{m.at:<{width}}  {m.who:<16} {m.file}:{m.line}": m.text[:160] for m in moments}
    return "".join(f"{head}\n{wrapped(f'    {text}', hang=4)}\n" for head, text in said.items())
