"""Watching live: sources are asked in turn, the watch takes what they give, people are told of changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from assay.api.collecting import job_id
from assay.api.consulting import Consultant
from assay.api.watching import Watch, settings_of
from assay.codec.text_file import read_text, write_text
from assay.codec.watching import WatchPlan
from assay.domain.event import Event
from assay.domain.incident import Change
from assay.domain.ledger import Entry
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError
from assay.store.ledger import Ledger
from assay.watch.exporter import Exporter
from assay.watch.interval import Habit, best_s
from assay.watch.places import Places
from assay.watch.settings import Settings
from assay.watch.signal import Item
from assay.watch.sources.clock_log import ClockLog
from assay.watch.sources.kernel import KernelMessages
from assay.watch.sources.logs import LogReader, own_pattern
from assay.watch.sources.node import NodeReader
from assay.watch.sources.peers import Peers
from assay.watch.sources.prometheus import Prometheus, PrometheusSource
from assay.watch.sources.slurm import SlurmSource
from assay.watch.sources.tail import Folder
from assay.watch.textfile import textfile as textfile_text

#: How often sources are asked.
_POLL_S = 0.2
_MARK_S = 1.0
#: An interval between checkpoints that differs by less is no news.
_NEWS_FRAC = 0.2


class Source(Protocol):
    """Anything that has news."""

    def poll(self, now_s: float) -> Sequence[Item]:
        """What is new at `now_s`."""

    def close(self) -> None:
        """Let go of files, threads and connections."""


class LogSource:
    """The logs of one job. A file that is rotated or cut is told; so is a pattern that matches no file."""

    def __init__(self, given: Sequence[str], reader: LogReader, *, from_end: bool = False) -> None:
        self._folder = Folder(tuple(given), from_end=from_end)
        self._given, self._reader = tuple(given), reader

    def poll(self, now_s: float) -> list[Item]:
        """Events of the lines that have come."""
        items: list[Item] = []
        for line in self._folder.lines():
            if line.note:
                kind, text = f"log_{line.note}", f"{line.file} was {line.note}"
                items.append(Event(kind=kind, time_s=now_s, subject=CLUSTER, text=text, source=line.file))
            else:
                items += self._reader.read(line.text, file=line.file, number=line.number, now_s=now_s)
        return items

    def close(self) -> None:
        """Let go of the files."""
        self._folder.close()


class KernelSource:
    """This node's kernel messages; that they may not be read is told once."""

    def __init__(self, host: str, messages: KernelMessages) -> None:
        self._reader, self._messages, self._told = LogReader(host=host), messages, False

    def poll(self, now_s: float) -> list[Item]:
        """Events of the messages that have come."""
        items: list[Item] = []
        if self._messages.obstacle and not self._told:
            self._told = True
            node, text = Subject("node", self._reader.host), self._messages.obstacle
            items.append(Event(kind="kernel_unread", time_s=now_s, subject=node, text=text))
        for number, text in self._messages.lines():
            items += self._reader.read(text, file=self._messages.path, number=number, now_s=now_s)
        return items

    def close(self) -> None:
        """Let go of the device."""
        self._messages.close()


class NodeSource:
    """This node's own readings, once a second."""

    def __init__(self, reader: NodeReader, *, every_s: float = _MARK_S) -> None:
        self._reader, self._every_s = reader, every_s
        self._next_s = 0.0
        self._placed: set[Subject] = set()

    def poll(self, now_s: float) -> list[Item]:
        """Batches of all metrics, when a second has passed."""
        if now_s < self._next_s:
            return []
        self._next_s = now_s + self._every_s
        items: list[Item] = list(self._reader.samples(now_s))
        for batch in list(items):
            if not isinstance(batch, Event) and batch.metric == "rank_state":
                for rank in set(batch.subjects) - self._placed:
                    self._placed.add(rank)
                    details: dict[str, str | int | float | None] = {"node": self._reader.host}
                    items.insert(0, Event(kind="rank_placed", time_s=now_s, subject=rank, details=details))
        return items

    def close(self) -> None:
        """Let go of the node."""
        self._reader.close()


class Adviser:
    """Says how often to save when that has changed, and keeps the text file for node_exporter up to date."""

    def __init__(self, watch: Watch, advise: Callable[[Habit], None], textfile: Path | None) -> None:
        self._watch, self._advise, self._textfile = watch, advise, textfile
        self._told_s, self._text = 0.0, ""

    def __call__(self, now_s: float) -> None:
        """After each turn of the loop."""
        habit = self._watch.habit
        if habit is not None and abs(best_s(habit) - self._told_s) > _NEWS_FRAC * self._told_s:
            self._told_s = best_s(habit)
            self._advise(habit)
        if self._textfile is not None:
            text = textfile_text(habit, self._watch.open_count)
            if text != self._text:
                self._text = text
                write_text(self._textfile, text, fix="name a folder that may be written to")


def follow(
    watch: Watch,
    sources: Sequence[Source],
    tell: Callable[[Change], None],
    *,
    for_s: float | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    going: Callable[[], bool] = lambda: True,
    after: Callable[[float], None] = lambda now_s: None,
) -> None:
    """Ask, take and tell until interrupted, for `for_s`, or while `going`; `after` each turn."""
    end_s = None if for_s is None else clock() + for_s
    try:
        while going() and (end_s is None or clock() < end_s):
            now_s = clock()
            for source in sources:
                for change in watch.take(source.poll(now_s)):
                    tell(change)
            for change in watch.advance(now_s):
                tell(change)
            after(now_s)
            sleep(_POLL_S)
    finally:
        for change in watch.close():
            tell(change)
        for source in sources:
            source.close()


def follow_job(
    given: Sequence[str],
    tell: Callable[[Change], None],
    *,
    ledger: Path,
    settings: Settings | None = None,
    pattern: str | None = None,
    storage: Path | None = None,
    from_start: bool = False,
    for_s: float | None = None,
    slurm: str | None = None,
    clock_log: Path | None = None,
    textfile: Path | None = None,
    advise: Callable[[Habit], None] = lambda habit: None,
) -> Watch:
    """Follow the logs of a job on this node, with the node's own readings and what Slurm says of the job."""
    if not given:
        raise InputError("no log is given", fix="assay watch --job RUN_DIR or LOG…")
    host = os.uname().nodename
    reader = LogReader(host=host, pattern=own_pattern(pattern) if pattern else None)
    ptp = ClockLog(str(clock_log)) if clock_log else None
    consultant = Consultant(given, time.time)
    sources: list[Source] = [
        consultant,
        LogSource(given, reader, from_end=not from_start),
        NodeSource(NodeReader(host, storage=storage, clock_log=ptp)),
        KernelSource(host, KernelMessages()),
    ]
    if slurm:
        sources.append(SlurmSource(job_id(slurm)))
    watch = Watch(settings=settings, ledger=Ledger(ledger), nodes=(host,))

    def told(change: Change) -> None:
        tell(change)
        consultant.ask(change)

    follow(watch, sources, told, for_s=for_s, after=Adviser(watch, advise, textfile))
    return watch


def follow_cluster(
    plan: WatchPlan,
    tell: Callable[[Change], None],
    *,
    ledger: Path | None = None,
    for_s: float | None = None,
    act: Callable[[Change], Sequence[Entry]] | None = None,
) -> Watch:
    """Watch a cluster through its Prometheus, and the logs of its jobs."""
    token = read_text(Path(plan.token_file)).strip() if plan.token_file else None
    server = Prometheus(plan.prometheus, timeout_s=plan.timeout_s, token=token)
    sources: list[Source] = [PrometheusSource(server, every_s=plan.every_s, host_label=plan.host_label)]
    for job in plan.jobs:
        pattern = own_pattern(job.pattern) if job.pattern else None
        reader = LogReader(job=job.name, pattern=pattern, hosts=plan.addresses)
        sources.append(LogSource(job.logs, reader))
    books = Ledger(ledger or Path(plan.ledger))
    watch = Watch(
        settings=settings_of(plan.bounds),
        places=Places.of(plan.ranks, plan.cables),
        ledger=books,
        nodes=plan.nodes,
    )

    def told(change: Change) -> None:
        tell(change)
        if act:
            books.append(act(change))

    follow(watch, sources, told, for_s=for_s)
    return watch


def export(
    *,
    bind: str,
    port: int,
    token: str | None,
    storage: Path | None,
    peers: Mapping[str, str],
    peer_port: int,
    host: str | None = None,
    own_network: bool = False,
    clock_log: Path | None = None,
) -> Exporter:
    """This node's exporter, ready to serve. Probes of peers need an address that the peers can reach."""
    host = host or os.uname().nodename
    probes = None
    if peers:
        own = peers.get(host)
        if own is None:
            raise InputError(
                f"this node is {host!r}, which is not among the peers", fix="name it in --peers, or by --host"
            )
        probes = Peers(host, peers, bind=own, port=peer_port)
    reader = NodeReader(
        host,
        storage=storage,
        peers=probes,
        own_network=own_network,
        kernel=KernelMessages(),
        clock_log=ClockLog(str(clock_log)) if clock_log else None,
    )
    return Exporter(lambda: reader.read(time.time()), bind=bind, port=port, token=token)
