"""GPUs of one machine: what they are, how they are, and who else uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from assay.probe.amd import amd_cards, read_amd_card
from assay.probe.fact import Fact, Value, known, missing
from assay.probe.files import Roots, link_name
from assay.probe.nvml import (
    CLOCK_MEMORY,
    CLOCK_SM,
    COMPUTE_MODES,
    NVLINK_VERSIONS,
    TOPOLOGY_LEVELS,
    VIRTUALIZATION_MODES,
    Device,
    Nvml,
    NvmlError,
)
from assay.probe.pcie import read_link

#: What /proc/self/ns/pid links to outside of every container (PROC_PID_INIT_INO of Linux).
_HOST_PID_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """How one GPU runs at one moment; a value that the driver cannot tell is None, with `reason`."""

    sm_clock_Hz: float | None
    memory_clock_Hz: float | None
    power_W: float | None
    temperature_degC: float | None
    throttle: tuple[str, ...] | None
    reason: str | None


def sample(device: Device) -> GpuSample:
    """Clocks, power, temperature and throttle reasons: five calls, cheap enough to repeat in a benchmark."""
    reasons: list[str] = []

    def scale(factor: float, function: str, *arguments: int) -> float | None:
        try:
            return device.uint(function, *arguments) * factor
        except NvmlError as error:
            reasons.append(error.what)
            return None

    clock, memory_clock = (scale(1e6, "nvmlDeviceGetClockInfo", kind) for kind in (CLOCK_SM, CLOCK_MEMORY))
    power = scale(1e-3, "nvmlDeviceGetPowerUsage")
    temperature = scale(1.0, "nvmlDeviceGetTemperature", 0)
    throttle = None
    try:
        throttle = device.throttle_reasons()
    except NvmlError as error:
        reasons.append(error.what)
    return GpuSample(
        sm_clock_Hz=clock,
        memory_clock_Hz=memory_clock,
        power_W=power,
        temperature_degC=temperature,
        throttle=throttle,
        reason="; ".join(reasons) or None,
    )


def read_gpus(
    host: str, roots: Roots, *, library: str | None = None, own_pids: Collection[int] | None = None
) -> tuple[Fact, ...]:
    """NVIDIA GPUs through NVML, then AMD GPUs through sysfs, numbered on.

    `own_pids` are the processes that may hold a context (default: this one); any other on a card means
    that it is shared.
    """
    own = frozenset({os.getpid()} if own_pids is None else own_pids)
    node, source = f"node:{host}", "nvmlDeviceGetCount_v2"
    cards = amd_cards(roots)
    try:
        with Nvml(library) as nvml:
            count = nvml.device_count()
            facts = _read_nvidia(host, roots, nvml, count, own)
    except NvmlError as error:
        count, source = 0, error.function
        facts = [missing(node, key, "text", error.what, source) for key in ("gpu.driver", "gpu.cuda_version")]
        if not cards:
            return (missing(node, "gpu.count", "count", error.what, source), *facts)
    for index, card in enumerate(cards, start=count):
        source = str(roots.sys / "class/drm")
        facts += read_amd_card(f"gpu:{host}/{index}", card)
    return (known(node, "gpu.count", count + len(cards), "count", source), *facts)


def _read_nvidia(host: str, roots: Roots, nvml: Nvml, count: int, own: frozenset[int]) -> list[Fact]:
    node = f"node:{host}"
    facts = [
        _fact(node, "gpu.driver", "text", "nvmlSystemGetDriverVersion", nvml.driver_version),
        _fact(node, "gpu.cuda_version", "text", "nvmlSystemGetCudaDriverVersion_v2", nvml.cuda_version),
    ]
    devices: list[Device] = []
    for index in range(count):
        subject = f"gpu:{host}/{index}"
        try:
            device = nvml.device(index)
        except NvmlError as error:
            facts += _unreachable(subject, error)
            continue
        devices.append(device)
        facts += _read_device(subject, device, roots, own)
    for device in devices:
        facts.append(_topology(f"gpu:{host}/{device.index}", device, devices))
    return facts


def _fact(subject: str, key: str, unit: str, function: str, call: Callable[[], Value]) -> Fact:
    try:
        return known(subject, key, call(), unit, function)
    except NvmlError as error:
        return missing(subject, key, unit, error.what, error.function)


def _unreachable(subject: str, error: NvmlError) -> list[Fact]:
    """All that is asked of a GPU whose handle the driver refuses, with that reason."""
    facts = [missing(subject, key, unit, error.what, error.function) for key, unit, _, _ in _READINGS]
    return [known(subject, "gpu.lost", error.is_lost, "text", error.function), *facts]


def _read_device(subject: str, device: Device, roots: Roots, own: frozenset[int]) -> list[Fact]:
    facts: list[Fact] = []
    lost = False
    for key, unit, function, reading in _READINGS:
        try:
            facts.append(known(subject, key, reading(device), unit, function))
        except NvmlError as error:
            lost = lost or error.is_lost
            facts.append(missing(subject, key, unit, error.what, error.function))
    facts.insert(0, known(subject, "gpu.lost", lost, "text", "every call"))
    facts += _processes(subject, device, roots, own)
    bus_id = next(fact.value for fact in facts if fact.key == "gpu.pci_bus_id")
    if isinstance(bus_id, str):
        facts += read_link(subject, roots.sys / "bus/pci/devices" / bus_id)
    return facts


def _processes(subject: str, device: Device, roots: Roots, own: frozenset[int]) -> list[Fact]:
    """How many processes compute on the card, and which of them are not ours: those share it."""
    function = "nvmlDeviceGetComputeRunningProcesses_v3"
    try:
        pids = device.process_pids()
    except NvmlError as error:
        return [
            missing(subject, "gpu.processes", "count", error.what, error.function),
            missing(subject, "gpu.foreign_pids", "text", error.what, error.function),
        ]
    count = known(subject, "gpu.processes", len(pids), "count", function)
    # The driver tells the host's numbers, which mean nothing in a pid namespace of our own.
    if pids and link_name(roots.proc / "self/ns/pid") != _HOST_PID_NAMESPACE:
        reason = f"{len(pids)} on the card, and from inside a container ours cannot be told from others'"
        return [count, missing(subject, "gpu.foreign_pids", "text", reason, function)]
    foreign = sorted(set(pids) - own)
    return [
        count,
        known(subject, "gpu.foreign_pids", " ".join(map(str, foreign)) or "none", "text", function),
    ]


def _topology(subject: str, device: Device, devices: Collection[Device]) -> Fact:
    """The way to each other GPU over PCIe, as nvidia-smi spells it: "1:PIX 2:SYS"."""
    key, function = "gpu.topology", "nvmlDeviceGetTopologyCommonAncestor"
    others = [other for other in devices if other.index != device.index]
    if not others:
        return missing(subject, key, "text", "no other GPU in this machine", function)
    ways, lacks = [], []
    for other in others:
        try:
            level = device.topology_to(other)
            ways.append(f"{other.index}:{TOPOLOGY_LEVELS.get(level, level)}")
        except NvmlError as error:
            # A neighbour that is lost leaves the ways to the others standing.
            ways.append(f"{other.index}:unknown")
            lacks.append(error)
    if len(lacks) == len(others):
        return missing(subject, key, "text", lacks[0].what, lacks[0].function)
    return known(subject, key, " ".join(ways), "text", function)


def _one(function: str, *arguments: int, factor: float | None = None) -> Callable[[Device], Value]:
    """A reading of one number, in base units where `factor` is given."""

    def reading(device: Device) -> Value:
        value = device.uint(function, *arguments)
        return value if factor is None else value * factor

    return reading


def _text(function: str) -> Callable[[Device], Value]:
    """A reading of one text; an empty one is an error, as no field is rightly empty."""

    def reading(device: Device) -> Value:
        text = device.text(function)
        if not text:
            raise NvmlError(f"{function} gives an empty text", function=function)
        return text

    return reading


def _yes(function: str, count: int, place: int) -> Callable[[Device], Value]:
    """A reading of one yes or no among the `count` answers of a call."""
    return lambda device: device.uints(function, count)[place] != 0


def _named(function: str, names: dict[int, str], *arguments: int) -> Callable[[Device], Value]:
    """A reading of a number that stands for a name."""

    def reading(device: Device) -> Value:
        value = device.uint(function, *arguments)
        return names.get(value, f"unknown ({value})")

    return reading


_ECC = "nvmlDeviceGetTotalEccErrors"
_ROWS = "nvmlDeviceGetRemappedRows"

#: key, unit, what is called, how it is read. The order is the order in which people read it.
_READINGS: tuple[tuple[str, str, str, Callable[[Device], Value]], ...] = (
    ("gpu.name", "text", "nvmlDeviceGetName", _text("nvmlDeviceGetName")),
    ("gpu.uuid", "text", "nvmlDeviceGetUUID", _text("nvmlDeviceGetUUID")),
    ("gpu.serial", "text", "nvmlDeviceGetSerial", _text("nvmlDeviceGetSerial")),
    ("gpu.pci_bus_id", "text", "nvmlDeviceGetPciInfo_v3", Device.pci_bus_id),
    ("gpu.vbios", "text", "nvmlDeviceGetVbiosVersion", _text("nvmlDeviceGetVbiosVersion")),
    ("gpu.sm_count", "count", "nvmlDeviceGetNumGpuCores", Device.sm_count),
    ("gpu.memory_total", "B", "nvmlDeviceGetMemoryInfo", lambda device: device.memory_bytes()[0]),
    ("gpu.memory_used", "B", "nvmlDeviceGetMemoryInfo", lambda device: device.memory_bytes()[1]),
    ("gpu.ecc_enabled", "text", "nvmlDeviceGetEccMode", _yes("nvmlDeviceGetEccMode", 2, 0)),
    ("gpu.ecc_corrected", "count", _ECC, lambda device: device.ecc_errors(corrected=True)),
    ("gpu.ecc_uncorrected", "count", _ECC, lambda device: device.ecc_errors(corrected=False)),
    ("gpu.remap_corrected_rows", "count", _ROWS, lambda device: device.uints(_ROWS, 4)[0]),
    ("gpu.remap_uncorrected_rows", "count", _ROWS, lambda device: device.uints(_ROWS, 4)[1]),
    ("gpu.remap_pending", "text", _ROWS, _yes(_ROWS, 4, 2)),
    ("gpu.remap_failed", "text", _ROWS, _yes(_ROWS, 4, 3)),
    ("gpu.mig_enabled", "text", "nvmlDeviceGetMigMode", _yes("nvmlDeviceGetMigMode", 2, 0)),
    (
        "gpu.virtualization",
        "text",
        "nvmlDeviceGetVirtualizationMode",
        _named("nvmlDeviceGetVirtualizationMode", VIRTUALIZATION_MODES),
    ),
    ("gpu.persistence", "text", "nvmlDeviceGetPersistenceMode", _yes("nvmlDeviceGetPersistenceMode", 1, 0)),
    (
        "gpu.compute_mode",
        "text",
        "nvmlDeviceGetComputeMode",
        _named("nvmlDeviceGetComputeMode", COMPUTE_MODES),
    ),
    ("gpu.power", "W", "nvmlDeviceGetPowerUsage", _one("nvmlDeviceGetPowerUsage", factor=1e-3)),
    (
        "gpu.power_limit",
        "W",
        "nvmlDeviceGetEnforcedPowerLimit",
        _one("nvmlDeviceGetEnforcedPowerLimit", factor=1e-3),
    ),
    (
        "gpu.power_limit_default",
        "W",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        _one("nvmlDeviceGetPowerManagementDefaultLimit", factor=1e-3),
    ),
    ("gpu.temperature", "degC", "nvmlDeviceGetTemperature", _one("nvmlDeviceGetTemperature", 0)),
    ("gpu.sm_clock", "Hz", "nvmlDeviceGetClockInfo", _one("nvmlDeviceGetClockInfo", CLOCK_SM, factor=1e6)),
    (
        "gpu.memory_clock",
        "Hz",
        "nvmlDeviceGetClockInfo",
        _one("nvmlDeviceGetClockInfo", CLOCK_MEMORY, factor=1e6),
    ),
    (
        "gpu.sm_clock_max",
        "Hz",
        "nvmlDeviceGetMaxClockInfo",
        _one("nvmlDeviceGetMaxClockInfo", CLOCK_SM, factor=1e6),
    ),
    (
        "gpu.memory_clock_max",
        "Hz",
        "nvmlDeviceGetMaxClockInfo",
        _one("nvmlDeviceGetMaxClockInfo", CLOCK_MEMORY, factor=1e6),
    ),
    (
        "gpu.throttle",
        "text",
        "nvmlDeviceGetCurrentClocksEventReasons",
        lambda device: " ".join(device.throttle_reasons()) or "none",
    ),
    (
        "gpu.pcie_generation",
        "count",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        _one("nvmlDeviceGetCurrPcieLinkGeneration"),
    ),
    (
        "gpu.pcie_generation_max",
        "count",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        _one("nvmlDeviceGetMaxPcieLinkGeneration"),
    ),
    ("gpu.pcie_width", "count", "nvmlDeviceGetCurrPcieLinkWidth", _one("nvmlDeviceGetCurrPcieLinkWidth")),
    ("gpu.pcie_width_max", "count", "nvmlDeviceGetMaxPcieLinkWidth", _one("nvmlDeviceGetMaxPcieLinkWidth")),
    ("gpu.pcie_replays", "count", "nvmlDeviceGetPcieReplayCounter", _one("nvmlDeviceGetPcieReplayCounter")),
    ("gpu.nvlinks", "count", "nvmlDeviceGetNvLinkState", lambda device: len(device.nvlinks())),
    ("gpu.nvlinks_up", "count", "nvmlDeviceGetNvLinkState", lambda device: sum(device.nvlinks())),
    (
        "gpu.nvlink_version",
        "text",
        "nvmlDeviceGetNvLinkVersion",
        _named("nvmlDeviceGetNvLinkVersion", NVLINK_VERSIONS, 0),
    ),
)
