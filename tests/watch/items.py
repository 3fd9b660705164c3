"""Events and samples for tests: short ways to say what happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from assay.catalog.messages import LANGUAGES, Texts
from assay.domain.event import Event
from assay.domain.incident import Change, Incident
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.watch.machine import Machine
from assay.watch.order import Order
from assay.watch.settings import Settings
from assay.watch.signal import Item

T0 = 1_700_000_000.0


def event(kind: str, time_s: float, subject: str = "cluster", text: str = "", **details) -> Event:
    return Event(kind=kind, time_s=T0 + time_s, subject=Subject.parse(subject), text=text, details=details)


def samples(metric: str, time_s: float, /, **values: float) -> Samples:
    """`samples("gpu_lost", 3, **{"gpu:n1/0": 1})`."""
    return Samples(
        metric=metric,
        time_s=T0 + time_s,
        subjects=tuple(map(Subject.parse, values)),
        values=np.array(list(values.values()), dtype=float),
    )


def steps(
    count: int,
    *,
    start_s: float = 0.0,
    step_s: float = 1.0,
    first: int = 0,
    subject: str = "cluster",
    **details,
) -> Iterator[Event]:
    """A job that does `count` steps."""
    for i in range(count):
        at = start_s + (i + 1) * step_s
        yield event("step", at, subject, step=first + i, step_s=step_s * (1 + 0.01 * (i % 3)), **details)


def fed(machine: Machine, items: Iterable[Item], *, order: Order | None = None) -> list[Change]:
    order = order or Order()
    return [c for item in items for one in order.push(item) for c in machine.feed(one)]


def changes(items: Iterable[Item], *, until_s: float | None = None, **settings: float) -> list[Change]:
    """All changes of a machine that is fed with the items in order of time, and then waits."""
    machine, order = Machine(Settings(**settings)), Order()
    got = fed(machine, sorted(items, key=lambda i: i.time_s), order=order)
    if until_s is not None:
        got += [c for one in order.advance(T0 + until_s) for c in machine.feed(one)]
    for change in got:
        for finding in change.incident.findings:
            for lang in LANGUAGES:
                said = Texts(lang).say(finding.because)
                assert "{" not in said, said
                assert not said.startswith("watch."), said
    return got


def opened(items: Iterable[Item], *, until_s: float | None = None, **settings: float) -> list[Incident]:
    """The incidents, each as its last change left it."""
    last = {c.incident.id: c.incident for c in changes(items, until_s=until_s, **settings)}
    return list(last.values())


def named(items: Iterable[Item], *, until_s: float | None = None, **settings: float) -> set[tuple[str, str]]:
    """(code, subject) of the likeliest cause of each incident."""
    return {(i.code, str(i.subject)) for i in opened(items, until_s=until_s, **settings)}
