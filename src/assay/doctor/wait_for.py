"""Who waits for whom, over all process groups of a job, from the flight-recorder dumps of its ranks.

A rank waits in its first collective that is not done for every member of that group that has not entered
it. The root is a rank that others wait for and that waits for nobody: it computes, loads, writes a
checkpoint, took another turn in the code, or is dead. Mismatches are ranks whose collective at one
position of a group is another one than that of the majority.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.formats.flight_recorder import Dump, Entry

#: Collectives whose sizes may differ between ranks by design.
_FREE_SIZES = ("alltoall", "all_to_all", "gather", "scatter", "coalesced", "send", "recv", "barrier")
_DONE = ("completed", "retired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """At `seq` of `group` the `odd` ranks do something else than the others; `what` differs."""

    group: str
    seq: int
    what: str
    odd: tuple[int, ...]
    usual: str
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """`rank` waits at `seq` of `group` for the ranks in `missing`."""

    rank: int
    group: str
    seq: int
    name: str
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """The whole picture: `roots` are waited for and wait for nobody; `absent` of them left no dump."""

    waits: tuple[Wait, ...]
    roots: tuple[int, ...]
    absent: tuple[int, ...]
    mismatch: Mismatch | None
    hung: bool


def wait_for(dumps: Iterable[Dump], *, waiting: Iterable[int] = ()) -> WaitFor:
    """The wait-for graph of a job. Later dumps of one rank replace earlier ones.

    `waiting` are ranks whose own log says that they waited, which a dump may not show: Gloo records no
    send or receive.
    """
    by_rank = {dump.rank: dump for dump in dumps}
    members = _members(by_rank)
    last = _last_positions(by_rank)
    pending = any(entry.state not in _DONE for dump in by_rank.values() for entry in dump.entries)
    hung = pending or _uneven(members, last)
    nobody = _without_dump(by_rank)
    waits = tuple(
        wait
        for rank, dump in sorted(by_rank.items())
        for wait in _waits(rank, dump, members, last, nobody, by_rank)
    )
    edges = {wait.rank: wait.missing for wait in waits} if hung else {}
    wanted = {m for missing in edges.values() for m in missing}
    roots = sorted(r for r in wanted if r in by_rank and not edges.get(r))
    roots = [r for r in roots if r not in set(waiting)] or roots
    absent = [] if roots else sorted(wanted - set(by_rank))
    return WaitFor(
        waits=waits if hung else (),
        roots=tuple(roots or absent),
        absent=tuple(absent),
        mismatch=_first_mismatch(by_rank, hung=pending),
        hung=hung,
    )


def _uneven(members: Mapping[str, tuple[int, ...]], last: Mapping[tuple[int, str], int]) -> bool:
    """Whether some group has members at different positions."""
    return any(len({last[m, g] for m in ranks if (m, g) in last}) > 1 for g, ranks in members.items())


def _without_dump(by_rank: Mapping[int, Dump]) -> tuple[int, ...]:
    """The ranks that a lone member of a group may wait for: gaps in the numbering, else the next number."""
    most = max(by_rank, default=-1)
    return tuple(r for r in range(most + 1) if r not in by_rank) or (most + 1,)


def _members(by_rank: Mapping[int, Dump]) -> dict[str, tuple[int, ...]]:
    """Ranks of each group: those of its configuration, else those that used it."""
    members: dict[str, tuple[int, ...]] = {}
    for dump in by_rank.values():
        for group, (_, ranks) in dump.groups.items():
            if ranks:
                members.setdefault(group, ranks)
    used: dict[str, set[int]] = defaultdict(set)
    for rank, dump in by_rank.items():
        for group in {entry.group for entry in dump.entries}:
            used[group].add(rank)
    for group, users in used.items():
        members.setdefault(group, tuple(sorted(users)))
    return members


def _last_positions(by_rank: Mapping[int, Dump]) -> dict[tuple[int, str], int]:
    """The last collective that each rank entered in each group, by its entries or its own status."""
    last: dict[tuple[int, str], int] = {}
    for rank, dump in by_rank.items():
        for group, counts in dump.status.items():
            last[rank, group] = counts.get("last_enqueued_collective", -1)
        for entry in dump.entries:
            if not entry.p2p and entry.seq > last.get((rank, entry.group), -1):
                last[rank, entry.group] = entry.seq
    return last


def _waits(
    rank: int,
    dump: Dump,
    members: Mapping[str, tuple[int, ...]],
    last: Mapping[tuple[int, str], int],
    nobody: tuple[int, ...],
    by_rank: Mapping[int, Dump],
) -> Iterator[Wait]:
    """The first collective that is not done; failed ones of Gloo are retired, so the last one counts, too.

    Gloo does not tell who is in a group: one that a single rank used has a member without a dump.
    """
    candidates = [entry for entry in dump.entries if entry.state not in _DONE]
    if not candidates and dump.entries and dump.entries[-1].state == "retired":
        candidates = [dump.entries[-1]]
    for entry in candidates:
        ranks = members.get(entry.group, ())
        if entry.p2p:
            missing = _absent_partner(rank, dump, entry, ranks, by_rank)
        else:
            missing = tuple(m for m in ranks if m != rank and last.get((m, entry.group), -1) < entry.seq)
            if not missing and ranks == (rank,) and entry.group not in dump.groups:
                missing = nobody
        if missing:
            yield Wait(rank=rank, group=entry.group, seq=entry.seq, name=entry.name, missing=missing)
            return


_ENDS = re.compile(r"(\d{1,7})\s*(?:->|<-)\s*(\d{1,7})")


def _absent_partner(
    rank: int, dump: Dump, entry: Entry, ranks: tuple[int, ...], by_rank: Mapping[int, Dump]
) -> tuple[int, ...]:
    """The other end of `nccl:recv 1<-0`, when it has called fewer of these; ends count within the group."""
    ends = _ENDS.search(entry.name)
    if ends is None:
        return ()
    both = [ranks[int(end)] for end in ends.groups() if int(end) < len(ranks)]
    partner = next((end for end in both if end != rank), None)
    if partner is None or len(both) != 2:
        return ()
    mine = _calls(dump, entry.group, ends.groups(), before=entry.seq)
    other = by_rank.get(partner)
    return (partner,) if other is None or _calls(other, entry.group, ends.groups()) < mine else ()


def _calls(dump: Dump, group: str, ends: Sequence[str], before: int | None = None) -> int:
    """How often a rank sent to or received from the other end, up to a position of its own."""
    wanted = set(ends)
    return sum(
        entry.p2p
        and entry.group == group
        and (before is None or entry.seq <= before)
        and bool((found := _ENDS.search(entry.name)) and set(found.groups()) == wanted)
        for entry in dump.entries
    )


def _first_mismatch(by_rank: Mapping[int, Dump], *, hung: bool) -> Mismatch | None:
    """The earliest position of any group at which ranks differ; frames count only when the job hangs."""
    places: dict[tuple[str, int], list[tuple[int, Entry]]] = defaultdict(list)
    for rank, dump in by_rank.items():
        for entry in dump.entries:
            if not entry.p2p and entry.seq >= 0:
                places[entry.group, entry.seq].append((rank, entry))
    everywhere: dict[int, Counter[str]] = defaultdict(Counter)
    for (_, seq), entered in places.items():
        everywhere[seq].update(_kind(entry) for _, entry in entered)
    best: tuple[float, Mismatch] | None = None
    for (group, seq), entered in places.items():
        found = _mismatch(group, seq, entered, everywhere[seq], hung=hung) if len(entered) > 1 else None
        if found is not None:
            time = min((e.created_s for _, e in entered if e.created_s is not None), default=float(seq))
            if best is None or time < best[0]:
                best = (time, found)
    return None if best is None else best[1]


def _kind(entry: Entry) -> str:
    return entry.name.rpartition(":")[2]


def _mismatch(
    group: str, seq: int, entered: list[tuple[int, Entry]], everywhere: Counter[str], *, hung: bool
) -> Mismatch | None:
    """What differs at one position. In a group of two, what the other groups do there tells who is odd."""
    first = entered[0][1]
    if all(e[3:6] == first[3:6] and (not hung or e.frame == first.frame) for _, e in entered):
        return None
    looks: dict[str, Callable[[Entry], str]] = {
        "type": _kind,
        "size": lambda e: e.sizes,
        "dtype": lambda e: e.dtypes,
    }
    if any(word in first.name for word in _FREE_SIZES):
        del looks["size"], looks["dtype"]
    if hung:
        looks["call site"] = lambda e: e.frame
    for what, look in looks.items():
        counts = Counter(look(entry) for _, entry in entered)
        if len(counts) > 1:
            usual = max(counts, key=lambda value: (counts[value], everywhere[value]))
            odd = tuple(sorted(rank for rank, entry in entered if look(entry) != usual))
            other = next(look(entry) for _, entry in entered if look(entry) != usual)
            return Mismatch(group=group, seq=seq, what=what, odd=odd, usual=usual, other=other)
    return None
