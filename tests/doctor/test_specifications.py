"""Each rule's specification is its test: what it means, what shows it, and near misses that stay silent.

`specs/*.md` has a section per code: a paragraph, and under `### Finds`, `### Shortlists` or `### Silent` a
text as a file would hold it; `=== name` begins a file where there are several. `Finds rank:3` asks for the
subject, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from case_files import diagnosed

from assay.doctor.diagnose import Outcome
from assay.doctor.registry import rules
from assay.domain.finding import Severity

_PART = re.compile(
    r"^## (?P<code>\w+)\n\n(?P<paragraph>[^#\n].*?)\n\n"
    r"|^### (?P<kind>Finds|Shortlists|Silent)(?: (?P<subject>[^\s:]+:\S+))?: (?P<origin>[^\n]*)\n\n"
    r"```text\n(?P<text>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    code: str
    kind: str
    subject: str | None
    origin: str
    text: str

    def files(self) -> list[tuple[str, str]]:
        if not self.text.startswith("=== "):
            return [("given.txt", self.text)]
        parts = re.split(r"^=== (.*)\n", self.text, flags=re.MULTILINE)[1:]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def __str__(self) -> str:
        return f"{self.code}: {self.kind} {self.origin}"


def examples() -> list[Example]:
    found: list[Example] = []
    for page in sorted((Path(__file__).parent / "specs").glob("*.md")):
        text, code = page.read_text(encoding="utf-8"), ""
        parts = list(_PART.finditer(text))
        heads = re.findall(r"^## \w+$|^### (?:Finds|Shortlists|Silent)\b", text, flags=re.MULTILINE)
        assert len(parts) == len(heads), f"{page.name} is not well formed"
        for part in parts:
            code = part["code"] or code
            if part["kind"]:
                found.append(Example(code, part["kind"], part["subject"], part["origin"], part["text"]))
    return found


EXAMPLES = examples()


def of(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", [e for e in EXAMPLES if e.kind == kind], ids=str)


@of("Finds")
def test_what_shows_a_cause_leads_to_it(example: Example) -> None:
    """The code comes first, or what explains it does; an info comes beside whatever else there is."""
    diagnosis = diagnosed(example.files())
    own = [f for f in diagnosis.findings if f.code == example.code]
    assert own
    assert example.subject is None or example.subject in {str(f.subject) for f in own}
    assert (
        diagnosis.first is None
        or own[0].severity is Severity.INFO
        or diagnosis.first.code
        in (
            example.code,
            own[0].follows_from,
        )
    )


@of("Shortlists")
def test_a_symptom_leads_to_a_shortlist(example: Example) -> None:
    diagnosis = diagnosed(example.files())
    assert example.code in [f.code for f in diagnosis.findings if f.severity is not Severity.INFO][:3]
    assert diagnosis.verdict is Outcome.UNDECIDED


@of("Silent")
def test_a_near_miss_stays_silent(example: Example) -> None:
    """Where the code is `healthy`, nothing at all may be found above info."""
    findings = diagnosed(example.files()).findings
    if example.code == "healthy":
        assert [f.code for f in findings if f.severity is not Severity.INFO] == []
    assert example.code not in {f.code for f in findings}


def test_every_code_that_a_rule_gives_has_both_sides() -> None:
    sides: dict[str, set[bool]] = defaultdict(set)
    for example in EXAMPLES:
        sides[example.code].add(example.kind == "Silent")
    given = {code for one in rules() for code in one.codes}
    assert [code for code in sorted(given) if sides[code] != {True, False}] == []
    assert set(sides) - given == {"healthy"}
