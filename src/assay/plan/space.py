"""The space of layouts of one job, as arrays: every point that is worth a look, each of them once.

A point is left out only for a reason that is counted: it does not multiply out, the framework cannot run it,
it is the same as another point, or another point is at least as fast and as small whatever the hardware.
`tests/plan/test_search.py` holds that against an exhaustive search of small spaces.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.domain.layout import PRECISIONS, RECOMPUTES, SCHEDULES, SHARDINGS, Layout
from assay.errors import InputError, unknown_name
from assay.plan.frameworks import ability
from assay.predict.situation import Situation

Ints = NDArray[np.int64]
Keep = NDArray[np.bool_]

#: Axes of the space in the order in which they are crossed; words are held as their place in the choices.
AXES = (
    "tp", "pp", "cp", "ep", "etp", "vpp", "micro_batch", "shard_ranks",
    "sharding", "recompute", "schedule", "precision",
)  # fmt: skip
_WORDS = {"sharding": SHARDINGS, "recompute": RECOMPUTES, "schedule": SCHEDULES, "precision": PRECISIONS}

#: A context-parallel rank keeps at least so many tokens of each of its two pieces: below, kernels starve.
_LEAST_PIECE = 128
#: More sequences than this in one micro-batch are never faster than accumulating.
_MOST_MICRO_BATCH = 64
#: Ranks that an expert is cut over at most: the GPUs of a common node.
_MOST_EXPERT_CUT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The choices of each axis. `dp` follows from the GPUs unless it is fixed; words are those of `Layout`.

    `shard_ranks` is 0, all ranks that hold the same weights, unless it is fixed (HSDP).
    """

    gpus: int
    global_batch: int
    tp: tuple[int, ...]
    pp: tuple[int, ...]
    cp: tuple[int, ...]
    ep: tuple[int, ...]
    etp: tuple[int, ...]
    vpp: tuple[int, ...]
    micro_batch: tuple[int, ...]
    shard_ranks: tuple[int, ...]
    sharding: tuple[str, ...]
    recompute: tuple[str, ...]
    schedule: tuple[str, ...]
    precision: tuple[str, ...]
    dp: int | None = None

    def __post_init__(self) -> None:
        for axis in AXES:
            if not getattr(self, axis):
                raise InputError(f"no choice is left for {axis}", fix=f"say nothing about {axis}, or another")

    @property
    def points(self) -> int:
        """Points of the whole product."""
        return int(np.prod([len(getattr(self, axis)) for axis in AXES], dtype=object))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Points of a space, an array for each axis and for dp, all of one length; `pruned` counts by reason."""

    axes: Mapping[str, Ints]
    pruned: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.axes["tp"])

    def take(self, keep: Keep | Ints) -> Grid:
        """Some of the points."""
        return replace(self, axes={name: values[keep] for name, values in self.axes.items()})

    def layout(self, at: int) -> Layout:
        """One point as a layout."""
        values = {
            name: _WORDS[name][int(v[at])] if name in _WORDS else int(v[at]) for name, v in self.axes.items()
        }
        return Layout(**values)  # type: ignore[arg-type]


def space_of(base: Situation, gpus: int, fixed: Mapping[str, object] | None = None) -> Space:
    """The whole space of a job on `gpus` GPUs, with some axes fixed (`{"tp": 8}`).

    Raises `InputError` for a fixed value that no layout of this job can have.
    """
    model, can = base.workload.model, ability(base.stack.id)
    fast = [kind for kind in can.precisions if base.gpu.peak(_peak_of(kind)) is not None]
    whole = {
        "tp": _divisors(gpus, of=model.heads),
        "pp": tuple(p for p in _divisors(gpus) if p <= model.layers),
        "cp": tuple(
            c
            for c in _divisors(gpus)
            if c == 1
            or (base.workload.seq_len % (2 * c) == 0 and base.workload.seq_len // (2 * c) >= _LEAST_PIECE)
        ),
        "ep": _divisors(gpus, of=model.experts) if model.moe_layers else (1,),
        "etp": _expert_cuts(base, gpus),
        "vpp": tuple(v for v in range(1, model.layers + 1) if _cuts(model.layers, v)),
        "micro_batch": tuple(m for m in _divisors(base.global_batch) if m <= _MOST_MICRO_BATCH),
        "shard_ranks": (0, *_divisors(gpus)[1:]) if "shard_ranks" in (fixed or {}) else (0,),
        "sharding": can.shardings,
        "recompute": RECOMPUTES,
        "schedule": can.schedules,
        "precision": tuple(fast) or ("bf16",),
    }
    said = dict(fixed or {})
    dp = said.pop("dp", None)
    for name, value in said.items():
        whole[name] = (_allowed(name, value, whole, gpus),)
    _contradictions(fixed or {}, base, gpus)
    return Space(gpus=gpus, global_batch=base.global_batch, dp=dp, **whole)  # type: ignore[arg-type]


def quick(space: Space) -> Space:
    """A smaller space for questions that ask many searches: what good layouts have in common.

    At most 8 sequences a micro-batch and 8 chunks a stage, contexts cut at most 8 ways, recomputation none or
    full, experts uncut.
    """
    few: dict[str, Any] = {
        "etp": tuple(e for e in space.etp if e == 1),
        "micro_batch": tuple(m for m in space.micro_batch if m <= 8 and m & (m - 1) == 0),
        "vpp": tuple(v for v in space.vpp if v <= 8),
        "cp": tuple(c for c in space.cp if c <= 8),
        "recompute": tuple(r for r in space.recompute if r != "selective"),
        "sharding": tuple(s for s in space.sharding if s in ("zero1", "zero3")),
    }
    return replace(space, **{name: values or getattr(space, name) for name, values in few.items()})


def _contradictions(fixed: Mapping[str, object], base: Situation, gpus: int) -> None:
    """Refuse two wishes that no layout can have together, and name the pair."""
    said = {name: value for name, value in fixed.items() if isinstance(value, int)}
    degrees = [name for name in ("tp", "pp", "cp", "dp") if name in said]
    for first, second in itertools.combinations(degrees, 2):
        if gpus % (said[first] * said[second]):
            raise InputError(
                f"{first} = {said[first]} and {second} = {said[second]} contradict: "
                f"{said[first]} × {said[second]} = {said[first] * said[second]} does not divide {gpus} GPUs"
            )
    if len(degrees) == 4 and said["tp"] * said["pp"] * said["cp"] * said["dp"] != gpus:
        raise InputError(f"tp × pp × cp × dp = {' × '.join(str(said[d]) for d in degrees)} is not {gpus}")
    if said.get("vpp", 1) > 1 and said.get("pp", 2) == 1:
        raise InputError(
            f"vpp = {said['vpp']} and pp = 1 contradict", fix="interleaving needs two stages or more"
        )
    lot = said.get("dp", 1) * said.get("micro_batch", 1)
    if base.global_batch % lot:
        raise InputError(
            f"dp × micro_batch = {lot} and global batch {base.global_batch} contradict: it is not divided"
        )
    staged = ability(base.stack.id).shardings_with_pp
    sharding = fixed.get("sharding")
    if said.get("pp", 1) > 1 and sharding is not None and sharding not in staged:
        raise InputError(f"sharding = {sharding} and pp = {said['pp']} contradict under {base.stack.name}")
    if said.get("vpp", 1) > 1 and fixed.get("schedule") == "1f1b":
        raise InputError(
            f"vpp = {said['vpp']} and schedule = 1f1b contradict", fix="use schedule = interleaved"
        )


def _peak_of(precision: str) -> str:
    """The datasheet's name of the units that a recipe's products run on."""
    return "fp4" if precision == "nvfp4" else "fp8" if "fp8" in precision else "bf16"


def _allowed(name: str, value: object, whole: Mapping[str, Sequence[object]], gpus: int) -> object:
    if name not in AXES:
        raise unknown_name("axis of the layout", name, (*AXES, "dp"))
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise unknown_name(name, str(value), _WORDS[name])
        if value not in whole[name]:
            choices = ", ".join(str(v) for v in whole[name])
            raise InputError(f"{name} = {value} is not to be had here", fix=f"choose from {choices}")
    elif value not in whole[name]:
        choices = ", ".join(str(v) for v in whole[name][:12])
        raise InputError(
            f"{name} = {value} on {gpus} GPUs is no layout of this job", fix=f"choose from {choices}"
        )
    return value


def grid(space: Space, base: Situation) -> Grid:
    """All points of the space that are worth a look.

    Axes are crossed one group at a time, so that a degree that cannot be is never multiplied further.
    """
    pruned: dict[str, int] = {}
    model = base.workload.model
    found = _cross({}, {axis: getattr(space, axis) for axis in ("tp", "pp", "cp", "ep", "etp")})
    rest = space.points // len(found["tp"])
    inner = found["tp"] * found["pp"] * found["cp"]
    found = _kept(found, space.gpus % inner == 0, "does_not_multiply", pruned, rest)
    found["dp"] = space.gpus // (found["tp"] * found["pp"] * found["cp"])
    ranks = found["tp"] * found["cp"] * found["dp"]
    wanted = ranks % (found["ep"] * found["etp"]) == 0
    if space.dp is not None:
        wanted &= found["dp"] == space.dp
    found = _kept(found, wanted, "does_not_multiply", pruned, rest)
    rest //= len(space.vpp) * len(space.micro_batch)
    found = _cross(found, {"vpp": space.vpp, "micro_batch": space.micro_batch})
    cut = np.isin(found["pp"] * found["vpp"], _whole_cuts(model.layers))
    found = _kept(found, cut & ((found["pp"] > 1) | (found["vpp"] == 1)), "layers_not_cut", pruned, rest)
    whole = space.global_batch % (found["dp"] * found["micro_batch"]) == 0
    found = _kept(found, whole, "batch_not_divided", pruned, rest)
    found = _cross(found, {"shard_ranks": space.shard_ranks})
    group = found["dp"] * found["cp"]
    shared = group % np.maximum(found["shard_ranks"], 1) == 0
    found = _kept(found, shared, "does_not_multiply", pruned, rest // len(space.shard_ranks))
    words = {name: _places(space, name) for name in ("sharding", "recompute", "schedule", "precision")}
    found = _cross(found, words)
    for reason, keep in _rules(space, base):
        # Every rule is asked of what the earlier ones left.
        found = _kept(found, keep(found), reason, pruned, 1)
    return Grid(axes=found, pruned=pruned)


def _rules(space: Space, base: Situation) -> Iterator[tuple[str, Callable[[Mapping[str, Ints]], Keep]]]:
    """(reason, which points stay) of each rule about words."""
    can = ability(base.stack.id)
    place = {word: at for words in _WORDS.values() for at, word in enumerate(words)}
    staged = np.array([place[s] for s in can.shardings_with_pp if s in space.sharding], np.int64)
    # ZeRO-1 of a dense model without a peer shards nothing; ZeRO-2 and 3 keep other copies all the same.
    same_alone = not base.workload.model.moe_layers and not base.stack.gather_by_rank_s
    lone = place["zero1"] if same_alone and "none" in space.sharding else -1
    fused = base.stack.attention != "unfused"

    def same(f: Mapping[str, Ints]) -> Keep:
        """Without a peer ZeRO-1 is nothing; without stages or chunks there is one schedule."""
        alone = (f["dp"] * f["cp"] == 1) & (f["sharding"] == lone)
        alone |= (f["shard_ranks"] > 0) & (f["sharding"] == place["none"])
        zero_bubble = f["schedule"] == place["zero-bubble"]
        wanted = np.where(f["vpp"] > 1, place["interleaved"], place["1f1b"])
        twin = ~zero_bubble & (f["schedule"] != wanted) & np.isin(wanted, _places(space, "schedule"))
        return np.asarray(~(alone | twin | (zero_bubble & (f["pp"] == 1) & (len(space.schedule) > 1))))

    def runs(f: Mapping[str, Ints]) -> Keep:
        """Sharding that goes with stages, and whole rounds of micro-batches over interleaved ones."""
        rounds = space.global_batch // (f["dp"] * f["micro_batch"]) % f["pp"] == 0
        whole = (f["vpp"] == 1) | rounds if can.interleaves_whole_rounds else True
        return np.asarray(((f["pp"] == 1) | np.isin(f["sharding"], staged)) & whole)

    yield "framework_cannot", runs
    yield "same_as_another", same
    # Fused attention keeps no scores, so that recomputing attention costs time and saves nothing.
    if fused and "none" in space.recompute:
        yield "dominated", lambda f: f["recompute"] != place["selective"]


def _cross(found: Mapping[str, Ints], more: Mapping[str, Sequence[int]]) -> dict[str, Ints]:
    """Every point found so far with every combination of further axes."""
    count = len(next(iter(found.values()))) if found else 1
    mesh = np.meshgrid(*(np.asarray(v, np.int64) for v in more.values()), indexing="ij")
    flat = [axis.ravel() for axis in mesh]
    crossed = {name: np.repeat(values, len(flat[0])) for name, values in found.items()}
    return crossed | {name: np.tile(values, count) for name, values in zip(more, flat, strict=True)}


def _kept(
    found: dict[str, Ints], keep: Keep, reason: str, pruned: dict[str, int], each: int
) -> dict[str, Ints]:
    dropped = int((~keep).sum()) * each
    if dropped:
        pruned[reason] = pruned.get(reason, 0) + dropped
    return {name: values[keep] for name, values in found.items()}


def _places(space: Space, name: str) -> tuple[int, ...]:
    return tuple(_WORDS[name].index(word) for word in getattr(space, name))


def _expert_cuts(base: Situation, gpus: int) -> tuple[int, ...]:
    """Tensor degrees inside an expert: those that divide its width, where the framework can cut it."""
    model = base.workload.model
    if not model.moe_layers or not ability(base.stack.id).cuts_experts:
        return (1,)
    return tuple(cut for cut in _divisors(gpus, of=model.expert_ffn) if cut <= _MOST_EXPERT_CUT)


def _divisors(number: int, *, of: int | None = None) -> tuple[int, ...]:
    """Divisors of `number`, those that also divide `of`."""
    both = int(np.gcd(number, of)) if of else number
    return tuple(d for d in range(1, both + 1) if both % d == 0)


def _cuts(layers: int, parts: int) -> bool:
    return layers % parts == 0 or (layers + 2) % parts == 0


def _whole_cuts(layers: int) -> Ints:
    """Chunks that cut the layers evenly, or with embedding and head as a layer each (Megatron can)."""
    return np.array([parts for parts in range(1, layers + 1) if _cuts(layers, parts)], np.int64)
