"""The transport of each result: what the ranks of its benchmark told, and what NCCL took for its call."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from assay.domain.attestation import TOLD, Attested, Standing, Told, Way
from assay.domain.reading import Reading
from assay.domain.recipe import Recipe
from assay.judge.transport_cases import Case

_CALL = re.compile(r"collective\.(?P<op>\w+)\.(?P<what>\w+)")
#: Not results of their own but what is told of results.
_OF_CALLS = ("choice", "registration")
#: First words of a quantity -> the benchmark behind it.
_BENCHMARKS = {"collective": "collectives", "leaf": "groups", "training": "training", "soak": "soak"}
#: Those whose results are told apart by operation and size.
_BY_CALL = ("collectives", "groups")
#: Devices that bytes leave a node by.
_OUT = ("rdma", "netdev")
#: What says least for a result comes first.
_WORST = (
    Standing.SOCKETS,
    Standing.UNATTESTED,
    Standing.TOO_LITTLE,
    Standing.ATTESTED,
    Standing.WITHIN,
)
_SINGLE = "a message between two ranks takes no algorithm"
_SEVERAL = "its calls are of several sizes"
_NOT_LOGGED = "this run did not log it for this call: the benchmark `choices` does"
_BY_GLOO = "Gloo does not tell"

CallKey = tuple[str, int, int]


@lru_cache(maxsize=4096)  # a fleet has millions of readings by a few hundred recipes
def benchmark_of(quantity: str, recipe: Recipe) -> str | None:
    """The benchmark whose messages a result rests on; None where it rests on none that is attested."""
    if (found := _CALL.fullmatch(quantity)) and found["what"] in _OF_CALLS:
        return None
    if recipe.get("method") == "nccl-tests":
        return None  # another program, within one node
    if quantity.startswith("peer."):
        if recipe.get("span") != "nodes":
            return "peer"
        return "pairs_alone" if recipe.get("load") == "alone" else "pairs"
    return _BENCHMARKS.get(quantity.partition(".")[0])


@lru_cache(maxsize=4096)
def attestation_id(quantity: str, recipe: Recipe) -> str | None:
    """The name of the attestation that a result carries."""
    benchmark = benchmark_of(quantity, recipe)
    if benchmark is None:
        return None
    key = _call_of(quantity, recipe) if benchmark in _BY_CALL else None
    return "/".join(str(part) for part in (benchmark, *(key or ())))


def _call_of(quantity: str, recipe: Recipe) -> CallKey | None:
    """Operation, bytes and ranks of the call that a result is about."""
    size, ranks = recipe.get("bytes"), recipe.get("ranks")
    if not isinstance(size, int | float) or not isinstance(ranks, int | float):
        return None
    return quantity.split(".")[1], int(size), int(ranks)


def texts_of_calls(readings: Iterable[Reading], what: str) -> dict[CallKey, Reading]:
    """The readings of `collective.<op>.<what>` by their call."""
    found = {}
    for r in readings:
        is_told = r.quantity.startswith("collective.") and r.quantity.endswith(f".{what}")
        if is_told and (key := _call_of(r.quantity, r.recipe)):
            found[key] = r
    return found


def attested_results(
    readings: Sequence[Reading], cases: Iterable[Case], choices: Mapping[CallKey, Reading]
) -> tuple[Attested, ...]:
    """One record for each benchmark, operation and size that left results and attestations."""
    of_benchmark: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        of_benchmark[case.benchmark].append(case)
    registered = texts_of_calls(readings, "registration")
    wanted: dict[str, tuple[str, CallKey | None]] = {}
    for r in readings:
        benchmark, name = benchmark_of(r.quantity, r.recipe), attestation_id(r.quantity, r.recipe)
        if name and benchmark in of_benchmark and "<" not in r.quantity:
            wanted[name] = (benchmark, _call_of(r.quantity, r.recipe) if benchmark in _BY_CALL else None)
    common = {name: _common(those) for name, those in of_benchmark.items()}
    ways = {name: _lowest(those) for name, those in of_benchmark.items()}
    rails = {name: _lowest_rails(those) for name, those in of_benchmark.items()}
    made = []
    for benchmark, call in wanted.values():
        those = of_benchmark[benchmark]
        op, size, ranks = call or (None, None, None)
        asked = call or _only_call(those)
        made.append(
            Attested(
                benchmark=benchmark,
                op=op,
                bytes=size,
                ranks=ranks,
                transport=those[0].transport,
                **common[benchmark],
                algorithm=_of_call(asked, choices, those),
                registration=_of_call(asked, registered, those),
                standings=tuple(sorted(Counter(case.standing for case in those).items())),
                ways=ways[benchmark],
                rails=rails[benchmark],
            )
        )
    return tuple(made)


def _only_call(cases: Sequence[Case]) -> CallKey | None:
    """The one call that a benchmark makes over and over, as a soak does; None where there are several."""
    asked = {(c.op, c.bytes, c.ranks) for case in cases for a in case.told for c in a.calls}
    return next(iter(asked)) if len(asked) == 1 else None


def _of_call(call: CallKey | None, told: Mapping[CallKey, Reading], cases: Sequence[Case]) -> Told:
    if cases[0].transport == "gloo":
        return Told(value=None, reason=_BY_GLOO, source="gloo")
    if call is None or call[0] == "send":
        single = all(c.op == "send" for case in cases for a in case.told for c in a.calls)
        return Told(value=None, reason=_SINGLE if single else _SEVERAL)
    reading = told.get(call)
    if reading is None:
        return Told(value=None, reason=_NOT_LOGGED)
    value = str(reading.value) if reading.value is not None else None
    return Told(value=value, reason=reading.reason, source=reading.source)


def _common(cases: Iterable[Case]) -> dict[str, Told]:
    """What all ranks told, key by key; where they differ, how many ranks told each."""
    every = [a for case in cases for a in case.told]
    return {key: _agreed([(a.rank, getattr(a, key)) for a in every]) for key in TOLD}


def _agreed(told: Sequence[tuple[int, Told]]) -> Told:
    by_value: dict[str, set[int]] = defaultdict(set)
    for rank, one in told:
        if one.value is not None:
            by_value[one.value].add(rank)
    if not by_value:
        reason = Counter(one.reason or "" for _, one in told).most_common(1)[0][0]
        return Told(value=None, reason=reason, source=told[0][1].source)
    source = next(one.source for _, one in told if one.value is not None)
    ranked = sorted(by_value.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(ranked) == 1:
        return Told(value=ranked[0][0], source=source)
    words = [f"{value} (ranks: {len(ranks)})" for value, ranks in ranked]
    return Told(value=" | ".join(words), source=source)


def _lowest(cases: Sequence[Case]) -> tuple[Way, ...]:
    """The ways of the node and restart with the worst proof; of NVLink, where it counted least."""
    worst = min(cases, key=lambda c: (_WORST.index(c.standing), _best_share(c)))
    nvlink = [way for case in cases for way in case.ways if way.over not in _OUT]
    within = {way.over: min((w for w in nvlink if w.over == way.over), key=_rank) for way in nvlink}
    return (*(way for way in worst.ways if way.over in _OUT), *within.values())


def _best_share(case: Case) -> float:
    return max(case.share_frac(over) or 0.0 for over in _OUT)


def _rank(way: Way) -> tuple[bool, float]:
    return way.share_frac is None, way.share_frac or 0.0


def _lowest_rails(cases: Iterable[Case]) -> tuple[Way, ...]:
    """All rails of the node and restart in which one of them counted least of its share."""
    every = [case.rails for case in cases if case.rails]
    return min(every, key=lambda rails: min(map(_rank, rails))) if every else ()
