"""What the books hold besides incidents: time watched, sessions, job time, actions, recoveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from assay.domain.incident import Change
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Time in which nodes were watched; what lies outside is unknown, and no credit to anyone.

    Without `nodes` they are those of the entry before.
    """

    from_s: float
    to_s: float
    nodes: tuple[str, ...]

    def __post_init__(self) -> None:
        _ordered(self.from_s, self.to_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One start of a job. `broken` is true when it ended before its work did, None while it runs."""

    job: str
    started_s: float
    ended_s: float | None = None
    broken: bool | None = None

    def __post_init__(self) -> None:
        if self.ended_s is not None:
            _ordered(self.started_s, self.ended_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of a job by what they went into."""

    productive_s: float = 0.0
    slow_s: float = 0.0
    checkpoint_s: float = 0.0
    recompute_s: float = 0.0
    restart_s: float = 0.0
    waiting_s: float = 0.0

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in SPENT})

    @property
    def total_s(self) -> float:
        """All of it."""
        return float(sum(getattr(self, name) for name in SPENT))

    @property
    def goodput_frac(self) -> float | None:
        """The productive share; None where there is nothing."""
        return self.productive_s / self.total_s if self.total_s > 0 else None


SPENT = tuple(entry.name for entry in fields(Spent))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTime:
    """How a job spent what was settled within one minute."""

    job: str
    from_s: float
    to_s: float
    spent: Spent
    steps: int

    def __post_init__(self) -> None:
        _ordered(self.from_s, self.to_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An action on an incident: what was done, or would have been (`dry_run`), or why it was not."""

    action: str
    incident: str
    time_s: float
    target: str
    dry_run: bool
    done: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One restart of a job by the supervisor, with the seconds of each phase in their order."""

    job: str
    time_s: float
    cause: str
    excluded: tuple[str, ...]
    phases: Mapping[str, float]
    from_step: int | None
    to_step: int | None


Entry = Change | Watched | Session | JobTime | Taken | Recovery


def _ordered(from_s: float, to_s: float) -> None:
    if to_s < from_s:
        raise InputError(f"time ends at {to_s} s before it begins at {from_s} s")
