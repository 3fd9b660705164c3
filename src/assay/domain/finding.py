"""A named cause with its evidence and its fix: what qualify, doctor and watch all speak in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.errors import InputError


class Severity(str, Enum):
    """How much it matters, worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst; sorts findings."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line of proof: where it stands and what it says."""

    file: str
    line: int | None
    text: str

    @classmethod
    def at(cls, source: str, text: str) -> Evidence:
        """Evidence at a source as readings, facts and events carry it: `file:line`, or a name alone."""
        file, _, tail = source.rpartition(":")
        return (
            cls(file=file, line=int(tail), text=text)
            if tail.isdigit()
            else cls(file=source, line=None, text=text)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A code of the finding catalogue about one subject.

    `confidence_frac` is between 0 and 1. `because` says why it follows from the evidence. Title and fix
    are looked up by `code`. `follows_from` names the code that explains this one, if another does.
    """

    code: str
    severity: Severity
    subject: Subject
    because: Message
    confidence_frac: float = 1.0
    evidence: tuple[Evidence, ...] = ()
    follows_from: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.confidence_frac <= 1:
            raise InputError(f"finding {self.code}: confidence {self.confidence_frac} is not in 0 … 1")
