"""GPUs: lost, shared, sliced, cut down, throttled, or with memory that fails."""

from __future__ import annotations

from collections.abc import Iterator

from assay.catalog.devices import gpu_by_nvml_name
from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.judge.environment.table import FactTable, finding

#: Memory that driver, firmware and one context take on an idle card: 0.4–0.8 GiB on an A100 or H100, with
#: room for a second context.
_IDLE_MEMORY_BYTES = 2 * 2**30
#: Drivers show up to 1 % less memory than the catalogue's size; ECC on GDDR cards takes 6.25 %.
_MEMORY_FRAC = 0.93
#: Reasons that a healthy card gives: nothing to do, clocks set by the user, and clocks kept together.
_HARMLESS = ("none", "gpu_idle", "applications_clocks", "display_clock")
#: The board or heat holds the clocks down; `sw_power_cap` alone is normal under full load.
_GRAVE = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake")
#: Power limits are set in steps and read back rounded.
_POWER_FRAC = 0.98


def gpu_findings(table: FactTable) -> Iterator[Finding]:
    """What is wrong with each GPU."""
    for subject in table.subjects("gpu"):
        if table.text(subject, "gpu.lost") == "yes":
            lost = table.get(subject, "gpu.lost")
            reason = next((f.reason for f in table.all_of("gpu.uuid") if f.subject == subject), None)
            yield finding("GPU_LOST", subject, Message.of("because.gpu_lost", text=reason or "–"), lost)
            continue
        yield from _shared(table, subject)
        yield from _sliced(table, subject)
        yield from _cut_down(table, subject)
        yield from _throttled(table, subject)
        yield from _memory_errors(table, subject)
        yield from _nvlinks(table, subject)


def _shared(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Other processes on the card, or memory in use that no process of this run accounts for."""
    foreign, used = table.get(subject, "gpu.foreign_pids"), table.get(subject, "gpu.memory_used")
    if foreign is not None and foreign.value != "none":
        because = Message.of("because.gpu_foreign", pids=str(foreign.value))
        yield finding("GPU_SHARED", subject, because, foreign, used)
        return
    processes, used_bytes = table.get(subject, "gpu.processes"), table.number(subject, "gpu.memory_used")
    ours = foreign is not None and processes is not None and processes.value != 0
    if used_bytes is not None and used_bytes > _IDLE_MEMORY_BYTES and not ours:
        because = Message.of(
            "because.gpu_memory_used", used_bytes=used_bytes, bound_bytes=float(_IDLE_MEMORY_BYTES)
        )
        yield finding(
            "GPU_SHARED", subject, because, used, processes, severity=Severity.MEDIUM, confidence_frac=0.7
        )


def _sliced(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """vGPU, MIG and compute partitions are parts of a card; passthrough gives the whole of it."""
    mode, mig = table.get(subject, "gpu.virtualization"), table.get(subject, "gpu.mig_enabled")
    partition = table.get(subject, "gpu.partition")
    if mode is not None and mode.value == "passthrough":
        because = Message.of("because.gpu_passthrough")
        yield finding("GPU_VIRTUALISED", subject, because, mode, severity=Severity.INFO)
    elif mode is not None and mode.value != "none":
        yield finding("GPU_VIRTUALISED", subject, Message.of("because.gpu_slice", text=str(mode.value)), mode)
    if mig is not None and mig.value == "yes":
        yield finding("GPU_VIRTUALISED", subject, Message.of("because.gpu_slice", text="MIG"), mig)
    if partition is not None and partition.value != "SPX":
        because = Message.of("because.gpu_slice", text=str(partition.value))
        yield finding("GPU_VIRTUALISED", subject, because, partition)


def _is_slice(table: FactTable, subject: Subject) -> bool:
    return table.text(subject, "gpu.mig_enabled") == "yes" or table.text(
        subject, "gpu.virtualization"
    ) not in (None, "none", "passthrough")


def _cut_down(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Fewer SMs or less memory than a card of that name has by the catalogue."""
    name = table.get(subject, "gpu.name")
    device = gpu_by_nvml_name(str(name.value)) if name is not None else None
    if device is None:
        return
    cause = "GPU_VIRTUALISED" if _is_slice(table, subject) else None
    sms, memory = table.get(subject, "gpu.sm_count"), table.get(subject, "gpu.memory_total")
    present, memory_bytes = table.number(subject, "gpu.sm_count"), table.number(subject, "gpu.memory_total")
    if present is not None and device.sm_count is not None and present < device.sm_count:
        because = Message.of(
            "because.gpu_fewer_sms", present=int(present), expected=device.sm_count, device=device.name
        )
        yield finding("GPU_CUT_DOWN", subject, because, name, sms, follows_from=cause)
    if memory_bytes is not None and memory_bytes < _MEMORY_FRAC * device.memory_bytes:
        because = Message.of(
            "because.gpu_less_memory",
            present_bytes=memory_bytes,
            expected_bytes=float(device.memory_bytes),
            device=device.name,
        )
        yield finding("GPU_CUT_DOWN", subject, because, name, memory, follows_from=cause)


def _throttled(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Why the clocks are held down, and a power limit below the card's own."""
    throttle, clock = table.get(subject, "gpu.throttle"), table.get(subject, "gpu.sm_clock")
    limit, default = table.get(subject, "gpu.power_limit"), table.get(subject, "gpu.power_limit_default")
    limit_W = table.number(subject, "gpu.power_limit")
    default_W = table.number(subject, "gpu.power_limit_default")
    lowered = limit_W is not None and default_W is not None and limit_W < _POWER_FRAC * default_W
    if lowered:
        because = Message.of("because.gpu_power_limit", limit_W=limit_W, default_W=default_W)
        yield finding("GPU_THROTTLED", subject, because, limit, default, severity=Severity.MEDIUM)
    reasons = [w for w in str(throttle.value).split() if w not in _HARMLESS] if throttle else []
    if reasons:
        grave = any(reason in _GRAVE or reason.startswith("0x") for reason in reasons)
        because = Message.of("because.gpu_throttled", reasons=", ".join(reasons))
        severity = Severity.HIGH if grave else Severity.INFO
        yield finding("GPU_THROTTLED", subject, because, throttle, clock, severity=severity)


def _memory_errors(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Uncorrected errors and row remaps: pending needs a reset, failed needs another card."""
    key = "gpu.ecc_uncorrected"
    count = table.number(subject, key)
    if count:
        because = Message.of("because.gpu_ecc_uncorrected", count=int(count))
        yield finding("GPU_ECC", subject, because, table.get(subject, key))
    for state in ("remap_failed", "remap_pending"):
        fact = table.get(subject, f"gpu.{state}")
        if fact is not None and fact.value == "yes":
            yield finding("GPU_ECC", subject, Message.of(f"because.gpu_{state}"), fact)
    rows = table.number(subject, "gpu.remap_uncorrected_rows")
    if rows:
        because = Message.of("because.gpu_remapped", rows=int(rows))
        fact = table.get(subject, "gpu.remap_uncorrected_rows")
        yield finding("GPU_ECC", subject, because, fact, severity=Severity.LOW)


def _nvlinks(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Some links down while others are up; a card without a bridge has none up, and that is no fault."""
    up, links = table.number(subject, "gpu.nvlinks_up"), table.number(subject, "gpu.nvlinks")
    if up and links and up < links:
        because = Message.of("because.nvlink_down", up=int(up), links=int(links))
        yield finding("NVLINK_DOWN", subject, because, table.get(subject, "gpu.nvlinks_up"))
