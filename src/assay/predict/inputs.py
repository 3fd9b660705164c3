"""What a prediction rests on: every figure of the cluster that it uses, with its origin and source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assay.catalog.devices import source_of
from assay.domain.calibration import Calibration
from assay.domain.cluster import Cluster
from assay.domain.device import Gpu
from assay.domain.reading import Origin
from assay.errors import InputError
from assay.predict.calibration import calibrated_gpu
from assay.predict.network import wires_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One figure: where it is measured, `datasheet` is what it replaces; the interval is 95 %."""

    name: str
    value: float
    unit: str
    origin: Origin
    source: str
    low: float | None = None
    high: float | None = None
    datasheet: float | None = None


def inputs_of(cluster: Cluster, dtype: str) -> tuple[Input, ...]:
    """Figures of the device at `dtype` (a key of the datasheet's peaks), of its links and the network."""
    gpu = cluster.node.gpu
    return () if gpu is None else tuple(_inputs(cluster, gpu, dtype))


def _inputs(cluster: Cluster, gpu: Gpu, dtype: str) -> Iterator[Input]:
    c, known, wires = cluster.calibration, _is_known(gpu), wires_of(cluster)
    peak, real = gpu.peak(dtype), calibrated_gpu(gpu, c)
    if peak is not None:
        scaled = _Measured(
            c, {"bf16": "gemm.bf16.rate", "fp8": "gemm.fp8.rate", "fp4": "gemm.nvfp4.rate"}[dtype]
        )
        yield scaled.input(
            f"{dtype} peak of products",
            peak,
            real.peak(dtype) or peak,
            "FLOP/s",
            gpu,
            f"peak_flop_per_s.{dtype}",
            known,
        )
    memory = _Measured(c, "memory.bandwidth")
    yield memory.input("memory bandwidth", gpu.memory_Bps, real.memory_Bps, "B/s", gpu, "memory_Bps", known)
    yield Input(
        name="memory",
        value=float(gpu.memory_bytes),
        unit="B",
        origin=Origin.DATASHEET if known else Origin.MEASURED,
        source=_source(gpu, "memory_bytes", known),
    )
    for place, bandwidth, latency in (
        ("node", wires.link_Bps, wires.link_s),
        ("network", wires.nic_Bps, wires.nic_s),
    ):
        if place == "network" and cluster.fabric is None:
            continue
        where = "inside a node" if place == "node" else "between nodes"
        yield from _link(
            c, place, "bandwidth", f"bandwidth of a GPU {where}", bandwidth, "B/s", cluster, known
        )
        yield from _link(c, place, "latency", f"latency of a hop {where}", latency, "s", cluster, known)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A factor of the calibration, where there is one."""

    calibration: Calibration | None
    name: str

    def input(
        self, name: str, plain: float, real: float, unit: str, gpu: Gpu, field: str, known: bool
    ) -> Input:
        """The figure with the factor's interval, or the datasheet's."""
        c = self.calibration
        factor = None if c is None else c.get(self.name)
        if c is None or (factor is None and real == plain):
            origin = Origin.DATASHEET if known else Origin.MEASURED
            return Input(name=name, value=plain, unit=unit, origin=origin, source=_source(gpu, field, known))
        return Input(
            name=name,
            value=real,
            unit=unit,
            origin=Origin.MEASURED,
            source=c.source,
            low=None if factor is None or factor.low is None else plain * factor.low,
            high=None if factor is None or factor.high is None else plain * factor.high,
            datasheet=plain if known else None,
        )


def _link(
    c: Calibration | None,
    place: str,
    kind: str,
    name: str,
    plain: float,
    unit: str,
    cluster: Cluster,
    known: bool,
) -> Iterator[Input]:
    """A figure of the links: measured ones a collective each, by its own factor."""
    measured = (
        []
        if c is None
        else [
            factor
            for factor in c.factors
            if factor.name.startswith(f"{place}.") and factor.name.endswith(kind)
        ]
    )
    for factor in measured:
        op = factor.name.split(".")[1] if kind == "bandwidth" else ""
        yield Input(
            name=f"{name}, {op.replace('_', '-')}" if op else name,
            value=plain * factor.value,
            unit=unit,
            origin=Origin.MEASURED,
            source=c.source if c is not None else "",
            low=None if factor.low is None else plain * factor.low,
            high=None if factor.high is None else plain * factor.high,
            datasheet=plain if known else None,
        )
    if not measured:
        source = f"links and NICs of {cluster.id}, at the part of the line rate that collectives reach"
        yield Input(name=name, value=plain, unit=unit, origin=Origin.DATASHEET, source=source)


def _is_known(gpu: Gpu) -> bool:
    """Whether a datasheet describes the device."""
    return gpu.source != "run"


def _source(gpu: Gpu, field: str, known: bool) -> str:
    if not known:
        return "the run"
    try:
        document = source_of(gpu, field)
    except InputError:
        return gpu.source
    return f"{document.title}, {document.date}"
