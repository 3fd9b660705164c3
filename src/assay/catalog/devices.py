"""The shipped hardware: GPUs, link generations, NICs, switches, and the document behind each number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from assay.catalog.tables import read_records, shipped_text
from assay.domain.device import Device, Gpu, Nic, NvlinkGeneration, PcieGeneration, Source, Switch
from assay.errors import InputError, unknown_name

D = TypeVar("D", bound=Device)

GPU_FILES = ("gpus_ampere.toml", "gpus_hopper.toml", "gpus_blackwell.toml", "gpus_other.toml")


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """Every GPU of the catalogue."""
    return tuple(one for file in GPU_FILES for one in _load(file, "gpu", Gpu))


@functools.cache
def nics() -> tuple[Nic, ...]:
    """Every network adapter of the catalogue."""
    return _load("nics.toml", "nic", Nic)


@functools.cache
def switches() -> tuple[Switch, ...]:
    """Every switch of the catalogue, NVSwitch among them."""
    return _load("switches.toml", "switch", Switch)


@functools.cache
def nvlinks() -> tuple[NvlinkGeneration, ...]:
    """Every NVLink generation of the catalogue."""
    return _load("links.toml", "nvlink", NvlinkGeneration)


@functools.cache
def pcies() -> tuple[PcieGeneration, ...]:
    """Every PCI Express generation of the catalogue."""
    return _load("links.toml", "pcie", PcieGeneration)


@functools.cache
def sources() -> Mapping[str, Source]:
    """The documents that the catalogue quotes, by id."""
    return read_records(shipped_text("sources.toml"), file="sources.toml", table="source", kind=Source)


def devices() -> tuple[Device, ...]:
    """Everything above in one list, for `assay catalog` and the lint."""
    return (*gpus(), *nvlinks(), *pcies(), *nics(), *switches())


def device(name: str) -> Device:
    """Any device by id or alias, whatever it is."""
    return _pick("device", name, names_of(devices()))


def gpu(name: str) -> Gpu:
    """The GPU with this id or alias; raises `UnknownNameError` with the nearest names."""
    return _pick("GPU", name, _gpu_names())


def nic(name: str) -> Nic:
    """The network adapter with this id or alias."""
    return _pick("NIC", name, _nic_names())


def switch(name: str) -> Switch:
    """The switch with this id or alias."""
    return _pick("switch", name, _switch_names())


def nvlink(generation: int) -> NvlinkGeneration:
    """The NVLink generation with this number."""
    return _generation("NVLink", generation, nvlinks(), lambda one: one.generation)


def pcie(generation: int) -> PcieGeneration:
    """The PCI Express generation with this number."""
    return _generation("PCIe", generation, pcies(), lambda one: one.generation)


def gpu_by_nvml_name(name: str) -> Gpu | None:
    """The GPU that a driver calls `name`, or None for one that the catalogue does not know.

    Old drivers leave out the vendor, so "A100-SXM4-80GB" and "NVIDIA A100-SXM4-80GB" are one.
    """
    return _gpu_nvml_names().get(_bare(name))


def source_of(device: Device, field: str) -> Source:
    """The document behind one field of a device; a peak is `peak_flop_per_s.<dtype>`."""
    if not device.has_field(field):
        raise unknown_name(f"field of {device.id}", field, sorted(type(device).__dataclass_fields__))
    wanted = device.source_id(field)
    known = sources()
    if wanted not in known:
        raise unknown_name("source", wanted, known, where=f"catalogue entry {device.id}")
    return known[wanted]


def names_of(entries: Iterable[D]) -> dict[str, D]:
    """Id and aliases → entry; a name that two entries claim is an error."""
    found: dict[str, D] = {}
    for entry in entries:
        for name in (entry.id, *entry.aliases):
            if name in found:
                raise InputError(f"{name!r} names both {found[name].id} and {entry.id}")
            found[name] = entry
    return found


@functools.cache
def _gpu_names() -> Mapping[str, Gpu]:
    return names_of(gpus())


@functools.cache
def _nic_names() -> Mapping[str, Nic]:
    return names_of(nics())


@functools.cache
def _switch_names() -> Mapping[str, Switch]:
    return names_of(switches())


@functools.cache
def _gpu_nvml_names() -> Mapping[str, Gpu]:
    return {_bare(name): one for one in gpus() for name in one.nvml_names}


def _load(file: str, table: str, kind: Callable[..., D]) -> tuple[D, ...]:
    return tuple(read_records(shipped_text(file), file=file, table=table, kind=kind).values())


def _pick(kind: str, name: str, names: Mapping[str, D]) -> D:
    said = name.strip().lower().replace("_", "-").replace(" ", "-")
    if said not in names:
        raise unknown_name(kind, name, names)
    return names[said]


def _generation(kind: str, wanted: int, entries: Iterable[D], number: Callable[[D], int]) -> D:
    by_number = {number(one): one for one in entries}
    if wanted not in by_number:
        raise unknown_name(f"{kind} generation", str(wanted), map(str, by_number))
    return by_number[wanted]


def _bare(name: str) -> str:
    """A driver's product name without vendor, case and doubled spaces."""
    words = name.lower().split()
    while words and words[0] in ("nvidia", "amd", "tesla"):
        words = words[1:]
    return " ".join(words)
