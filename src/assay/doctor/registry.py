"""The registry of rules. A rule is a function from facts to findings, for the codes that it may give.

    @rule("GPU_XID_79", reads=("kernel log",))
    def off_the_bus(facts: Facts, job: Job) -> Iterator[Finding]: ...

Another package adds rules in a module that it names in the entry-point group `assay.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol

from assay.catalog.findings import finding as kind_of
from assay.doctor.facts import Facts, Job
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError

Find = Callable[[Facts, Job], Iterator[Finding]]

#: How sure: proven by what stands there; the usual cause of it; one cause of several.
PROVEN, LIKELY, POSSIBLE = 0.9, 0.7, 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the rule may find, the kinds of text that it reads, and the function itself."""

    codes: tuple[str, ...]
    reads: tuple[str, ...]
    find: Find


_RULES: list[Rule] = []


def rule(*codes: str, reads: tuple[str, ...]) -> Callable[[Find], Find]:
    """Register the decorated function as a rule for these codes."""

    def register(find: Find) -> Find:
        for code in codes:
            kind_of(code)  # an unknown code is an error when the rule is loaded, not when it fires
        if any(known.find is find for known in _RULES):
            raise InputError(f"the rule {find.__name__} is registered twice")
        _RULES.append(Rule(codes=codes, reads=reads, find=find))
        return find

    return register


def rules() -> tuple[Rule, ...]:
    """Every rule: the built-in ones, and those of other packages."""
    from assay.doctor import rules as built_in  # noqa: F401  (importing registers them)

    return tuple(_RULES)


def load_plugins() -> None:
    """Import the modules that other packages name in the entry-point group `assay.rules`."""
    for point in entry_points(group="assay.rules"):
        point.load()


class Line(Protocol):
    """Anything with a place and a text can be evidence."""

    @property
    def file(self) -> str:
        """The name of the file."""

    @property
    def line(self) -> int:
        """The line, from 1 on."""

    @property
    def text(self) -> str:
        """What stands there."""


#: A place that a rule words itself: (file, line, text).
Place = tuple[str, int, str]
Proof = Line | Place


def evidence(*lines: Proof) -> tuple[Evidence, ...]:
    """Records, or (file, line, text), as evidence; at most six, the same line once."""
    kept: dict[tuple[str, int], Evidence] = {}
    for line in lines:
        file, number, text = line if isinstance(line, tuple) else (line.file, line.line, line.text)
        kept.setdefault((file, number), Evidence(file=file, line=number, text=text[:400]))
    return tuple(kept.values())[:6]


def found(
    code: str,
    lines: Iterable[Proof],
    *,
    sure: float = PROVEN,
    subject: Subject = CLUSTER,
    because: Message | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding with the severity of its code; without `because`, the code's own reason is given."""
    return Finding(
        code=code,
        severity=severity or kind_of(code).severity,
        subject=subject,
        confidence_frac=sure,
        because=because or Message(f"finding.{code}.why"),
        evidence=evidence(*lines),
    )


def node(host: str | None) -> Subject:
    """The node, or the cluster where its name is not known."""
    return Subject("node", host) if host else CLUSTER


#: A folder that may be named after a host, and how deep below it a file lies (node7/dmesg, node7/logs/dmesg).
_HOST_FOLDER = re.compile(
    r"(?!(?:tmp|pytest|job|run|case|test|exp|logs?|docs?|out|attempt|try|step|rank|part|data|v)[\W_\d])"
    r"[A-Za-z][A-Za-z0-9-]*\d[\w-]*|localhost"
)
_DEPTH = 2


def host_of(line: Line) -> str | None:
    """The host that a line names, else the nearest folder of its file that looks like a host's name."""
    named = getattr(line, "host", None)
    folders = line.file.split("/")[:-1][-_DEPTH:]
    return named or next((folder for folder in reversed(folders) if _HOST_FOLDER.fullmatch(folder)), None)


def gpu(busid: str, host: str | None = None) -> Subject:
    """A GPU by bus id, under its node where that is known."""
    return Subject("gpu", f"{host}/{busid}" if host else busid)
