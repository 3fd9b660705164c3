"""The processes of a job on their nodes: stopped, lost, or short of processor time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.watch.detectors.counters import growth
from assay.watch.detectors.rows import Rows
from assay.watch.registry import TICK, detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised, seen

#: How long the complaints of survivors are gathered before the one that is gone is named.
_GATHER_S = 1.5
#: A rank that left alone: its siblings have stayed so long.
_ALONE_S = 3.0
_STOPPED = 1.0
_SAID = ("rank_exited", "peer_closed", "job_started", "job_ended")


@detector("rank-stopped", reads=("rank_state",), codes=("RANK_STOPPED",), false_alarms_per_subject_day=1e-6)
class RankStopped:
    """A process in the kernel's state T in two samples in a row; nothing healthy stays in it."""

    def __init__(self, settings: Settings) -> None:
        self._rows = Rows(bad=0.0, on=0.0)

    def feed(self, item: Item) -> Iterator[Signal]:
        """The states of all ranks."""
        if not isinstance(item, Samples):
            return
        rows = self._rows
        gone = [s for s, on in zip(rows.subjects, rows["on"], strict=True) if on and s not in item.subjects]
        rows.align(item.subjects)
        rows["bad"] = np.where(item.values == _STOPPED, rows["bad"] + 1, 0)
        for at in np.flatnonzero((rows["bad"] >= 2) & (rows["on"] == 0)):
            rows["on"][at] = 1
            yield raised("RANK_STOPPED", item.subjects[at], item.time_s, "rank_stopped")
        for at in np.flatnonzero((rows["bad"] == 0) & (rows["on"] == 1)):
            rows["on"][at] = 0
            gone.append(item.subjects[at])
        for subject in gone:
            yield over("RANK_STOPPED", subject, item.time_s)


@detector(
    "rank-lost",
    reads=("rank_state", "node_up", "rank_placed", *_SAID, TICK),
    codes=("RANK_LOST",),
    false_alarms_per_subject_day=1e-4,
)
class RankLost:
    """A rank that ended before its job.

    Told by the launcher (its exit code), by survivors (who complain that a peer closed the connection: the
    one that is named and does not complain itself), or seen on the nodes: a rank that is gone while
    its siblings stay for 3 s. Healthy ranks end together, or with exit code 0.
    """

    def __init__(self, settings: Settings) -> None:
        self._complaints: list[tuple[float, Subject, Subject, Event]] = []
        self._present: tuple[Subject, ...] = ()
        self._gone_s: dict[Subject, float] = {}
        self._on: set[Subject] = set()
        self._node_of: dict[Subject, str] = {}
        self._down: set[str] = set()

    def feed(self, item: Item) -> Iterator[Signal]:
        """States of ranks, what launchers and survivors say, or a second that has passed."""
        if isinstance(item, Samples):
            if item.metric == "rank_state":
                yield from self._states(item)
            else:
                self._down = {s.name for s, up in zip(item.subjects, item.values, strict=True) if not up}
        elif item.kind == "rank_placed":
            self._node_of[item.subject] = str(item.details.get("node", ""))
        elif item.kind == "rank_exited":
            if item.details.get("code") not in (0, None) and item.subject not in self._on:
                self._on.add(item.subject)
                code = item.details.get("code")
                yield raised(
                    "RANK_LOST", item.subject, item.time_s, "rank_exited", code=code, proof=seen(item)
                )  # fmt: skip
        elif item.kind == "peer_closed":
            peer = Subject.parse(str(item.details.get("peer", "cluster")))
            self._complaints.append((item.time_s, item.subject, peer, item))
        elif item.kind == TICK:
            yield from self._look(item.time_s)
        else:
            self._complaints.clear()
            self._gone_s.clear()
            self._present = ()
            for subject in sorted(self._on):
                yield over("RANK_LOST", subject, item.time_s)
            self._on.clear()

    def _states(self, item: Samples) -> Iterator[Signal]:
        if item.subjects is not self._present:
            here = set(item.subjects)
            for subject in set(self._present) - here:
                self._gone_s.setdefault(subject, item.time_s)
            for subject in here & self._gone_s.keys():
                del self._gone_s[subject]
            self._present = item.subjects
            for subject in sorted(here & self._on):
                self._on.discard(subject)
                yield over("RANK_LOST", subject, item.time_s)
        if len(self._present) < 2 * len(self._gone_s):
            self._gone_s.clear()  # the job ended, with all of its ranks
        yield from self._look(item.time_s)

    def _look(self, now_s: float) -> Iterator[Signal]:
        for subject, since_s in sorted(self._gone_s.items()):
            if self._node_of.get(subject) in self._down:
                self._gone_s[subject] = now_s  # its node does not answer, so nothing is known of it
            elif now_s - since_s >= _ALONE_S and subject not in self._on:
                self._on.add(subject)
                yield raised("RANK_LOST", subject, now_s, "rank_gone", siblings=len(self._present))
        if self._complaints and now_s - self._complaints[0][0] >= _GATHER_S:
            alive = {who for _, who, _, _ in self._complaints}
            named = [(peer, event) for _, _, peer, event in self._complaints if peer not in alive]
            count = len(self._complaints)
            self._complaints.clear()
            if named and named[0][0] not in self._on:
                peer, event = named[0]
                self._on.add(peer)
                yield raised("RANK_LOST", peer, now_s, "peers_closed", count=count, proof=seen(event))


#: Batches in a row.
_HELD = 3


@detector(
    "rank-starved",
    reads=("rank_cpu_wait_s_total", "rank_cpu_throttled_s_total"),
    codes=("RANK_STARVED",),
    false_alarms_per_subject_day=1e-3,
)
class RankStarved:
    """A process that wants to run and may not.

    By its control group: halted for more than `cpu_throttled_frac` of the time. By others: waiting for a
    processor for more than `cpu_wait_frac`, and as much above the middle of its siblings. Three samples in
    a row; assumes that a healthy rank is there with a chance of 1 % or less, independently.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = {
            "rank_cpu_wait_s_total": settings.cpu_wait_frac,
            "rank_cpu_throttled_s_total": settings.cpu_throttled_frac,
        }
        self._rows = {metric: Rows(last=np.nan, bad=0.0, on=0.0) for metric in self._limit}
        self._last_s: dict[str, float] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """Seconds that all ranks have waited, or were halted."""
        if not isinstance(item, Samples):
            return
        rows, limit = self._rows[item.metric], self._limit[item.metric]
        rows.align(item.subjects)
        passed_s = item.time_s - self._last_s.get(item.metric, item.time_s)
        self._last_s[item.metric] = item.time_s
        frac = growth(rows, item.values) / passed_s if passed_s > 0 else np.zeros(len(item.subjects))
        others = float(np.median(frac)) if item.metric == "rank_cpu_wait_s_total" and len(frac) > 2 else 0.0
        rows["bad"] = np.where(frac > others + limit, rows["bad"] + 1, 0)
        for at in np.flatnonzero((rows["bad"] >= _HELD) & (rows["on"] == 0)):
            rows["on"][at] = 1
            why = "cpu_waits" if item.metric == "rank_cpu_wait_s_total" else "cpu_throttled"
            yield raised("RANK_STARVED", item.subjects[at], item.time_s, why, share_frac=float(frac[at]))
        for at in np.flatnonzero((rows["bad"] == 0) & (rows["on"] == 1)):
            rows["on"][at] = 0
            yield over("RANK_STARVED", item.subjects[at], item.time_s)
