"""From what a machine says of itself to readings: identities, counts, versions, and what datasheets say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from assay.catalog.devices import gpu_by_nvml_name, source_of
from assay.catalog.quantities import quantities
from assay.domain.device import PEAK_DTYPES, Gpu
from assay.domain.fact import Fact
from assay.domain.quantity import Quantity
from assay.domain.reading import ABSENT, Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.judge.lint import ceiling_of
from assay.units import show

#: How the probe says that it looked in every place where a thing could be, and that it is not there.
_NOT_THERE = re.compile(r"no .+ (in this Python|on this host|on the path|in the library directories)")

#: What a datasheet says of a whole device: quantity → the field of the catalogue entry that it rests on.
_ON_THE_SHEET = {
    **{f"gemm.{dtype}.rate": f"peak_flop_per_s.{dtype}" for dtype in PEAK_DTYPES},
    "memory.copy.bandwidth": "memory_Bps",
    "memory.triad.bandwidth": "memory_Bps",
    "peer.bandwidth": "link_Bps",
    "host_device.h2d.bandwidth": "pcie_generation",
    "host_device.d2h.bandwidth": "pcie_generation",
}

_Table = Mapping[str, Mapping[Subject, Fact]]


def readings_from_facts(facts: Iterable[Fact]) -> tuple[Reading, ...]:
    """Exact readings of origin measured, one per quantity and subject.

    A fact whose key is a quantity of the catalogue is one already; software that is known not to be there
    has the value ABSENT, anything else that could not be read keeps its reason. Derived are the nominal
    peaks, the NVLink generation and RDMA, each only where the facts do not state it themselves.
    """
    table = _table(facts)
    readings = [
        _direct(fact, quantity)
        for key, of_subjects in table.items()
        if (quantity := _exact_quantity(key)) is not None
        for fact in of_subjects.values()
    ]
    stated = {(reading.quantity, reading.subject) for reading in readings}
    derived = (*_nominal_peaks(table), *_nvlink_versions(table), *_rdma(table))
    return (*readings, *(r for r in derived if (r.quantity, r.subject) not in stated))


def datasheet_readings(facts: Iterable[Fact]) -> tuple[Reading, ...]:
    """What the catalogue says of the GPUs that the drivers name, of origin datasheet.

    GPUs of one kind throughout are told once, for the cluster. Where kinds are mixed or some card is
    unknown, each card is told by itself, and nothing is said about the links between them.
    """
    names = _table(facts).get("gpu.name", {})
    kinds = {subject: _kind(fact) for subject, fact in sorted(names.items())}
    known = {subject: gpu for subject, gpu in kinds.items() if gpu is not None}
    if known and len(known) == len(kinds) and len({gpu.id for gpu in known.values()}) == 1:
        return tuple(_sheet(CLUSTER, next(iter(known.values()))))
    return tuple(
        reading
        for subject, gpu in known.items()
        for reading in _sheet(subject, gpu)
        if not reading.quantity.startswith("peer.")
    )


def _table(facts: Iterable[Fact]) -> _Table:
    """Facts by key and subject; of several about the same thing the first that has a value."""
    table: dict[str, dict[Subject, Fact]] = defaultdict(dict)
    for fact in facts:
        kept = table[fact.key].get(fact.subject)
        if kept is None or (kept.value is None and fact.value is not None):
            table[fact.key][fact.subject] = fact
    return table


@cache
def _exact_quantity(key: str) -> Quantity | None:
    """The exact quantity that a fact's key names, or None."""
    return next((q for q in quantities() if q.exact and "<" not in key and q.describes(key)), None)


def _direct(fact: Fact, quantity: Quantity) -> Reading:
    absent = (
        fact.value is None
        and quantity.id == "software.<name>.version"
        and _NOT_THERE.fullmatch(fact.reason or "") is not None
    )
    return _reading(fact, fact.key, ABSENT if absent else fact.value, quantity.unit, reason=fact.reason)


def _reading(
    fact: Fact, quantity_id: str, value: float | str | None, unit: str, *, reason: str | None = None
) -> Reading:
    """A reading that rests on one fact; the reason counts only where there is no value."""
    return Reading(
        quantity=quantity_id,
        subject=fact.subject,
        origin=Origin.MEASURED,
        value=value,
        unit=unit,
        reason=(reason or "unknown") if value is None else None,
        n=1,
        source=fact.source,
    )


def _kind(name: Fact) -> Gpu | None:
    return gpu_by_nvml_name(name.value) if isinstance(name.value, str) else None


def _nominal_peaks(table: _Table) -> Iterator[Reading]:
    """Dense peak of the device that the driver names × SMs present / SMs of the catalogue, per dtype."""
    for subject, name in table.get("gpu.name", {}).items():
        gpu = _kind(name)
        if gpu is None:
            reason = name.reason or f"the catalogue has no GPU that a driver calls {name.value!r}"
            yield _reading(name, "gpu.nominal_peak.<dtype>", None, "FLOP/s", reason=reason)
            continue
        share, reason = _share_of_sms(table.get("gpu.sm_count", {}).get(subject), gpu)
        for dtype in PEAK_DTYPES:
            peak, quantity_id = gpu.peak(dtype), f"gpu.nominal_peak.{dtype}"
            if peak is None:
                yield _reading(name, quantity_id, None, "FLOP/s", reason=gpu.why_no_peak(dtype))
            elif share is None:
                yield _reading(name, quantity_id, None, "FLOP/s", reason=reason)
            else:
                yield _reading(name, quantity_id, peak * share, "FLOP/s")


def _share_of_sms(count: Fact | None, gpu: Gpu) -> tuple[float | None, str]:
    """SMs present over those of the catalogue, or None with the reason."""
    if gpu.sm_count is None:
        return None, f"SMs of {gpu.name}: {gpu.missing.get('sm_count', 'unknown')}"
    if count is None or isinstance(count.value, str | None):
        why = (count.reason if count else None) or "the driver does not tell"
        return None, f"how many of the {gpu.sm_count} SMs are present is unknown: {why}"
    return count.value / gpu.sm_count, ""


def _nvlink_versions(table: _Table) -> Iterator[Reading]:
    """The generation as a number; 0 where the driver shows a GPU without any NVLink."""
    key = "interconnect.nvlink_version"
    for subject, version in table.get("gpu.nvlink_version", {}).items():
        links = table.get("gpu.nvlinks", {}).get(subject)
        if links is not None and links.value == 0:
            yield _reading(links, key, 0.0, "count")
        elif isinstance(version.value, str) and re.fullmatch(r"\d+(\.\d+)?", version.value):
            yield _reading(version, key, float(version.value), "count")
        else:
            reason = version.reason or f"the driver tells {version.value!r}"
            yield _reading(version, key, None, "count", reason=reason)


def _rdma(table: _Table) -> Iterator[Reading]:
    """Per node its active RDMA ports by name, ABSENT where it has none, None where that cannot be told."""
    ports: dict[str, list[Fact]] = defaultdict(list)
    for subject, state in table.get("port.state", {}).items():
        ports[subject.name.partition("/")[0]].append(state)
    layers = table.get("port.link_layer", {})
    for node, adapters in table.get("nic.rdma_adapters", {}).items():
        states = ports.get(node.name, [])
        active = [state for state in states if state.value == "ACTIVE"]
        unread = next((state for state in states if state.value is None), None)
        value, reason = None, adapters.reason
        if active:
            value = ", ".join(_port_name(state, layers.get(state.subject)) for state in active)
        elif unread is not None:
            reason = unread.reason
        elif adapters.value is not None or _NOT_THERE.fullmatch(reason or ""):
            value = ABSENT
        yield _reading(adapters, "interconnect.rdma", value, "text", reason=reason)


def _port_name(state: Fact, layer: Fact | None) -> str:
    """`mlx5_0[1] InfiniBand`; RDMA over Ethernet is called RoCE."""
    said = str(layer.value) if layer is not None and layer.value is not None else "unknown link layer"
    return f"{state.subject.name.partition('/')[2]} {'RoCE' if said == 'Ethernet' else said}"


def _sheet(subject: Subject, gpu: Gpu) -> Iterator[Reading]:
    for quantity_id, field in _ON_THE_SHEET.items():
        ceiling = ceiling_of(quantity_id, Recipe(), gpu)
        if ceiling is None:
            continue
        unit = "FLOP/s" if quantity_id.startswith("gemm.") else "B/s"
        document = source_of(gpu, field)
        yield Reading(
            quantity=quantity_id,
            subject=subject,
            origin=Origin.DATASHEET,
            value=ceiling.value,
            unit=unit,
            source=f"catalogue {gpu.id}: {show(ceiling.value, unit)}, {ceiling.arithmetic}"
            f" ({document.title}, {document.date})",
        )
