"""What the probes between pairs of nodes tell: which link, or which node, is slow, lossy, or off in time."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised

#: Values that make a usual one, and the fewest from which it is known.
_WINDOW, _LEAST = 32, 5
#: A value speaks for its link so long; probes of a large cluster come round slowly.
_FRESH_S = 60.0
#: A node is named when this share of its links is bad, a link when it alone is.
_SHARE = 0.6
#: Batches over which lost probes are counted, and the fewest that are more than chance.
_LOSS_BATCHES, _LOST_LEAST = 10, 2.0

End = tuple[str, str]


def culprits(bad: Set[End], every: Set[End]) -> list[Subject]:
    """The nodes and pairs that explain the bad links, fewest first: the node with most of its links bad."""
    left, named = set(bad), list[Subject]()
    while left:
        of_node: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for link in every:
            for end in set(link):
                of_node[end][0] += 1
                of_node[end][1] += link in left
        node, (links, count) = max(of_node.items(), key=lambda item: (item[1][1], -item[1][0], item[0]))
        others = {end for link in every if node in link for end in link} - {node}
        if count >= 2 and count >= _SHARE * links and len(others) >= 2:
            named.append(Subject("link", f"{node}>*"))
            left = {link for link in left if node not in link}
        else:
            named += sorted({Subject("pair", "|".join(link)) for link in left})
            break
    return named


@dataclass(slots=True)
class _Link:
    usual: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_LOSS_BATCHES))
    bad: int = 0
    good: int = 0
    value: float = 0.0
    time_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Test:
    code: str
    because: str
    unit: str
    held: int


#: The time stamps of a probe are exact to half a round trip, so a clock needs no history.
_TESTS = {
    "pair_round_trip_s": _Test("LINK_SLOW", "pair_slow", "s", 2),
    "pair_rate_Bps": _Test("LINK_SLOW", "pair_rate", "B/s", 2),
    "pair_lost_frac": _Test("LINK_LOSS", "pair_lost", "1", 2),
    "pair_clock_offset_s": _Test("CLOCK_OFFSET", "pair_clock", "s", 2),
}


@detector(
    "pairs",
    reads=tuple(_TESTS),
    codes=sorted({test.code for test in _TESTS.values()}),
    false_alarms_per_subject_day=1e-3,
)
class Pairs:
    """Round trips, rates and losses against the link's own history, clock offsets against a bound.

    Subjects are links `a>b`, probed from a to b. A link is bad after two values in a row; most links of a
    node bad means the node. Assumes that a healthy probe (the lowest of its round trips) is four times its
    usual, and 1 ms above, with a chance of 1 % or less; a node of three links then needs 1e-8 or less.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._links: dict[str, dict[Subject, _Link]] = {metric: {} for metric in _TESTS}
        self._on: dict[str, set[Subject]] = {metric: set() for metric in _TESTS}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A batch of probes of one metric."""
        if not isinstance(item, Samples):
            return
        links, test = self._links[item.metric], _TESTS[item.metric]
        for subject, value in zip(item.subjects, item.values.tolist(), strict=True):
            if value == value:
                self._take(item.metric, links.setdefault(subject, _Link()), value, item.time_s)
        fresh = {s: link for s, link in links.items() if item.time_s - link.time_s <= _FRESH_S}
        bad = {_ends(s) for s, link in fresh.items() if link.bad >= test.held}
        now = set(culprits(bad, {_ends(s) for s in fresh})) if bad else set()
        yield from self._told(item, test, now, fresh)

    def _bound(self, test: _Test, usual: list[float]) -> float | None:
        """What the bad value is held against: the bound of clocks, else the usual value."""
        if test.code == "CLOCK_OFFSET":
            return self._settings.clock_offset_s
        return statistics.median(usual) if usual else None

    def _take(self, metric: str, link: _Link, value: float, time_s: float) -> None:
        link.time_s, link.value = time_s, value
        if metric == "pair_lost_frac":
            link.recent.append(value)
            mean = sum(link.recent) / len(link.recent)
            bad = mean > self._settings.pair_loss_frac and sum(v > 0 for v in link.recent) >= _LOST_LEAST
            link.value = mean
        elif metric == "pair_clock_offset_s":
            bad = abs(value) > self._settings.clock_offset_s
        elif len(link.usual) < _LEAST:
            bad = False
        else:
            usual = statistics.median(link.usual)
            if metric == "pair_rate_Bps":
                bad = value < usual / self._settings.pair_ratio
            else:
                bad = value > max(usual * self._settings.pair_ratio, usual + self._settings.pair_least_s)
        link.bad, link.good = (link.bad + 1, 0) if bad else (0, link.good + 1)
        if not bad:
            link.usual.append(value)

    def _told(
        self, item: Samples, test: _Test, now: set[Subject], fresh: dict[Subject, _Link]
    ) -> Iterator[Signal]:
        standing = self._on[item.metric]
        for subject in sorted(now - standing):
            of_it = [link for s, link in fresh.items() if link.bad and _touches(s, subject)]
            usual = [v for link in of_it for v in link.usual]
            yield raised(
                test.code, _named(test, subject), item.time_s, test.because, node=subject.ends[0],
                links=len(of_it), value=_worst(of_it), bound=self._bound(test, usual),
                unit=test.unit,
            )  # fmt: skip
        for subject in sorted(standing - now):
            yield over(test.code, _named(test, subject), item.time_s)
        self._on[item.metric] = now


def _worst(links: Iterable[_Link]) -> float:
    """The value of the middle one of the bad links."""
    return statistics.median_low([abs(link.value) for link in links])


def _named(test: _Test, subject: Subject) -> Subject:
    """A clock belongs to a node, everything else to a link."""
    is_node = subject.kind == "link" and subject.ends[1] == "*"
    return Subject("node", subject.ends[0]) if test.code == "CLOCK_OFFSET" and is_node else subject


def _ends(subject: Subject) -> End:
    a, b = subject.ends
    return (a, b) if a <= b else (b, a)


def _touches(link: Subject, named: Subject) -> bool:
    ends = set(named.ends) - {"*"}
    return ends <= set(link.ends)
