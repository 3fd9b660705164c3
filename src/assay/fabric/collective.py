"""What a collective costs on a cluster: time with a range, what NCCL chooses, which link binds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.domain.cluster import Cluster
from assay.domain.job import LIBRARIES
from assay.errors import InputError, unknown_name
from assay.fabric.curve import Curve, counts_at, curve
from assay.fabric.gloo import gloo_time_s
from assay.fabric.mpi import RANGE, wires_of
from assay.fabric.mpich import mpi_times
from assay.fabric.operations import busbw_factor, operation
from assay.fabric.parameters import Parameters, shipped
from assay.fabric.placement import Placement
from assay.fabric.routing import hashing_slowdown
from assay.fabric.situation import Ground, ground

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.str_]

#: Types that an NVSwitch or SHARP cannot add up.
_NOT_ADDED = re.compile(r"\b(u?int8|f8\w*|fp8\w*|float8\w*)\b")


def is_added_in_switches(dtype: str) -> bool:
    """Whether NVLS and SHARP can add values of a type, by any of its names."""
    return _NOT_ADDED.search(dtype.lower()) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is switched on. None for `sharp`, `nvls`, `adaptive_routing`: as library and fabric have it.

    `nccl` is the version. NVLS and SHARP cannot add every type: `reduces_in_switch` is False for int8, fp8.
    `algorithm` forces one of the library's. `launcher` says what drives the GPUs: "graph" costs the host
    nothing, "thread" is one process for all GPUs of a node (nccl-tests -g), "torch" a call from Python each
    time.
    """

    library: str = "nccl"
    nccl: tuple[int, int] = (2, 27)
    sharp: bool | None = None
    nvls: bool | None = None
    adaptive_routing: bool | None = None
    reduces_in_switch: bool = True
    algorithm: str | None = None
    launcher: str = "graph"

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise unknown_name("library", self.library, LIBRARIES)
        if self.launcher not in ("graph", "thread", "torch"):
            raise unknown_name("launcher", self.launcher, ("graph", "thread", "torch"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTimes:
    """Arrays of one shape: sizes broadcast against groups. `low_s` … `high_s` is the 80 % interval.

    `extrapolated` names what no measurement stands behind.
    """

    op: str
    bytes: Floats
    ranks: Ints
    nodes: Ints
    time_s: Floats
    low_s: Floats
    high_s: Floats
    algorithm: Words
    protocol: Words
    bound_by: Words
    extrapolated: tuple[str, ...] = ()

    @property
    def algbw_Bps(self) -> Floats:
        """Size over time; 0 where nothing is sent."""
        return np.divide(self.bytes, self.time_s, out=np.zeros_like(self.time_s), where=self.time_s > 0)

    @property
    def busbw_Bps(self) -> Floats:
        """algbw times nccl-tests' factor."""
        return np.asarray(self.algbw_Bps * busbw_factor(self.op, np.maximum(self.ranks, 1)))


def collective_time(
    cluster: Cluster,
    op: str,
    bytes: ArrayLike,
    placement: Placement,
    *,
    options: Options | None = None,
    parameters: Parameters | None = None,
) -> CollectiveTimes:
    """Time of `op` over `bytes` (nccl-tests' size) for each group of `placement`; arrays broadcast.

    A group of one rank takes no time. Raises `InputError` where a group does not fit on the cluster.
    """
    name = operation(op)
    placement.check(cluster)
    chosen, fitted = options or Options(), parameters or shipped()
    _check_sharp(cluster, chosen)
    sizes, per_node, nodes, stride, part, domains = np.broadcast_arrays(
        np.asarray(bytes, dtype=float),
        placement.per_node,
        placement.nodes,
        placement.stride,
        placement.nic_share(cluster),
        placement.domains_on(cluster),
    )
    ranks = per_node * nodes
    out = _Answer(sizes.shape)
    groups = np.stack([a.ravel() for a in (per_node, nodes, stride, domains, part)], axis=1)
    kinds, which = np.unique(groups, axis=0, return_inverse=True)
    for at, row in enumerate(kinds):
        here = which.ravel() == at
        count, across, step, apart = (int(x) for x in row[:4])
        kind = _Kind(count, across, step, apart, float(row[4]))
        if kind.per_node * kind.nodes > 1:
            out.fill(cluster, name, sizes.ravel()[here], here, kind, chosen, fitted)
    return CollectiveTimes(
        op=name,
        bytes=np.array(sizes),
        ranks=np.array(ranks),
        nodes=np.array(nodes),
        time_s=out.time.reshape(sizes.shape),
        low_s=out.low.reshape(sizes.shape),
        high_s=out.high.reshape(sizes.shape),
        algorithm=out.algorithm.reshape(sizes.shape),
        protocol=out.protocol.reshape(sizes.shape),
        bound_by=out.bound_by.reshape(sizes.shape),
        extrapolated=tuple(sorted(out.extrapolated)),
    )


def _check_sharp(cluster: Cluster, options: Options) -> None:
    """Refuse SHARP where the fabric's switches cannot add."""
    if options.sharp and cluster.fabric is not None and not cluster.fabric.sharp:
        raise InputError(
            f"the switches of {cluster.id} ({cluster.fabric.transport.value}) do not add up: no SHARP",
            fix="leave --sharp away, or say sharp: true in the fabric of a cluster file, if they do",
        )


def collective_terms(
    cluster: Cluster, op: str, sizes: Floats, placement: Placement, *, options: Options | None = None
) -> dict[str, Floats]:
    """What one group's time is made of at each size: parameter → count (for fits)."""
    chosen, name = options or Options(), operation(op)
    placement.check(cluster)
    kind = _Kind(
        int(placement.per_node),
        int(placement.nodes),
        int(placement.stride),
        int(placement.domains_on(cluster)),
        float(placement.nic_share(cluster)),
    )
    here = _ground_of(cluster, kind, chosen)
    return counts_at(here, name, kind.domains, kind.share, sizes, chosen.algorithm, chosen.library)


def launcher_floor_s(options: Options, op: str, per_node: int, nodes: int, parameters: Parameters) -> float:
    """What the launcher takes at least for one call on every GPU that it drives."""
    if options.launcher == "graph":
        return 0.0
    each = parameters.value(f"host/{options.launcher}")
    if options.launcher != "thread":
        return each
    calls = 2 * per_node * nodes if op == "all_to_all" else 0
    return per_node * (each + calls * parameters.value("host/thread-p2p"))


def launched_s(time_s: Floats, least_s: float, floor_s: float) -> Floats:
    """Time behind a launcher: it hides what a byte takes (`least_s`); what more there is comes after it."""
    return time_s + max(0.0, floor_s - least_s)


class _Kind(NamedTuple):
    """Groups that take the same time: where their ranks sit, and their share of a domain's NICs."""

    per_node: int
    nodes: int
    stride: int
    domains: int
    share: float


class _Answer:
    """Flat arrays that the groups of a kind fill in turn."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        count = int(np.prod(shape))
        self.time, self.low, self.high = np.zeros(count), np.zeros(count), np.zeros(count)
        self.algorithm = np.full(count, "NONE", dtype="<U16")
        self.protocol = np.full(count, "", dtype="<U8")
        self.bound_by = np.full(count, "nothing", dtype="<U12")
        self.extrapolated: set[str] = set()

    def fill(
        self,
        cluster: Cluster,
        op: str,
        sizes: Floats,
        here: NDArray[np.bool_],
        kind: _Kind,
        options: Options,
        parameters: Parameters,
    ) -> None:
        """Time and choice of the groups of one kind."""
        if options.library == "gloo":
            self.time[here] = gloo_time_s(cluster, op, sizes, kind.per_node, kind.nodes)
            self.low[here], self.high[here] = self.time[here] * 0.5, self.time[here] * 2.0
            self.algorithm[here], self.bound_by[here] = "RING", "nic"
            return
        if options.library == "mpi":
            self._fill_mpi(cluster, op, sizes, here, kind, options.algorithm)
            return
        found, floor_s, slowdown = _curve_of(cluster, op, kind, options, parameters)
        time, index = found.at(sizes)
        nic = found.bound_by[index] == "nic"
        time = launched_s(np.where(nic, time * slowdown, time), float(found.time_s[0]), floor_s)
        self.time[here] = time
        self.low[here], self.high[here] = time * found.low[index], time * found.high[index]
        self.algorithm[here], self.protocol[here] = found.algorithm[index], found.protocol[index]
        self.bound_by[here] = np.where(time < 2 * floor_s, "host", found.bound_by[index])
        self.extrapolated.update(found.unknown)

    def _fill_mpi(
        self,
        cluster: Cluster,
        op: str,
        sizes: Floats,
        here: NDArray[np.bool_],
        kind: _Kind,
        algorithm: str | None,
    ) -> None:
        wires = wires_of(cluster, _in_domain(kind), kind.stride, kind.domains, kind.share)
        found = mpi_times(op, wires, sizes, algorithm)
        self.time[here] = found.time_s
        self.low[here], self.high[here] = found.time_s * RANGE[0], found.time_s * RANGE[1]
        self.algorithm[here], self.protocol[here] = found.algorithm, found.protocol
        self.bound_by[here] = found.bound_by
        self.extrapolated.add("mpi")


def _curve_of(
    cluster: Cluster, op: str, kind: _Kind, options: Options, parameters: Parameters
) -> tuple[Curve, float, float]:
    """The group's curve, what the launcher takes at least, and what hashed routes cost where NICs bind."""
    here = _ground_of(cluster, kind, options)
    found = curve(here, op, kind.domains, kind.share, options.algorithm, options.library, parameters)
    floor = launcher_floor_s(options, op, kind.per_node, kind.nodes, parameters)
    adaptive = options.adaptive_routing
    if adaptive is None and cluster.fabric is not None:
        adaptive = True  # what was fitted was measured on fabrics as they were tuned
    slowdown = 1.0 if adaptive or cluster.fabric is None else hashing_slowdown(cluster.fabric, op, kind.nodes)
    return found, floor, slowdown


def _in_domain(kind: _Kind) -> int:
    """Ranks in one NVLink domain."""
    return max(1, kind.per_node * kind.nodes // kind.domains)


def _ground_of(cluster: Cluster, kind: _Kind, options: Options) -> Ground:
    """What the group stands on; an NVLink domain of several nodes counts as one."""
    in_switch, leaves = options.reduces_in_switch, kind.domains > 1
    return ground(
        cluster,
        _in_domain(kind),
        kind.stride,
        inter=leaves,
        nccl=options.nccl,
        nvls=in_switch and options.nvls is not False,
        collnet=in_switch and options.sharp is True and leaves,
    )
