"""The watch as a whole: items through order, machine and books into the ledger, live or replayed."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from assay.catalog.messages import Texts
from assay.codec.telemetry import decode_all
from assay.codec.text_file import write_text
from assay.codec.watching import load_terms
from assay.domain.contract import Terms
from assay.domain.event import Event
from assay.domain.incident import Change, Incident, Step
from assay.domain.ledger import Entry, JobTime, Recovery, Spent, Watched
from assay.domain.subject import Subject
from assay.errors import InputError, unknown_name
from assay.report.incident_page import incident_page
from assay.store.ledger import Ledger, read_ledger
from assay.watch.goodput import MINUTE_S, Goodput
from assay.watch.interval import Habit, Habits
from assay.watch.machine import Machine
from assay.watch.order import Order
from assay.watch.places import Places
from assay.watch.registry import TICK, load_plugins
from assay.watch.service import Service, fold, incidents_of
from assay.watch.settings import Settings
from assay.watch.signal import Item

_HOUR_S = 3600.0
#: Items that a replay takes at once, and lists of subjects that are remembered.
_AT_ONCE, _MOST_LISTS = 5000, 1000


class Watch:
    """One watcher. Changes are in the ledger, on the disk, before `take` gives them."""

    def __init__(
        self,
        *,
        settings: Settings | None = None,
        places: Places | None = None,
        ledger: Ledger | None = None,
        nodes: Sequence[str] = (),
        order: Order | None = None,
    ) -> None:
        load_plugins()
        self.settings = settings or Settings()
        self.machine = Machine(self.settings, places)
        self.order = order or Order(late_s=self.settings.late_s)
        self.spent = Spent()
        self._habits = Habits()
        self._goodput = Goodput(self.settings)
        self._ledger = ledger
        self._nodes = tuple(nodes)
        #: Without nodes by name they are those that the items speak of.
        self._heard: set[str] = set()
        self._told: tuple[str, ...] = ()
        self._known: set[int] = set()
        self._lists: list[tuple[Subject, ...]] = []
        self._last: dict[str, Incident] = {}
        self._watched_s: float | None = None
        self._now_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been taken."""
        return self._watched_s is None

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """Every incident since the start, as its last change left it."""
        return tuple(sorted(self._last.values(), key=lambda i: (i.opened_s, i.id)))

    @property
    def habit(self) -> Habit | None:
        """Failures, saves and restarts so far; None before a save was seen."""
        return self._habits.habit()

    @property
    def open_count(self) -> int:
        """Incidents that have not recovered."""
        return sum(one.recovered_s is None for one in self._last.values())

    def take(self, items: Iterable[Item]) -> list[Change]:
        """Feed items as they come."""
        return self._fed(done for item in items for done in self.order.push(item))

    def advance(self, now_s: float) -> list[Change]:
        """Say that time has passed without anything to take."""
        return self._fed(self.order.advance(now_s))

    def close(self) -> list[Change]:
        """Settle what is held back, and the time since the last full minute."""
        changes = self._fed(self.order.flush())
        self._write([*self._goodput.close(self._now_s), *self._watched(self._now_s, whole=False)])
        return changes

    def _fed(self, items: Iterable[Item]) -> list[Change]:
        changes: list[Change] = []
        entries: list[Entry] = []
        for item in items:
            self._now_s = max(self._now_s, item.time_s)
            if not self._nodes:
                self._hear(item)
            if self._watched_s is None:
                self._watched_s = item.time_s
            new = list(self.machine.feed(item))
            entries += [*new, *self._goodput.feed(item)]
            if isinstance(item, Event) and item.kind == TICK:
                entries += self._watched(item.time_s, whole=True)
            for change in new:
                self._last[change.incident.id] = change.incident
            changes += new
        self._write(entries)
        return changes

    def _hear(self, item: Item) -> None:
        """Learn the nodes of an item; subjects that come again and again are looked at once."""
        subjects = (item.subject,) if isinstance(item, Event) else item.subjects
        if id(subjects) not in self._known:
            self._heard |= {n for s in subjects for n in self.machine.places.touched(s) if ":" not in n}
            if not isinstance(item, Event) and len(self._known) < _MOST_LISTS:
                self._known.add(id(subjects))
                self._lists.append(subjects)

    def _watched(self, now_s: float, *, whole: bool) -> Iterator[Watched]:
        """The time that was watched since the last entry, in full minutes of the clock where `whole`."""
        since_s = self._watched_s if self._watched_s is not None else now_s
        until_s = now_s // MINUTE_S * MINUTE_S if whole else now_s
        if until_s > since_s:
            # The names when they have changed, and once an hour: else it is about the same nodes.
            nodes = self._nodes or tuple(sorted(self._heard))
            named = nodes != self._told or since_s // _HOUR_S != until_s // _HOUR_S
            self._watched_s, self._told = until_s, nodes
            yield Watched(from_s=since_s, to_s=until_s, nodes=nodes if named else ())

    def _write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._habits.take(entry)
            if isinstance(entry, JobTime):
                self.spent = self.spent.plus(entry.spent)
        if self._ledger and entries:
            self._ledger.append(entries)


def settings_of(bounds: Mapping[str, float], *, where: str | None = None) -> Settings:
    """Settings with some bounds of the user's; an unknown name is an error with a suggestion."""
    known = {entry.name for entry in fields(Settings)}
    for name in bounds:
        if name not in known:
            raise unknown_name("bound", name, known, where=where)
    counts = {"straggler_steps", "job_slow_steps", "loss_cool_down_steps"}
    return Settings(**{k: int(v) if k in counts else v for k, v in bounds.items()})  # type: ignore[arg-type]


def replay(paths: Iterable[Path], *, settings: Settings | None = None, ledger: Path | None = None) -> Watch:
    """Run the machine over recorded events: the same files give the same incidents."""
    watch = Watch(settings=settings, ledger=Ledger(ledger) if ledger else None)
    # One file keeps its order, so that what came late or twice is met as it was; files are merged by time.
    items = heapq.merge(*map(_recorded, paths), key=lambda item: item.time_s)
    while some := list(itertools.islice(items, _AT_ONCE)):
        watch.take(some)
    if watch.is_empty:
        raise InputError("no event is in what was given", fix="give JSON lines with events or samples")
    watch.close()
    return watch


def _recorded(path: Path) -> Iterator[Item]:
    try:
        with path.open(encoding="utf-8") as lines:
            yield from decode_all(lines, file=str(path))
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path)) from None
    except OSError as fault:
        raise InputError(f"cannot read: {fault.strerror}", where=str(path)) from None


def incidents_in(ledger: Path) -> tuple[Incident, ...]:
    """Every incident of a ledger, oldest first."""
    return incidents_of(list(read_ledger(ledger)))


def acknowledge(ledger: Path, incident: str, now_s: float) -> Incident:
    """Write that somebody has taken an incident; a prefix of its id is enough."""
    found = [one for one in incidents_in(ledger) if one.id.startswith(incident)]
    if len(found) != 1:
        raise InputError(
            f"{len(found)} incidents have an id that begins with {incident!r}",
            where=str(ledger),
            fix="assay incidents lists them",
        )
    taken = replace(found[0], acknowledged_s=max(now_s, found[0].opened_s))
    Ledger(ledger).append([Change(step=Step.ACKNOWLEDGED, time_s=now_s, incident=taken)])
    return taken


def service_of(
    ledger: Path, *, from_s: float | None, to_s: float | None, contract: Path | None
) -> tuple[Service, Terms, Habit | None]:
    """The books of a window, by the terms of a contract, with the measured habit of failures and saves."""
    entries = list(read_ledger(ledger))
    spans = [e for e in entries if isinstance(e, Watched)]
    if from_s is None:
        from_s = min((e.from_s for e in spans), default=0.0)
    if to_s is None:
        to_s = max((e.to_s for e in spans), default=from_s + 1.0)
    terms = load_terms(contract) if contract else Terms()
    service = fold(entries, from_s=from_s, to_s=to_s, terms=terms)
    habits = Habits()
    for entry in entries:
        # Restarts count within the window, as the books show them.
        if not isinstance(entry, Recovery) or entry in service.recoveries:
            habits.take(entry)
    return service, terms, habits.habit(service.watched_s)


def write_incident_page(path: Path, ledger: Path, incidents: Sequence[Incident], texts: Texts) -> None:
    """Write incidents with their story as one HTML page; needs the report extra."""
    story = [e for e in read_ledger(ledger) if isinstance(e, Change)]
    write_text(path, incident_page(incidents, story, texts))
