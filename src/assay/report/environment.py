"""Facts about machines, folded so that a thousand nodes read like one, and what differs stands out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from assay.domain.fact import Fact
from assay.domain.subject import Subject
from assay.units import show

#: Last words of keys that name one device each, or that change from moment to moment: to differ is normal.
_OWN = frozenset(
    {"uuid", "serial", "guid", "node_guid", "port_guid", "bdf", "address", "boot_id", "hostname"}
    | {"uptime", "temperature", "power", "clock", "load", "load_1min", "memory_used", "utilization", "free"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactValue:
    """One value, and who has it. `missing` says why there is none."""

    text: str
    subjects: tuple[Subject, ...]
    missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow:
    """One key with its values, the commonest first. `differs` where subjects should agree and do not."""

    key: str
    values: tuple[FactValue, ...]
    differs: bool
    source: str

    @property
    def own(self) -> bool:
        """Whether each subject has a value of its own by nature, as with serial numbers."""
        return len(self.values) > 1 and not self.differs


def environment(facts: Iterable[Fact]) -> tuple[tuple[str, tuple[FactRow, ...]], ...]:
    """Rows in groups by the first word of their key (`gpu`, `host`, `nic`, …)."""
    by_key: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        by_key[fact.key].append(fact)
    groups: dict[str, list[FactRow]] = defaultdict(list)
    for key, same in by_key.items():
        groups[key.partition(".")[0]].append(_row(key, same))
    return tuple((name, tuple(rows)) for name, rows in groups.items())


def _row(key: str, facts: list[Fact]) -> FactRow:
    holders: dict[tuple[str, bool], list[Subject]] = defaultdict(list)
    for fact in facts:
        missing = fact.value is None
        holders[fact.reason or "" if missing else show(fact.value, fact.unit), missing].append(fact.subject)
    values = tuple(
        FactValue(text=text, missing=missing, subjects=tuple(sorted(set(subjects))))
        for (text, missing), subjects in sorted(holders.items(), key=lambda item: (item[0][1], -len(item[1])))
    )
    present = [value for value in values if not value.missing]
    own = key.rpartition(".")[2] in _OWN
    return FactRow(
        key=key,
        values=values,
        differs=(len(present) > 1 and not own) or (bool(present) and len(present) < len(values)),
        source=next((fact.source for fact in facts if fact.source), ""),
    )


def subjects_text(subjects: tuple[Subject, ...], *, most: int = 4) -> str:
    """The names, or the first few and how many more."""
    names = [str(subject) for subject in subjects]
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")
