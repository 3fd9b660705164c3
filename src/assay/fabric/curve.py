"""Time against size for one group: what NCCL chooses at each size, what that costs, and which link binds."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.fabric.cost import Question, bounds_s, carrier, terms
from assay.fabric.nccl.tuning import costs, times_us
from assay.fabric.parameters import Parameters, family, place_of
from assay.fabric.situation import Ground

Floats = NDArray[np.float64]
Words = NDArray[np.str_]

#: Sizes at which a curve is worked out: 16 to a doubling, 1 B to 1 TiB.
SIZES: Floats = 2.0 ** np.arange(0, 40 + 1 / 16, 1 / 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Arrays over SIZES. `low` and `high` are factors; nothing measured backs the parameters in `unknown`."""

    time_s: Floats
    low: Floats
    high: Floats
    algorithm: Words
    protocol: Words
    bound_by: Words
    unknown: tuple[str, ...]

    def at(self, sizes: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Time at any size, and the index of the nearest size worked out."""
        time = np.interp(sizes, SIZES, self.time_s)
        beyond = sizes > SIZES[-1]
        time = np.where(beyond, self.time_s[-1] * sizes / SIZES[-1], time)
        with np.errstate(divide="ignore"):
            index = np.round(np.log2(np.maximum(sizes, 1.0)) * 16)
        return time, np.clip(index, 0, SIZES.size - 1).astype(np.int64)


@functools.lru_cache(maxsize=4096)
def curve(
    ground: Ground,
    op: str,
    nodes: int,
    share: float,
    algorithm: str | None,
    library: str,
    parameters: Parameters,
) -> Curve:
    """The curve of a group on `nodes` nodes with `share` of their NICs."""
    time, bound = np.zeros_like(SIZES), np.full(SIZES.shape, "latency", dtype="<U12")
    ways, protocols = np.full(SIZES.shape, "", dtype="<U16"), np.full(SIZES.shape, "", dtype="<U8")
    used: set[str] = set()
    for here, question in _questions(ground, op, nodes, share, SIZES, algorithm, library):
        ways[here], protocols[here] = question.algorithm, question.protocol
        time[here], bound[here], counted = _priced(question, parameters)
        used |= counted
    low, high = parameters.range_of(SIZES, place_of(used))
    unknown = parameters.unknown(used)
    if unknown:
        low, high = low / 1.5, high * 1.5
    return Curve(
        # A larger message is never done sooner: where NCCL changes its mind to the better, the better counts.
        time_s=np.minimum.accumulate(time[::-1])[::-1],
        low=low,
        high=high,
        algorithm=ways,
        protocol=protocols,
        bound_by=bound,
        unknown=unknown,
    )


def counts_at(
    ground: Ground, op: str, nodes: int, share: float, sizes: Floats, algorithm: str | None, library: str
) -> dict[str, Floats]:
    """Parameter → its count at each of `sizes`."""
    found: dict[str, Floats] = {}
    for here, question in _questions(ground, op, nodes, share, sizes, algorithm, library):
        for name, count in terms(question).items():
            found.setdefault(name, np.zeros_like(sizes))[here] = count
    return found


def _questions(
    ground: Ground, op: str, nodes: int, share: float, sizes: Floats, algorithm: str | None, library: str
) -> Iterator[tuple[NDArray[np.bool_], Question]]:
    """For each algorithm and protocol that is chosen somewhere: where, and the question there."""
    ways, pick = _choice(ground, op, nodes, algorithm, library, sizes)
    for at, (name, protocol, reach_Bps) in enumerate(ways):
        here = pick == at
        count = int(here.sum())
        if count:
            yield (
                here,
                Question(
                    op=op,
                    algorithm=name,
                    protocol=protocol,
                    ground=ground,
                    bytes=sizes[here],
                    per_node=ground.nccl.per_node,
                    nodes=np.full(count, float(nodes)),
                    share=np.full(count, share),
                    nccl_Bps=reach_Bps,
                ),
            )


def _choice(
    ground: Ground, op: str, nodes: int, algorithm: str | None, library: str, sizes: Floats
) -> tuple[list[tuple[str, str, float]], NDArray[np.int64]]:
    """Algorithm, protocol and bandwidth of each way, and at each size the one that NCCL would choose."""
    none = np.zeros(sizes.shape, dtype=np.int64)
    if op in ("all_to_all", "send_recv"):
        return [("P2P", "SIMPLE", np.inf)], none
    found = costs(op, ground.nccl, [nodes])
    wanted = "RING" if library == "rccl" else algorithm
    if wanted is not None:
        found = [cost for cost in found if cost.algorithm == wanted] or [
            c for c in found if c.algorithm == "RING"
        ]
    times = np.array([times_us(op, cost, ground.nccl, nodes, sizes) for cost in found])
    return [(c.algorithm, c.protocol, float(c.GBps[0]) * 1e9) for c in found], np.argmin(times, axis=0)


_LINK_WORDS = {"net": "nic", "net-fill": "nic", "copy": "gpu", "pack": "gpu"}


def _priced(question: Question, parameters: Parameters) -> tuple[Floats, Words, set[str]]:
    counted = {name: count for name, count in terms(question).items() if np.any(count)}
    none = np.zeros_like(question.bytes)
    beside, sides = none, [none, none]
    parts: dict[str, Floats] = {}
    for name, count in counted.items():
        price, side, kind = count * parameters.value(name), carrier(name), family(name)
        beside = beside + price if side is None else beside
        if side is not None:
            sides[side] = sides[side] + price
        links = kind in ("wire", "fill", "crowd")
        word = _LINK_WORDS.get(kind) or (question.ground.link if links else "latency")
        parts[word] = parts.get(word, none) + price
    # What the slower side hides binds nothing.
    hidden = {
        "nic": sides[1] < sides[0],
        "gpu": sides[0] <= sides[1],
        # Memory that all share is the host's, as is the way there.
        question.ground.link: (sides[0] <= sides[1]) & ("crowd" not in map(family, counted)),
    }
    shown = {word: np.where(hidden.get(word, False), 0.0, price) for word, price in parts.items()}
    words = np.array(list(shown))
    binding = words[np.argmax(np.array(list(shown.values())), axis=0)]
    time = beside + np.maximum(*sides)
    return np.maximum(time, bounds_s(question)), binding, set(counted)
