"""Which nodes, links, rails, leaves or cards of a fleet are slow: a robust fit over all of them at once.

The log of time (or of one over a rate) of a link is what sending costs at its source, plus what receiving
costs at its target, plus a rest; that of a card is what is common to its slot, to its node, and a rest. Each
part is fitted by medians and then searched for what stands out, coarse before fine, so that a fault is named
once, at the level where it is: cohorts, rails, nodes, ports, single links and cards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from assay.catalog.findings import finding as kind_of
from assay.domain.fact import Fact
from assay.domain.finding import Evidence, Finding
from assay.domain.message import Message, MessageValue
from assay.domain.quantity import Scope
from assay.domain.subject import CLUSTER, Subject, leaf_group
from assay.judge.cohorts import Cohort, Records, take_out_cohorts
from assay.judge.families import Family, Measured
from assay.judge.fleet_table import Between, Inside, Table, departure_frac, tables_of
from assay.judge.odd import Limits, limit_of
from assay.judge.polish import Groups, Odd, find_slow, median, polish
from assay.stats import Floats

#: Probability that a healthy fleet has any finding, over all tables and levels of one run.
ERROR_FRAC = 0.01
#: Levels of one table: cohorts, rails or slots, nodes (sending, receiving), ports (both), single ones.
_LEVELS = 7
#: From this many nodes on what many subjects have in common is known well, and small effects are named.
_MANY_NODES = 16
#: Where a direction is slow and the other by at least this share of it, both are called slow.
_BOTH = 0.5
#: A node is slow, and not some of its cards or inner links, where at least this share of them is.
_SHARE_LEAST = 0.75
_EVIDENCE_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Log effects that matter: of what many values share (a node, a rail), and of a single link or card."""

    shared: float
    single: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What was looked at, and the findings; none says that there is nothing odd.

    `families` are those that were judged here, `values` the links and cards over all of them.
    """

    findings: tuple[Finding, ...] = ()
    families: tuple[Family, ...] = ()
    nodes: int = 0
    values: int = 0

    @property
    def notes(self) -> tuple[Message, ...]:
        """That a fleet was looked over and nothing is odd, for the reader of a report without findings."""
        if not self.families or self.findings:
            return ()
        values: dict[str, MessageValue] = {"nodes": self.nodes, "measured": self.values}
        return (Message.of("note.fleet_none", **values, chance_frac=ERROR_FRAC),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slow:
    """One slow thing in one table: `because` is the last part of the message code, `at` a row to show."""

    code: str
    subject: Subject
    because: str
    size: float
    family: Family
    row: int
    siblings: int
    told: dict[str, MessageValue] = field(default_factory=dict)


def find_fleet(measured: Measured, facts: Iterable[Fact], limits: Limits | None = None) -> Fleet:
    """Findings about a run with at least four nodes, worst first; see the module for the method."""
    limits, records = limits or Limits(), Records(facts)
    tables: list[tuple[Table, Effects]] = []
    judged: list[Family] = []
    for family in (family for group in measured.families.values() for family in group):
        limit = limit_of(family.quantity, limits)
        if limit is None or not family.values or family.quantity.scope not in _SCOPES:
            continue
        if family.recipe.get("statistic") in _EXTREMES:
            continue
        made = tables_of(family, records.node_names)
        judged += [family] if made else []
        tables += [(table, _effects(table, limit)) for table in made]
    if not tables:
        return Fleet()
    error_frac = ERROR_FRAC / (len(tables) * _LEVELS)
    slow = [s for table, matters in tables for s in _search(table, records, matters, error_frac)]
    return Fleet(
        findings=tuple(sorted(_findings(slow), key=lambda f: (f.severity.rank, f.code, f.subject))),
        families=tuple(judged),
        nodes=max(len(table.nodes) for table, _ in tables),
        values=sum(len(table.rows) for table, _ in tables),
    )


#: What links are held against where few nodes share processors; a fleet is fitted by medians.
_EXTREMES = ("min", "max")
_SCOPES = (Scope.GPU, Scope.LINK, Scope.PAIR)


def _effects(table: Table, limit: float) -> Effects:
    """Of a few nodes the `limit` of their kind (see `Limits`), since healthy networks differ that much.

    In a large fleet what many share is known to 2 % of a rate and 10 % of a latency, and a link to 5 % and
    30 %; a card keeps its limit.
    """
    if len(table.nodes) < _MANY_NODES:
        return Effects(shared=limit, single=limit)
    if table.family.quantity.unit == "s":
        return Effects(shared=0.10, single=0.30)
    return Effects(shared=0.02, single=limit if table.family.quantity.scope is Scope.GPU else 0.05)


def _search(table: Table, records: Records, matters: Effects, error_frac: float) -> Iterator[_Slow]:
    cohorts, values = take_out_cohorts(table, records, matters.shared, error_frac)
    for cohort in cohorts:
        yield _cohort(table, cohort)
    if isinstance(table, Between):
        yield from _between(table, values, matters, error_frac)
    else:
        yield from _inside(table, values, matters, error_frac)


def _between(table: Between, values: Floats, matters: Effects, error_frac: float) -> Iterator[_Slow]:
    """Rails, then nodes and directions, then single links."""
    if table.rail is not None:
        rails = table.rail.median(values)
        values = values - rails[table.rail.of]
        odd = find_slow(rails, matters.shared, error_frac)
        for at in odd.at:
            subject = Subject("group", f"rail{table.rails[at]}")
            yield _slow(table, "RAIL_SLOW", subject, "rail", odd, at, table.rail)
    found, rest = _ends(table, values, (table.source, table.target), table.nodes, matters, error_frac)
    yield from found
    if table.rail is not None:
        rail = table.rail.of
        ports = tuple(f"{node}/{name}" for node in table.nodes for name in table.rails)
        ends = tuple(Groups(e.of * len(table.rails) + rail, len(ports)) for e in (table.source, table.target))
        found, rest = _ends(table, rest, (ends[0], ends[1]), ports, matters, error_frac)
        yield from found
    yield from _links(table, rest, matters, error_frac)


def _ends(
    table: Table,
    values: Floats,
    ends: tuple[Groups, Groups],
    names: tuple[str, ...],
    matters: Effects,
    error_frac: float,
) -> tuple[list[_Slow], Floats]:
    """Nodes, or ports or cards of nodes, that send slowly, receive slowly, or both; and what is left."""
    sends, receives, rest = polish(values, *ends)
    sent = find_slow(sends, matters.shared, error_frac)
    got = find_slow(receives, matters.shared, error_frac)
    found = []
    for at in np.flatnonzero(sent.is_odd | got.is_odd).tolist():
        name, sizes = names[at], (float(sent.size[at]), float(got.size[at]))
        if min(sizes) >= _BOTH * max(sizes):
            is_part = "/" in name
            subject = Subject("link", f"{name}>*") if is_part else Subject("node", name)
            code, because = ("LINK_SLOW", "port") if is_part else ("NODE_SLOW", "node")
            found.append(_slow(table, code, subject, because, sent, at, ends[0], size=sum(sizes) / 2))
        elif sizes[0] > sizes[1]:
            subject = Subject("link", f"{name}>*")
            found.append(_slow(table, "LINK_SLOW_ONE_WAY", subject, "sending", sent, at, ends[0]))
        else:
            subject = Subject("link", f"*>{name}")
            found.append(_slow(table, "LINK_SLOW_ONE_WAY", subject, "receiving", got, at, ends[1]))
    return found, rest


def _links(table: Table, rest: Floats, matters: Effects, error_frac: float) -> Iterator[_Slow]:
    """Single links whose ends are fast with all others: one direction, or both."""
    odd = find_slow(rest, matters.single, error_frac)
    if not odd.is_odd.any():
        return
    subjects, rows = table.family.subjects, table.rows.tolist()
    number = {subjects[row].ends: at for at, row in enumerate(rows)}
    told: set[Subject] = set()
    for at in odd.at:
        subject, size = subjects[rows[at]], float(odd.size[at])
        back = number.get(subject.ends[::-1])
        if subject.kind == "link" and (back is None or odd.size[back] < _BOTH * size):
            yield _slow(table, "LINK_SLOW_ONE_WAY", subject, "one_way", odd, at)
            continue
        both = size if back is None else float(odd.size[at] + odd.size[back]) / 2
        pair = Subject("pair", "|".join(subject.ends))
        if pair not in told:
            told.add(pair)
            yield _slow(table, "LINK_SLOW", pair, "pair", odd, at, size=both)


def _inside(table: Inside, values: Floats, matters: Effects, error_frac: float) -> Iterator[_Slow]:
    """Slots, then nodes whose cards (or inner links) are slow as one, then single cards (or links)."""
    slots = table.place.median(values)
    values = values - slots[table.place.of]
    if table.source is None:
        odd = find_slow(slots, matters.shared, error_frac)
        for at in odd.at:
            told: dict[str, MessageValue] = {"key": "slot", "text": table.places[at]}
            yield _slow(table, "COHORTS_DIFFER", CLUSTER, "slot", odd, at, table.place, told=told)
    if len(table.places) > 1:
        nodes = table.node.median(values)
        odd = find_slow(nodes, matters.shared, error_frac)
        alike = _share_alike(values, table.node, odd) >= _SHARE_LEAST
        what = "node_cards" if table.source is None else "node_links"
        for at in odd.at:
            if alike[at]:
                yield _slow(table, "NODE_SLOW", Subject("node", table.nodes[at]), what, odd, at, table.node)
        # Where half of a node is slow its median says nothing of the other half.
        nodes = np.where(((odd.size < matters.shared) | alike)[:, None], nodes, 0.0)
        values = values - nodes[table.node.of]
    if table.source is None or table.target is None:
        odd = find_slow(values, matters.single, error_frac)
        for at in odd.at:
            yield _slow(table, "GPU_SLOW", table.family.subjects[int(table.rows[at])], "card", odd, at)
        return
    found, rest = _ends(table, values, (table.source, table.target), table.cards, matters, error_frac)
    yield from found
    yield from _links(table, rest, matters, error_frac)


def _share_alike(values: Floats, groups: Groups, odd: Odd) -> Floats:
    """Which share of each group's rows is slow by at least half of the group's effect."""
    slow = median(values, axis=1) >= odd.size[groups.of] / 2
    return np.bincount(groups.of, weights=slow, minlength=groups.count) / np.maximum(groups.sizes, 1)


def _cohort(table: Table, cohort: Cohort) -> _Slow:
    subject = CLUSTER
    if cohort.is_leaf:
        subject = leaf_group(cohort.value)
    return _Slow(
        code="LEAF_SLOW" if cohort.is_leaf else "COHORTS_DIFFER",
        subject=subject,
        because="leaf" if cohort.is_leaf else "cohort" if cohort.key else "unknown",
        size=cohort.size,
        family=table.family,
        row=int(table.rows[cohort.at]),
        siblings=cohort.others,
        told={
            "key": cohort.key,
            "text": cohort.value,
            "nodes": cohort.nodes,
            "also": f" ({'; '.join(cohort.also)})" if cohort.also else "",
        },
    )


def _slow(
    table: Table,
    code: str,
    subject: Subject,
    because: str,
    odd: Odd,
    at: int,
    groups: Groups | None = None,
    *,
    size: float | None = None,
    told: dict[str, MessageValue] | None = None,
) -> _Slow:
    """What stands out as number `at`; `groups` say which rows of the table it is made of."""
    row = at if groups is None else int(np.flatnonzero(groups.of == at)[0])
    return _Slow(
        code=code,
        subject=subject,
        because=because,
        size=float(odd.size[at]) if size is None else size,
        family=table.family,
        row=int(table.rows[row]),
        siblings=len(odd.size) - 1,
        told=told or {},
    )


def _findings(every: Iterable[_Slow]) -> Iterator[Finding]:
    """One finding per thing, told by its largest effect, with each quantity that shows it as evidence."""
    things: dict[object, list[_Slow]] = defaultdict(list)
    for slow in every:
        things[slow.code, slow.subject, slow.told.get("key"), slow.told.get("text")].append(slow)
    for same in things.values():
        worst = max(same, key=lambda slow: slow.size)
        quantity = worst.family.quantity
        yield Finding(
            code=worst.code,
            severity=kind_of(worst.code).severity,
            subject=worst.subject,
            because=Message.of(
                f"because.fleet.{worst.because}",
                quantity=quantity.id,
                deviation_frac=departure_frac(worst.size, quantity.better),
                recipe=str(worst.family.recipe),
                siblings=worst.siblings,
                **worst.told,
            ),
            evidence=tuple(_evidence(slow) for slow in same[:_EVIDENCE_SHOWN]),
        )


def _evidence(slow: _Slow) -> Evidence:
    reading = slow.family.readings[slow.row]
    frac = departure_frac(slow.size, slow.family.quantity.better)
    return Evidence.at(
        reading.source,
        f"{slow.family.quantity.id} of {slow.subject}: {frac:+.1%} against its siblings,"
        f" as of {reading.subject}",
    )
