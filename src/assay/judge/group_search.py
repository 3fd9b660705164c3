"""Adaptive group tests: which nodes, or pairs of nodes, make a group slow, where all pairs are too many.

A test runs one load over a group of nodes, every node of it with every other, and is slow where a bad node
or a bad pair (a link, or a collision of routes that only these two meet) is among them. The planner takes
outcomes and gives the next round of disjoint groups; it does nothing by itself. One fault among n nodes takes
about log₂ n rounds, and a pair twice as many, since it has to be sought across two halves that are both good.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.domain.subject import natural_key
from assay.errors import InputError

Group = frozenset[str]
#: The search asks for the outcomes of groups, and is told which are slow.
_Asking = Generator[Sequence[Group], dict[Group, bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What was found: bad nodes, and pairs that are slow although both ends are good with all others.

    `unresolved` are nodes none of which could be shown to be good, so that none can be blamed.
    """

    nodes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    unresolved: tuple[str, ...] = ()


class GroupSearch:
    """A search over `nodes`: run the groups of `tests`, tell what came of them with `report`, until `done`.

    The same outcomes give the same search, so that a log of them is its whole state.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = _ordered(set(nodes))
        if len(self._nodes) < 2:
            raise InputError(f"a group test needs two nodes, but {len(self._nodes)} is given")
        self.rounds = self.tests_run = 0
        self._is_slow: dict[Group, bool] = {}
        self._good: set[str] = set()
        self._bad: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._unresolved: set[str] = set()
        self._search = self._whole()
        self._asked: Sequence[Group] = next(self._search)
        self.tests: tuple[Group, ...] = self._next_round()

    @property
    def done(self) -> bool:
        """Whether nothing is left to test."""
        return not self.tests

    @property
    def faults(self) -> Faults:
        """What is found so far."""
        pairs = sorted(self._pairs, key=lambda pair: tuple(map(natural_key, pair)))
        return Faults(nodes=_ordered(self._bad), pairs=tuple(pairs), unresolved=_ordered(self._unresolved))

    def report(self, is_slow: Mapping[Group, bool]) -> None:
        """The outcome of every group of `tests`; makes the next ones."""
        missing = [group for group in self.tests if group not in is_slow]
        if missing:
            raise InputError(f"{len(missing)} of {len(self.tests)} tests of this round have no outcome")
        self.rounds += 1
        self.tests_run += len(self.tests)
        for group in self.tests:
            self._is_slow[group] = is_slow[group]
            self._good |= set() if is_slow[group] else group
        self.tests = self._next_round()

    def _next_round(self) -> tuple[Group, ...]:
        """Of the groups that are asked for, those without an outcome, as many as are disjoint."""
        while True:
            busy: set[str] = set()
            chosen: list[Group] = []
            for group in self._asked:
                if group not in self._is_slow and group not in chosen and not group & busy:
                    busy |= group
                    chosen.append(group)
            if chosen:
                return tuple(chosen)
            try:
                self._asked = self._search.send({group: self._is_slow[group] for group in self._asked})
            except StopIteration:
                return ()

    def _whole(self) -> _Asking:
        """All at once; where that is slow it is searched, and the rest tested again, until it is fast."""
        slow = True
        while slow and not self._unresolved:
            slow = False
            for group in self._without_faults():
                if (yield (group,))[group]:
                    slow = True
                    yield from self._find(group)
                    break

    def _without_faults(self) -> Iterator[Group]:
        """Groups without a known fault that hold every good node, and it with all but its bad partners."""
        partners: dict[str, set[str]] = {}
        for a, b in self._pairs:
            partners.setdefault(a, set()).add(b)
            partners.setdefault(b, set()).add(a)
        left_out: set[str] = set()
        for node in sorted(partners, key=lambda n: (-len(partners[n]), natural_key(n))):
            if not partners[node] <= left_out:
                left_out.add(node)
        every = frozenset(self._nodes) - self._bad
        groups = [every - left_out]
        groups += [every - (left_out - {node}) - partners[node] for node in sorted(left_out, key=natural_key)]
        yield from (group for group in groups if len(group) > 1)

    def _find(self, group: Group) -> _Asking:
        """Faults of a slow group: in its halves, and where both are fast, across them."""
        waiting, across = [group], []
        while waiting:
            split = [_halves(slow) for slow in waiting]
            is_slow = yield tuple(half for halves in split for half in halves if len(half) > 1)
            alone = [node for halves in split for half in halves if len(half) == 1 for node in half]
            yield from self._try_alone(alone)
            if self._unresolved:
                return
            waiting = []
            for halves in split:
                bad = [half for half in halves if is_slow.get(half, bool(half & self._bad))]
                waiting += [half for half in bad if len(half) > 1]
                across += [] if bad else [halves]
        yield from self._find_across(across)

    def _try_alone(self, nodes: Sequence[str]) -> _Asking:
        """Each node with a good one; where that is slow, with another, before it is called bad."""
        if nodes and not self._good:
            yield from self._find_good()
        good = _ordered(self._good - set(nodes)) or _ordered(self._good)
        first = {node: next((g for g in _from(good, at) if g != node), "") for at, node in enumerate(nodes)}
        first = {node: partner for node, partner in first.items() if partner}
        is_slow = yield tuple(frozenset(pair) for pair in first.items())
        suspects = {node: partner for node, partner in first.items() if is_slow[frozenset((node, partner))]}
        again = {}
        for at, (node, partner) in enumerate(suspects.items()):
            others = (g for g in _from(good, at + len(good) // 2) if g not in (node, partner))
            again[node] = next(others, partner)
        is_slow = yield tuple(frozenset(pair) for pair in again.items())
        for node, partner in again.items():
            if is_slow[frozenset((node, partner))]:
                self._bad.add(node)
            else:
                self._add_pair(node, suspects[node])

    def _find_good(self) -> _Asking:
        """Two nodes that are fast together, from rounds in which each meets another; for small clusters."""
        nodes = _ordered(set(self._nodes) - self._bad)
        for step in range(1, len(nodes)):
            yield tuple(frozenset((nodes[at], nodes[at - step])) for at in range(len(nodes)))
            if self._good:
                return
        self._unresolved |= set(nodes)

    def _find_across(self, waiting: list[tuple[Group, Group]]) -> _Asking:
        """Of two groups, each fast and slow together, the pair with one end in each."""
        while waiting:
            for left, right in waiting:
                if len(left) == len(right) == 1:
                    self._add_pair(*left, *right)
            split = [_crossed(left, right) for left, right in waiting if len(left) + len(right) > 2]
            is_slow = yield tuple(a | b for crossed in split for a, b in crossed[: len(crossed) // 2])
            slow = [[pair for pair in crossed if is_slow.get(pair[0] | pair[1])] for crossed in split]
            others = [crossed[len(crossed) // 2 :] for crossed in split]
            # Where one combination is left and all others are fast, it is the slow one: no test is needed.
            sure = [len(rest) == 1 and not found for rest, found in zip(others, slow, strict=True)]
            asked = [rest for rest, known in zip(others, sure, strict=True) if not known]
            is_slow = yield tuple(a | b for rest in asked for a, b in rest)
            waiting = [pair for found in slow for pair in found]
            for rest, known in zip(others, sure, strict=True):
                waiting += [(a, b) for a, b in rest if known or is_slow.get(a | b)]

    def _add_pair(self, a: str, b: str) -> None:
        first, second = _ordered((a, b))
        self._pairs.add((first, second))


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural_key))


def _from(names: Sequence[str], start: int) -> Iterator[str]:
    """The names from `start` on, around the end."""
    for at in range(len(names)):
        yield names[(start + at) % len(names)]


def _halves(group: Collection[str]) -> tuple[Group, Group]:
    """Neighbours by name stay together: they share a leaf. The second half of one node is empty."""
    ordered = _ordered(group)
    middle = (len(ordered) + 1) // 2
    return frozenset(ordered[:middle]), frozenset(ordered[middle:])


def _crossed(left: Group, right: Group) -> list[tuple[Group, Group]]:
    """The combinations of both halves of each, the first half of the list disjoint, as is the second."""
    lefts, rights = _halves(left), _halves(right)
    every = [(lefts[at], rights[at ^ turn]) for turn in (0, 1) for at in (0, 1)]
    return [(a, b) for a, b in every if a and b]


def simulate(
    nodes: Iterable[str], bad: Collection[str] = (), pairs: Iterable[Collection[str]] = ()
) -> GroupSearch:
    """A finished search over nodes of which these are bad, and these slow only with each other."""
    search, hidden = GroupSearch(nodes), [frozenset(pair) for pair in pairs]
    while not search.done:
        search.report(
            {group: bool(group & set(bad)) or any(pair <= group for pair in hidden) for group in search.tests}
        )
    return search
