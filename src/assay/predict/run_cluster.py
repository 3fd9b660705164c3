"""A measured run as a cluster: its system where the catalogue knows the GPU, else a device of readings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.catalog.clusters import cluster as shipped_cluster
from assay.catalog.clusters import cluster_ids, measured_device
from assay.catalog.devices import gpu_by_nvml_name
from assay.catalog.nodes import Parts, build_node
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.domain.fact import Fact
from assay.domain.reading import Reading
from assay.errors import InputError
from assay.fabric.systems import gpu_of

#: Rate of one multiprocessor where only the whole device's is known: H100's, 989 TFLOP/s over 132.
_SM_FLOP_PER_S = 7.5e12


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCluster:
    """The cluster, the shipped system behind it, and what was taken for granted.

    `datasheet` is False where the device is known by readings alone.
    """

    cluster: Cluster
    datasheet: bool
    assumed: tuple[str, ...]
    base: str | None = None


def run_cluster(
    *,
    id: str,
    hosts: int,
    ranks: int,
    facts: Sequence[Fact],
    readings: Sequence[Reading],
    base: Cluster | None = None,
) -> RunCluster:
    """The cluster that a run of `ranks` on `hosts` was measured on; `base` is the system it belongs to.

    Without `base` the first shipped system with this GPU is taken; a device that no catalogue knows is made
    from the run's readings. Raises `InputError` where those do not suffice.
    """
    width = -(-ranks // max(hosts, 1))
    named = sorted({str(f.value) for f in facts if f.key == "gpu.name" and f.value is not None})
    assumed: list[str] = []
    if base is not None:
        _require_same_gpu(base, named)
        return RunCluster(
            cluster=_cut(base, id, hosts, width, assumed), datasheet=True, assumed=tuple(assumed)
        )
    found = _known_gpu(named, assumed)
    if found is not None:
        system = _system_with(found, width)
        if system is None:
            raise InputError(
                f"no shipped system has {found.name}", fix="name the system with --base, or a cluster file"
            )
        assumed.append(
            f"what the run does not tell is that of {system.id}, the first shipped system with {found.id}; "
            "--base names another"
        )
        own = _cut(system, id, hosts, width, assumed)
        return RunCluster(cluster=own, datasheet=True, assumed=tuple(assumed), base=system.id)
    return RunCluster(
        cluster=_of_readings(id, hosts, width, facts, readings, named),
        datasheet=False,
        assumed=tuple(assumed),
    )


def _known_gpu(named: Sequence[str], assumed: list[str]) -> Gpu | None:
    """The catalogue's GPU of a driver's name, or one whose name is part of it."""
    if len(named) > 1:
        raise InputError(
            f"the run has unlike GPUs: {', '.join(named)}", fix="calibrate each kind by a run of its own"
        )
    if not named:
        return None
    exact = gpu_by_nvml_name(named[0])
    near = gpu_of(named[0].replace("-", " ")) if exact is None else None
    if exact is None and near is not None:
        assumed.append(f"{named[0]!r} is taken for {near[0].id} by its name")
    return exact if near is None else near[0]


def _require_same_gpu(base: Cluster, named: Sequence[str]) -> None:
    known = {gpu.id for name in named if (gpu := gpu_by_nvml_name(name)) is not None}
    own = base.node.gpu
    if known and own is not None and own.id not in known:
        raise InputError(
            f"the run measured {', '.join(sorted(known))}, but {base.id} has {own.id}",
            fix="give the system that the run was made on",
        )


def _system_with(gpu: Gpu, width: int) -> Cluster | None:
    """The first shipped system with this GPU, those with as many to a node first, DGX before others."""
    every = [shipped_cluster(name) for name in cluster_ids()]
    same = [one for one in every if one.node.gpu is not None and one.node.gpu.id == gpu.id]
    same.sort(key=lambda one: (len(one.node.gpus) != width, not one.id.startswith("dgx"), one.id))
    return same[0] if same else None


def _cut(system: Cluster, id: str, hosts: int, width: int, assumed: list[str]) -> Cluster:
    seats = len(system.node.gpus)
    if width > seats:
        raise InputError(
            f"the run has {width} ranks to a host, but a node of {system.id} has {seats} GPUs",
            fix="name the system with --base",
        )
    if width < seats and hosts == 1:
        assumed.append(f"the run used {width} of a node's {seats} GPUs")
    return replace(system, id=id, name=f"{system.name}, as measured", count=hosts)


def _of_readings(
    id: str,
    hosts: int,
    width: int,
    facts: Sequence[Fact],
    readings: Sequence[Reading],
    named: Sequence[str],
) -> Cluster:
    gpu = _device(width, facts, readings, named)
    node = build_node(
        id,
        Parts(
            gpu=gpu,
            gpus=width,
            cpu=None,
            sockets=1,
            gpus_per_switch=0,
            nics=1 if hosts > 1 else 0,
            nic_name="network",
            # The network is known by what was measured on it: factors turn these round numbers into that.
            nic_Bps=1.25e9,
            gpudirect=False,
        ),
    )
    fabric = Fabric(id=id, transport=Transport.TCP, wiring=Wiring.OPAQUE, node_Bps=1.25e9)
    return Cluster(
        id=id,
        name=f"{gpu.name}, as measured",
        node=node,
        count=hosts,
        fabric=fabric if hosts > 1 else None,
    )


def _device(width: int, facts: Sequence[Fact], readings: Sequence[Reading], named: Sequence[str]) -> Gpu:
    """A device whose peaks and bandwidth are the best readings; its factors make them exact."""
    peaks = {dtype: rate for dtype in ("bf16", "fp16") if (rate := _best(readings, f"gemm.{dtype}.rate"))}
    if not peaks:
        raise InputError(
            "the run measured no bf16 or fp16 product, which a step is made of",
            fix="measure with --only gemm, or name the system with --base",
        )
    copied = _best(readings, "memory.copy.bandwidth")
    if copied is None:
        raise InputError(
            "the run measured no copy of memory",
            fix="measure with --only memory, or name the system with --base",
        )
    peak = max(peaks.values())
    return measured_device(
        id=device_id(named[0] if named else "processor"),
        name=named[0] if named else f"{_fact(facts, 'cpu.model', str) or 'processor'}, one rank",
        memory_bytes=_memory_bytes(width, facts),
        memory_Bps=copied,
        peak_flop_per_s={"fp16": peak, "bf16": peak},
        sm_count=max(1, round(peak / _SM_FLOP_PER_S)),
    )


def _memory_bytes(width: int, facts: Sequence[Fact]) -> int:
    own = _fact(facts, "gpu.memory_total", (int, float))
    if own is not None:
        return int(own)
    whole = _fact(facts, "memory.total", (int, float))
    if whole is None:
        raise InputError("the run does not say how much memory a rank has", fix="name the system with --base")
    return int(whole) // width


def _fact(facts: Sequence[Fact], key: str, kind: type | tuple[type, ...]) -> float | str | None:
    return next((f.value for f in facts if f.key == key and isinstance(f.value, kind)), None)


def _best(readings: Sequence[Reading], quantity: str) -> float | None:
    numbers = [r.number for r in readings if r.quantity == quantity and r.number is not None]
    return max(numbers, default=None)


def device_id(name: str) -> str:
    """A name as an id: lower-case words with hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"
