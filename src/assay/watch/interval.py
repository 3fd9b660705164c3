"""How often to save: from the mean time between failures, the time of a save, and the time of a restart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.domain.ledger import Entry, JobTime, Recovery, Session, Watched
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Measured times: between failures of the job, of one save, and of a restart until it computes."""

    mtbf_s: float
    save_s: float
    restart_s: float

    def __post_init__(self) -> None:
        if not (self.mtbf_s > 0 and self.save_s > 0 and self.restart_s >= 0):
            raise InputError(
                f"time between failures {self.mtbf_s} s, save {self.save_s} s, restart {self.restart_s} s",
                fix="times are above 0",
            )


def young_s(habit: Habit) -> float:
    """T = √(2·C·M). Young 1974, CACM 17(9):530."""
    return math.sqrt(2 * habit.save_s * habit.mtbf_s)


def best_s(habit: Habit) -> float:
    """The interval of highest availability, T = C + √(2(M + R)C + C²). arXiv 2410.18124."""
    c = habit.save_s
    return c + math.sqrt(2 * (habit.mtbf_s + habit.restart_s) * c + c * c)


def goodput_frac(habit: Habit, interval_s: float) -> float:
    """The productive share: (1 − C/T)(1 − (T/2 + R)/M), half an interval being lost with each failure."""
    saved = 1 - habit.save_s / interval_s
    return max(0.0, saved * (1 - (interval_s / 2 + habit.restart_s) / habit.mtbf_s))


def habit_of(
    failures_s: Sequence[float], saves_s: Sequence[float], restarts_s: Sequence[float], watched_s: float
) -> Habit | None:
    """From what was measured: times of failures, seconds of each save and restart, and how long was watched.

    None without a save. With no failure yet, the watched time counts as if it ended in one.
    """
    if not saves_s or watched_s <= 0:
        return None
    return Habit(
        mtbf_s=watched_s / max(len(failures_s), 1),
        save_s=max(statistics.median(saves_s), 1e-3),
        restart_s=statistics.median(restarts_s) if restarts_s else 0.0,
    )


@dataclass(slots=True)
class Habits:
    """Gathers the habit of a job from the books as they grow, live or read again."""

    failures_s: list[float] = field(default_factory=list)
    saves_s: list[float] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)
    watched_s: float = 0.0

    def take(self, entry: Entry) -> None:
        """One more entry of the ledger."""
        if isinstance(entry, JobTime) and entry.spent.checkpoint_s > 0:
            self.saves_s.append(entry.spent.checkpoint_s)
        elif isinstance(entry, Session) and entry.broken and entry.ended_s:
            self.failures_s.append(entry.ended_s)
        elif isinstance(entry, Recovery):
            self.failures_s.append(entry.time_s)
            self.restarts_s.append(sum(entry.phases.values()))
        elif isinstance(entry, Watched):
            self.watched_s += entry.to_s - entry.from_s

    def habit(self, watched_s: float | None = None) -> Habit | None:
        """The habit so far; `watched_s` where overlapping watchers must not count twice."""
        watched_s = self.watched_s if watched_s is None else watched_s
        return habit_of(self.failures_s, self.saves_s, self.restarts_s, watched_s)
