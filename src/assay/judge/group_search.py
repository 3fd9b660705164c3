"""Adaptive group tests: which nodes, or pairs of nodes, make a group slow, where all pairs are too many.

A test runs one load over a group of nodes, every node of it with every other, and is slow where a bad node
or a bad pair (a link, or a collision of routes that only these two meet) is among them. The planner takes
outcomes and gives the next round of disjoint groups; it does nothing by itself.

A slow group is halved. Where both halves of a large one are slow, each is searched on its own. Of a small one
the first half is tested alone: if it is fast, the other must be slow; if it is slow, the other is left for
the end, when everything without the known faults is tested at once (binary splitting, after Hwang 1972). So
one fault among n nodes takes little more than log₂ n tests, and a pair about four times as many, since it has
to be sought across two groups that are both fast.

Outcomes may be wrong. A node is named after it was slow with two good ones, a pair after it was slow twice; a
search that contradicts itself names nobody, and what it left slow is searched again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.domain.subject import natural_key
from assay.errors import InputError

Group = frozenset[str]
#: A search asks for the outcomes of groups, and is told which are slow.
_Asking = Generator[Sequence[Group], Mapping[Group, bool], None]
#: The same, that ends with an answer.
_Answering = Generator[Sequence[Group], Mapping[Group, bool], bool]

#: Groups of more than this part of all nodes may well hold a second fault, so that both halves are tested.
_LARGE_FRAC = 1 / 16
#: Searches in a row that may find nothing although everything together is slow.
_FRUITLESS_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What was found: bad nodes, and pairs that are slow although both ends are good with all others.

    `unresolved` are nodes none of which could be shown to be good, or that are slow together although no
    node and no pair of them is, so that none can be blamed.
    """

    nodes: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    unresolved: tuple[str, ...] = ()


@dataclass(slots=True)
class _Hunt:
    """A search for one fault: what it waits for, and what is known of that already."""

    steps: _Asking
    asked: Sequence[Group] = ()
    known: dict[Group, bool] = field(default_factory=dict)

    def go_on(self) -> bool:
        """Take the next step; whether there is one."""
        try:
            # A generator that has not begun takes nothing.
            self.asked = self.steps.send(self.known) if self.asked else next(self.steps)
        except StopIteration:
            return False
        self.known = {}
        return True

    @property
    def open(self) -> list[Group]:
        """What has no outcome yet."""
        return [group for group in self.asked if group not in self.known]


class GroupSearch:
    """A search over `nodes`: run the groups of `tests`, tell what came of them with `report`, until `done`.

    The same outcomes give the same search, so that a log of them is its whole state.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self._nodes = _ordered(set(nodes))
        if len(self._nodes) < 2:
            raise InputError(f"a group test needs two nodes, but {len(self._nodes)} is given")
        self.rounds = self.tests_run = 0
        self._good: set[str] = set()
        self._bad: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._unresolved: set[str] = set()
        self._is_sound = False
        self._fruitless = 0
        self._hunts: list[_Hunt] = []
        self.tests: tuple[Group, ...] = self._next_round()

    @property
    def done(self) -> bool:
        """Whether nothing is left to test."""
        return not self.tests

    @property
    def faults(self) -> Faults:
        """What is found so far; a pair with a bad node is no fault of its own."""
        pairs = sorted(self._sound_pairs(), key=lambda pair: tuple(map(natural_key, pair)))
        return Faults(nodes=_ordered(self._bad), pairs=tuple(pairs), unresolved=_ordered(self._unresolved))

    def report(self, is_slow: Mapping[Group, bool]) -> None:
        """The outcome of every group of `tests`; makes the next ones."""
        missing = [group for group in self.tests if group not in is_slow]
        if missing:
            raise InputError(f"{len(missing)} of {len(self.tests)} tests of this round have no outcome")
        self.rounds += 1
        self.tests_run += len(self.tests)
        for group in self.tests:
            self._good |= set() if is_slow[group] else group
        going, self._hunts = self._hunts, []
        for hunt in going:
            hunt.known |= {group: is_slow[group] for group in hunt.open if group in self.tests}
            if hunt.open:
                self._hunts.append(hunt)
            else:
                self._go_on(hunt)
        self.tests = self._next_round()

    def _go_on(self, hunt: _Hunt) -> None:
        if hunt.go_on():
            self._hunts.append(hunt)

    def _next_round(self) -> tuple[Group, ...]:
        """Of the groups that are asked for, as many as are disjoint."""
        while not self._hunts:
            if self._is_sound or self._unresolved:
                return ()
            self._go_on(_Hunt(self._whole()))
        busy: set[str] = set()
        chosen: list[Group] = []
        for group in (group for hunt in self._hunts for group in hunt.open):
            if group not in chosen and not group & busy:
                busy |= group
                chosen.append(group)
        return tuple(chosen)

    def _whole(self) -> _Asking:
        """All at once without the known faults; what is slow then is searched."""
        known = len(self._bad) + len(self._pairs)
        for group in self._without_faults():
            if (yield (group,))[group]:
                # Who was in a fast group is suspected only where suspecting the others has led to nothing.
                good = group & self._good if not self._fruitless and not group <= self._good else frozenset()
                yield from self._find(group - good, [good] if good else [])
                self._fruitless = 0 if len(self._bad) + len(self._pairs) > known else self._fruitless + 1
                if self._fruitless == _FRUITLESS_MOST:
                    self._unresolved |= group
                return
        self._is_sound = True

    def _sound_pairs(self) -> list[tuple[str, str]]:
        return [pair for pair in self._pairs if not self._bad & set(pair)]

    def _without_faults(self) -> Iterator[Group]:
        """Groups without a known fault that hold every good node, and it with all but its bad partners."""
        partners: dict[str, set[str]] = {}
        for a, b in self._sound_pairs():
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

    def _find(self, group: Group, fast: Sequence[Group] = ()) -> _Asking:
        """One fault of a group that is slow together with some that are `fast`.

        Of a large group more than one: its slow halves are hunts of their own.
        """
        while len(group) > 1:
            first, rest = _halves(group)
            if len(rest) > max(1, _LARGE_FRAC * len(self._nodes)):
                slow = yield first, rest
                if not (slow[first] or slow[rest]):
                    yield from self._across([*fast, first], rest)
                    return
                if slow[first] and slow[rest]:
                    self._go_on(_Hunt(self._find(rest)))
                group, fast = first if slow[first] else rest, ()
            elif (yield from self._is_slow(first)):
                group, fast = first, ()
                if len(group) == 1:
                    return
            else:
                # The fault is among the rest, unless it is a pair with one end in each.
                group, fast = rest, [*fast, first]
        if not (yield from self._is_slow(group)):
            yield from self._across(fast, group)

    def _across(self, fast: Sequence[Group], last: Group) -> _Asking:
        """A pair of nodes in different ones of several groups that are fast, and slow together."""
        for at, left in enumerate(fast):
            right = frozenset[str]().union(*fast[at + 1 :], last)
            # The last is fast by itself; what else is slow without this group holds a pair of its own.
            if right == last or not (yield (right,))[right]:
                yield from self._find_between(left, right)
                return

    def _find_between(self, left: Group, right: Group) -> _Asking:
        """The same with one end in each, once both were shown to be fast again."""
        sides = [side for side in (left, right) if len(side) > 1]
        is_slow = (yield sides) if sides else {}
        wrong = [side for side in sides if is_slow[side]]
        for side in wrong:
            self._good -= side
            yield from self._find(side)
        if not wrong:
            yield from self._find_across([(left, right)])

    def _is_slow(self, group: Group) -> _Answering:
        """The outcome of a group; a node alone is slow where it is bad, or has a bad partner."""
        if len(group) > 1:
            return (yield (group,))[group]
        (node,) = group
        if node in self._bad:
            return True
        if not self._good - self._bad - {node}:
            yield from self._find_good()
        # Far from each other by name, and each node with others of its own: hunts go on side by side.
        good = _ordered(self._good - self._bad - {node})
        turned = [*_from(good, self._nodes.index(node))]
        partners = list(dict.fromkeys((*turned[:1], *turned[len(turned) // 2 :][:1])))
        slow = []
        for partner in partners:
            pair = frozenset((node, partner))
            if not (yield (pair,))[pair]:
                break
            slow.append(partner)
        if slow and len(slow) == len(partners):
            self._bad.add(node)
        elif slow:
            yield from self._confirm(node, slow[0])
        return bool(slow)

    def _confirm(self, a: str, b: str) -> _Asking:
        """A pair that was found, tested again."""
        pair = frozenset((a, b))
        if (yield (pair,))[pair]:
            first, second = _ordered(pair)
            self._pairs.add((first, second))

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
                    yield from self._confirm(*left, *right)
            split = [_crossed(left, right) for left, right in waiting if len(left) + len(right) > 2]
            if not split:
                return
            is_slow = yield tuple(a | b for crossed in split for a, b in crossed[: len(crossed) // 2])
            slow = [[pair for pair in crossed if is_slow.get(pair[0] | pair[1])] for crossed in split]
            others = [crossed[len(crossed) // 2 :] for crossed in split]
            # Where one combination is left and all others are fast, it is the slow one: no test is needed.
            sure = [len(rest) == 1 and not found for rest, found in zip(others, slow, strict=True)]
            asked = [rest for rest, known in zip(others, sure, strict=True) if not known]
            is_slow = (yield tuple(a | b for rest in asked for a, b in rest)) if asked else {}
            waiting = [pair for found in slow for pair in found]
            for rest, known in zip(others, sure, strict=True):
                waiting += [(a, b) for a, b in rest if known or is_slow.get(a | b)]


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
    nodes: Iterable[str],
    bad: Collection[str] = (),
    pairs: Iterable[Collection[str]] = (),
    *,
    is_wrong: Callable[[], bool] = lambda: False,
) -> GroupSearch:
    """A finished search over nodes of which these are bad, and these slow only with each other.

    `is_wrong` is asked once for each test whether its outcome is to be the opposite.
    """
    search, hidden = GroupSearch(nodes), [frozenset(pair) for pair in pairs]
    while not search.done:
        search.report(
            {
                group: (bool(group & set(bad)) or any(pair <= group for pair in hidden)) != is_wrong()
                for group in search.tests
            }
        )
    return search
