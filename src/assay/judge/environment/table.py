"""Facts by key and subject, and findings that quote them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from assay.catalog.findings import finding as kind_of
from assay.domain.fact import Fact
from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.units import show


class FactTable:
    """What is known: the facts that have a value, and those that say why there is none."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._by_key: dict[str, list[Fact]] = defaultdict(list)
        self._known: dict[tuple[Subject, str], Fact] = {}
        for fact in dict.fromkeys(facts):
            self._by_key[fact.key].append(fact)
            if fact.value is not None:
                self._known.setdefault((fact.subject, fact.key), fact)
        self._subjects: dict[str, set[Subject]] = defaultdict(set)
        for same in self._by_key.values():
            for fact in same:
                self._subjects[fact.subject.kind].add(fact.subject)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, sorted."""
        return tuple(sorted(self._by_key))

    def all_of(self, key: str) -> tuple[Fact, ...]:
        """Every fact of a key, those without a value among them."""
        return tuple(self._by_key.get(key, ()))

    def of(self, key: str) -> dict[Subject, Fact]:
        """The facts of a key that have a value, by subject in order."""
        found = {f.subject: self._known[f.subject, key] for f in self.all_of(key) if f.value is not None}
        return dict(sorted(found.items()))

    def get(self, subject: Subject, key: str) -> Fact | None:
        """The fact of a subject, or None where it has no value."""
        return self._known.get((subject, key))

    def number(self, subject: Subject, key: str) -> float | None:
        """The value where it is a number."""
        fact = self.get(subject, key)
        return None if fact is None or isinstance(fact.value, str | None) else float(fact.value)

    def text(self, subject: Subject, key: str) -> str | None:
        """The value where it is a text."""
        fact = self.get(subject, key)
        return fact.value if fact is not None and isinstance(fact.value, str) else None

    def subjects(self, kind: str) -> tuple[Subject, ...]:
        """Every subject of a kind that has a fact, in order."""
        return tuple(sorted(self._subjects.get(kind, ())))


def host_of(subject: Subject) -> str:
    """`h` of `node:h`, `gpu:h/0` and `port:h/mlx5_0[1]`; ranks have none of their own."""
    return "" if subject.kind == "rank" else subject.name.partition("/")[0]


def finding(
    code: str,
    subject: Subject,
    because: Message,
    *facts: Fact | None,
    severity: Severity | None = None,
    confidence_frac: float = 1.0,
    follows_from: str | None = None,
) -> Finding:
    """A finding with its facts as evidence; its severity is the catalogue's unless another is given."""
    return Finding(
        code=code,
        severity=severity or kind_of(code).severity,
        subject=subject,
        because=because,
        confidence_frac=confidence_frac,
        evidence=tuple(_evidence(fact) for fact in facts if fact is not None),
        follows_from=follows_from,
    )


def _evidence(fact: Fact) -> Evidence:
    said = show(fact.value, fact.unit) if fact.value is not None else f"not read: {fact.reason}"
    return Evidence.at(fact.source, f"{fact.key} of {fact.subject}: {said}")
