"""Invented clusters: what is measured on one, as arrays, with noise from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from assay.domain.recipe import Recipe, RecipeValue
from assay.domain.subject import CLUSTER, Subject

Array = NDArray[np.float64]

GIB = 2**30
MIB = 2**20
#: In a run by rails each node meets the next so many nodes, on every rail.
_RAIL_PARTNERS = 4
#: Nodes below one leaf, of a cluster that has two leaves or more and whose pairs of nodes are measured.
_LEAF_NODES = 16

#: One subject's own change over the samples.
FLUCTUATION = "(max-min)/median"

STATISTICS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "mean": lambda s: s.mean(axis=-1),
        "median": lambda s: np.median(s, axis=-1),
        "p50": lambda s: np.percentile(s, 50, axis=-1),
        "p95": lambda s: np.percentile(s, 95, axis=-1),
        "p99": lambda s: np.percentile(s, 99, axis=-1),
        "max": lambda s: s.max(axis=-1),
        FLUCTUATION: lambda s: (s.max(axis=-1) - s.min(axis=-1)) / np.median(s, axis=-1),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Nodes with equally many GPUs; rank = node × gpus + GPU.

    `pairs`: "none", in each "node", "all" pairs of nodes as well, or "rails": each rail of a node to the
    same rail of a few other nodes too.
    """

    nodes: int
    gpus: int
    pairs: str = "node"

    @property
    def ranks(self) -> int:
        """World size."""
        return self.nodes * self.gpus

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names: node00, node01, …"""
        digits = max(2, len(str(self.nodes - 1)))
        return tuple(f"node{i:0{digits}d}" for i in range(self.nodes))

    @property
    def gpu_names(self) -> tuple[str, ...]:
        """Names of all GPUs, by rank: node00/0, node00/1, …"""
        return tuple(f"{host}/{g}" for host in self.hosts for g in range(self.gpus))

    def gpu_subjects(self) -> tuple[Subject, ...]:
        """All GPUs, by rank."""
        return tuple(Subject("gpu", name) for name in self.gpu_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative standard deviations: between restarts, within one, and between healthy subjects."""

    restart_frac: float = 0.015
    within_frac: float = 0.004
    subject_frac: float = 0.003


@dataclass(frozen=True, slots=True)
class Yield:
    """One quantity as a statistic of samples; with `over` it is that number divided by the statistic.

    A bandwidth of times is taken at the statistic of the times, as a reader of the times would.
    """

    quantity: str
    unit: str
    statistic: str = ""
    over: float | None = None

    def of(self, samples: Array) -> Array:
        """Shape (subjects, count) → (subjects,)."""
        figure: Array = STATISTICS[self.statistic or "median"](samples)
        return figure if self.over is None else self.over / figure


@dataclass(slots=True, kw_only=True)
class Series:
    """Samples of one kind for many subjects, and the quantities that they yield.

    `base` has one value per subject, in `unit`, and `ranks` the rank that measures it. `extra` is added
    to every sample, `unrest` multiplies the noise within a restart, `share` is the share of a CPU that
    the subject got; faults are planted in these.
    """

    benchmark: str
    unit: str
    recipe: Recipe
    subjects: tuple[Subject, ...]
    ranks: NDArray[np.int64]
    base: Array
    count: int
    yields: tuple[Yield, ...]
    tail: float = 0.0
    extra: Array = field(init=False)
    unrest: Array = field(init=False)
    share: Array = field(init=False)
    missing: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.extra = np.zeros(len(self.subjects))
        self.unrest = np.ones(len(self.subjects))
        self.share = np.full(len(self.subjects), 0.99)
        self.missing = np.zeros(len(self.subjects), dtype=bool)

    def recipe_of(self, statistic: str) -> Recipe:
        """The recipe of one of the yields; no statistic is stated where the sample itself is the value."""
        return Recipe.of(self.recipe.as_dict(), statistic=statistic) if statistic else self.recipe

    def draw(self, seed: int, restarts: int, noise: Noise) -> Iterator[Array]:
        """Samples of each restart in turn, shape (subjects, count).

        A stream of its own per series: adding a quantity does not change the others. Noise is
        multiplicative and heavy-tailed (Student's t with 4 degrees of freedom); `tail` is the chance of
        a spike of up to ten times.
        """
        name = f"{self.benchmark} {self.recipe} {self.yields}"
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        n = len(self.subjects)
        healthy = self.base * np.exp(noise.subject_frac * rng.standard_normal(n))
        for _ in range(restarts):
            level = healthy * np.exp(noise.restart_frac * heavy_tailed(rng, (n,)))
            within_frac = noise.within_frac * self.unrest[:, None]
            samples = level[:, None] * np.exp(within_frac * heavy_tailed(rng, (n, self.count)))
            if self.tail:
                spikes = rng.random(samples.shape) < self.tail
                samples = np.where(spikes, samples * rng.uniform(2, 10, samples.shape), samples)
            yield samples + self.extra[:, None]


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with 4 degrees of freedom, scaled to a variance of 1 and cut at ±8."""
    scaled: Array = rng.standard_t(4, shape) / np.sqrt(2.0)
    return scaled.clip(-8.0, 8.0)


def all_series(layout: Layout, figures: Mapping[str, float]) -> list[Series]:
    """Everything that is measured on the invented cluster."""
    return [
        *_of_gpus(layout, figures),
        *_peers(layout, figures),
        *_leaves(layout, figures),
        *_collectives(layout, figures),
        *_storage(layout, figures),
        *_clocks(layout, figures),
        *_training(layout, figures),
    ]


def _of_gpus(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    yield _per_gpu(
        layout,
        "gemm",
        Recipe.of(shape="8192x8192x8192", load="all", input="normal"),
        figures["gemm.bf16.rate"],
        (
            Yield("gemm.bf16.rate", "FLOP/s", "median"),
            Yield("gemm.bf16.fluctuation", "1", FLUCTUATION),
        ),
    )
    yield _per_gpu(
        layout,
        "memory",
        Recipe.of(bytes=GIB, load="all"),
        figures["memory.copy.bandwidth"],
        (Yield("memory.copy.bandwidth", "B/s", "median"),),
    )
    for direction in ("h2d", "d2h"):
        for load in ("alone", "all"):
            yield _per_gpu(
                layout,
                "host_device",
                Recipe.of(bytes=GIB, pinned=True, load=load),
                figures["host_device.bandwidth"],
                (Yield(f"host_device.{direction}.bandwidth", "B/s", "median"),),
            )


def _per_gpu(
    layout: Layout, benchmark: str, recipe: Recipe, base: float, yields: tuple[Yield, ...]
) -> Series:
    return Series(
        benchmark=benchmark,
        unit=yields[0].unit,
        recipe=recipe,
        subjects=layout.gpu_subjects(),
        ranks=np.arange(layout.ranks),
        base=np.full(layout.ranks, base),
        count=25,
        yields=yields,
    )


def _peers(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    """Both directions of each pair in a node, and with `pairs` "all" of each pair of nodes."""
    if layout.pairs == "none":
        return
    gpus = layout.gpu_names
    inside = [
        (n * layout.gpus + a, n * layout.gpus + b)
        for n in range(layout.nodes)
        for a in range(layout.gpus)
        for b in range(a + 1, layout.gpus)
    ]
    yield from _pairs("node", gpus, inside, 1, figures, span="node")
    if layout.pairs in ("all", "rails"):
        between = [(a, b) for a in range(layout.nodes) for b in range(a + 1, layout.nodes)]
        yield from _pairs("network", layout.hosts, between, layout.gpus, figures, span="nodes", load="round")
    if layout.pairs == "rails":
        steps = range(1, min(_RAIL_PARTNERS, layout.nodes - 1) + 1)
        rails = {
            (min(a, b) * layout.gpus + rail, max(a, b) * layout.gpus + rail)
            for step in steps
            for a in range(layout.nodes)
            for b in ((a + step) % layout.nodes,)
            for rail in range(layout.gpus)
        }
        how = {"span": "nodes", "load": "round", "per": "rail"}
        yield from _pairs("network", gpus, sorted(rails), 1, figures, **how)


def _pairs(
    where: str,
    names: tuple[str, ...],
    pairs: list[tuple[int, int]],
    ranks_per_name: int,
    figures: Mapping[str, float],
    **more: RecipeValue,
) -> Iterator[Series]:
    if not pairs:
        return
    ends = np.array(pairs, dtype=np.int64)
    both = np.concatenate([ends, ends[:, ::-1]])
    yield Series(
        benchmark="peer",
        unit="B/s",
        recipe=Recipe.of(more, bytes=256 * MIB, transport="nccl"),
        subjects=tuple(Subject("link", f"{names[a]}>{names[b]}") for a, b in both),
        ranks=both[:, 0] * ranks_per_name,
        base=np.full(len(both), figures[f"peer.bandwidth@{where}"]),
        count=8,
        yields=(Yield("peer.bandwidth", "B/s", "median"),),
    )
    yield Series(
        benchmark="peer",
        unit="s",
        recipe=Recipe.of(more, bytes=8, transport="nccl"),
        subjects=tuple(Subject("pair", f"{names[a]}|{names[b]}") for a, b in ends),
        ranks=ends[:, 0] * ranks_per_name,
        base=np.full(len(ends), figures[f"peer.latency@{where}"]),
        count=8,
        yields=(Yield("peer.latency", "s", "p50"),),
    )


def _leaves(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    """An all_reduce below each leaf, all leaves side by side and each alone."""
    count = layout.nodes // _LEAF_NODES
    if layout.pairs not in ("all", "rails") or count < 2:
        return
    ranks = _LEAF_NODES * layout.gpus
    message_bytes, factor = 256 * MIB, 2 * (ranks - 1) / ranks
    time_s = message_bytes * factor / figures["collective.all_reduce.busbw@network"]
    for load in ("side_by_side", "alone"):
        yield Series(
            benchmark="groups",
            unit="s",
            recipe=Recipe.of(
                bytes=message_bytes,
                ranks=ranks,
                dtype="fp32",
                transport="nccl",
                method="pipelined",
                load=load,
            ),
            subjects=tuple(Subject("group", f"leaf{leaf}") for leaf in range(count)),
            ranks=np.arange(count) * ranks,
            base=np.full(count, time_s),
            count=8,
            yields=(Yield("leaf.all_reduce.busbw", "B/s", "mean", message_bytes * factor),),
        )


def _collectives(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    """all_reduce over sizes by two methods: time = latency + traffic over bus bandwidth."""
    if layout.ranks < 2:
        return
    where = "node" if layout.nodes == 1 else "network"
    latency_s = figures[f"collective.all_reduce.latency@{where}"]
    bus_factor = 2 * (layout.ranks - 1) / layout.ranks
    for exponent in range(10, 34, 2):
        message_bytes = 2**exponent
        time_s = latency_s + message_bytes * bus_factor / figures[f"collective.all_reduce.busbw@{where}"]
        common: dict[str, RecipeValue] = {
            "bytes": message_bytes,
            "ranks": layout.ranks,
            "dtype": "bf16",
            "transport": "nccl",
        }
        for method, count, statistics in (
            ("pipelined", 20, ("mean",)),
            ("aligned", 400, ("p50", "p95", "p99", "max")),
        ):
            yields = (
                *(Yield("collective.all_reduce.time", "s", s) for s in statistics),
                # The bandwidths are said of the typical time only, not of a tail.
                Yield("collective.all_reduce.busbw", "B/s", statistics[0], message_bytes * bus_factor),
                Yield("collective.all_reduce.algbw", "B/s", statistics[0], message_bytes),
            )
            yield _of_cluster(
                "collectives",
                "s",
                Recipe.of(common, method=method),
                time_s,
                yields,
                count=count,
                tail=0.005 if method == "aligned" else 0.0,
            )


def _of_cluster(
    benchmark: str,
    unit: str,
    recipe: Recipe,
    base: float,
    yields: tuple[Yield, ...],
    *,
    count: int,
    tail: float = 0.0,
) -> Series:
    return Series(
        benchmark=benchmark,
        unit=unit,
        recipe=recipe,
        subjects=(CLUSTER,),
        ranks=np.zeros(1, dtype=np.int64),
        base=np.array([base]),
        count=count,
        yields=yields,
        tail=tail,
    )


def _storage(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    for quantity, unit, statistics, depth in (
        ("storage.random_read_4k.iops", "1/s", ("",), 64),
        ("storage.random_read_4k.latency", "s", ("p50", "p99"), 64),
        ("storage.sequential_read.bandwidth", "B/s", ("",), 16),
        ("storage.sequential_write.bandwidth", "B/s", ("",), 16),
    ):
        yield Series(
            benchmark="storage",
            unit=unit,
            recipe=Recipe.of(load="all", iodepth=depth, direct=True, file_bytes=64 * GIB),
            subjects=tuple(Subject("node", host) for host in layout.hosts),
            ranks=np.arange(layout.nodes) * layout.gpus,
            base=np.full(layout.nodes, figures[quantity]),
            count=100 if len(statistics) > 1 else 10,
            yields=tuple(Yield(quantity, unit, s) for s in statistics),
            tail=0.01 if len(statistics) > 1 else 0.0,
        )


def _clocks(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    """Offsets to rank 0, of either sign; rank 0 is not compared with itself."""
    if layout.ranks < 2:
        return
    signs = np.where(np.arange(1, layout.ranks) % 2, 1.0, -1.0)
    sizes = (1 + np.arange(1, layout.ranks) * 7 % 10) / 10
    yield Series(
        benchmark="clock",
        unit="s",
        recipe=Recipe.of(reference="rank:0"),
        subjects=layout.gpu_subjects()[1:],
        ranks=np.arange(1, layout.ranks),
        base=figures["clock.offset"] * signs * sizes,
        count=16,
        yields=(Yield("clock.offset", "s"),),
    )


def _training(layout: Layout, figures: Mapping[str, float]) -> Iterator[Series]:
    """Steps at one full node and at every doubling of it, with the efficiency against the one node."""
    step_s, loss_frac = figures["training.step_time"], figures["training.scaling_loss_per_doubling"]
    tokens_per_rank = 8 * 4096
    for nodes in sorted({2**k for k in range(layout.nodes.bit_length())} | {layout.nodes}):
        ranks = nodes * layout.gpus
        efficiency_frac = (1 - loss_frac) ** np.log2(nodes)
        recipe = Recipe.of(
            model="tiny-gpt", ranks=ranks, batch_per_rank=8, sequence=4096, dtype="bf16", input="random"
        )
        yields = (
            *(Yield("training.step_time", "s", s) for s in ("median", "p99", "max")),
            Yield("training.tokens_per_s", "1/s", "median", tokens_per_rank * ranks),
        )
        yield _of_cluster("training", "s", recipe, step_s / efficiency_frac, yields, count=300, tail=0.003)
        if nodes > 1:
            scaling = Recipe.of(model="tiny-gpt", ranks=ranks, base_ranks=layout.gpus, mode="weak")
            yield _of_cluster(
                "training",
                "1",
                scaling,
                efficiency_frac,
                (Yield("training.scaling_efficiency", "1"),),
                count=1,
            )
