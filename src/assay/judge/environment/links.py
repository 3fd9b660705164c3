"""PCIe links below their width or generation, and network ports that are down or slow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from assay.catalog.devices import gpu_by_nvml_name
from assay.domain.fact import Fact
from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.domain.subject import Subject, natural_key
from assay.judge.environment.table import FactTable, finding

#: Counts of back-pressure, not of errors; they fill up on healthy busy ports.
_BENIGN_COUNTERS = ("port_xmit_wait",)


def link_findings(table: FactTable) -> Iterator[Finding]:
    """PCIe links of GPUs and adapters, then ports."""
    for subject in table.subjects("gpu"):
        yield from _gpu_link(table, subject)
    ports = list(table.of("port.state"))
    for port in ports:
        yield from _port_slot(table, port)
        yield from _counters(table, port)
    yield from _down(table, ports)
    yield from _slow(table)


def _gpu_link(table: FactTable, subject: Subject) -> Iterator[Finding]:
    """Idle cards lower their generation to save power, never their number of lanes."""
    width, width_max, generation, generation_max = _link_facts(table, subject)
    throttle = table.text(subject, "gpu.throttle")
    # Without the reasons of the driver nobody knows whether the card was idle; it mostly is.
    idle = throttle is None or "gpu_idle" in throttle.split() or _is_clocked_down(table, subject)
    expected = max(_number(width_max) or 0, _lanes_of_kind(table, subject))
    lanes = _number(width)
    if lanes is not None and lanes < expected:
        because = Message.of("because.pcie_width", width=int(lanes), expected=int(expected))
        yield finding("PCIE_DEGRADED", subject, because, width, width_max)
    now, most = _number(generation), _number(generation_max)
    if now is not None and most is not None and now < most and not idle:
        because = Message.of("because.pcie_generation", generation=int(now), expected=int(most))
        yield finding("PCIE_DEGRADED", subject, because, generation, generation_max)


def _link_facts(
    table: FactTable, subject: Subject
) -> tuple[Fact | None, Fact | None, Fact | None, Fact | None]:
    """Width and generation, now and at most: by the driver, else by sysfs."""
    keys = (
        ("gpu.pcie_width", "pcie.width_current"),
        ("gpu.pcie_width_max", "pcie.width_max"),
        ("gpu.pcie_generation", "pcie.generation_current"),
        ("gpu.pcie_generation_max", "pcie.generation_max"),
    )
    width, width_max, generation, generation_max = (
        table.get(subject, by_driver) or table.get(subject, by_kernel) for by_driver, by_kernel in keys
    )
    return width, width_max, generation, generation_max


def _number(fact: Fact | None) -> float | None:
    return None if fact is None or isinstance(fact.value, str | None) else float(fact.value)


def _is_clocked_down(table: FactTable, subject: Subject) -> bool:
    clock, most = table.number(subject, "gpu.sm_clock"), table.number(subject, "gpu.sm_clock_max")
    return clock is not None and most is not None and clock < most / 2


def _lanes_of_kind(table: FactTable, subject: Subject) -> int:
    """Lanes by the catalogue: a slot with fewer makes the driver's own maximum smaller."""
    name = table.text(subject, "gpu.name")
    device = gpu_by_nvml_name(name) if name else None
    return (device.pcie_lanes or 0) if device else 0


def _port_slot(table: FactTable, port: Subject) -> Iterator[Finding]:
    """A slot that carries less than the port, or lost lanes; a slower slot that suffices is by design."""
    slot, rate = table.get(port, "pcie.bandwidth_current"), table.get(port, "port.rate")
    slot_Bps, rate_Bps = _number(slot), _number(rate)
    if slot_Bps is not None and rate_Bps is not None and slot_Bps < rate_Bps:
        because = Message.of("because.nic_slot", slot_Bps=slot_Bps, port_Bps=rate_Bps)
        yield finding("PCIE_DEGRADED", port, because, slot, rate)
        return
    width, most = table.get(port, "pcie.width_current"), table.get(port, "pcie.width_max")
    lanes, expected = _number(width), _number(most)
    if lanes is not None and expected is not None and lanes < expected:
        because = Message.of("because.pcie_width", width=int(lanes), expected=int(expected))
        yield finding("PCIE_DEGRADED", port, because, width, most, severity=Severity.LOW)


def _counters(table: FactTable, port: Subject) -> Iterator[Finding]:
    full = table.get(port, "port.saturated_counters")
    names = [n for n in str(full.value).split() if n != "none"] if full else []
    if names:
        benign = set(names) <= set(_BENIGN_COUNTERS)
        because = Message.of("because.port_counters", names=", ".join(names))
        yield finding(
            "NIC_DEGRADED", port, because, full, severity=Severity.INFO if benign else Severity.MEDIUM
        )


def _down(table: FactTable, ports: Iterable[Subject]) -> Iterator[Finding]:
    """Ports that are not ACTIVE: a fault where most ports of that number are, else probably not cabled."""
    by_number: dict[str, list[Subject]] = defaultdict(list)
    for port in ports:
        by_number[port.name.rpartition("[")[2]].append(port)
    for siblings in by_number.values():
        active = {port for port in siblings if table.text(port, "port.state") == "ACTIVE"}
        for port in siblings:
            if port in active:
                continue
            state, phys = table.get(port, "port.state"), table.get(port, "port.phys_state")
            because = Message.of(
                "because.port_down",
                state=table.text(port, "port.state"),
                phys=table.text(port, "port.phys_state") or "–",
                active=len(active),
                peers=len(siblings),
            )
            grave = 2 * len(active) >= len(siblings)
            yield finding(
                "NIC_DEGRADED", port, because, state, phys, severity=Severity.HIGH if grave else Severity.LOW
            )


def _slow(table: FactTable) -> Iterator[Finding]:
    """Active ports below the rate that most of their siblings have; of as many, below the higher."""
    for key, severity in (("port.rate", Severity.HIGH), ("net.rate", Severity.MEDIUM)):
        groups: dict[str, list[Fact]] = defaultdict(list)
        for port, fact in table.of(key).items():
            if table.text(port, "port.state") in (None, "ACTIVE"):
                # Adapters of one kind are siblings; so are interfaces of one name on several nodes.
                groups[table.text(port, "nic.hca_type") or port.name.partition("/")[2]].append(fact)
        for facts in groups.values():
            rates = Counter(_number(fact) or 0.0 for fact in facts)
            expected = max(rates, key=lambda rate: (rates[rate], rate))
            for fact in sorted(facts, key=lambda f: natural_key(f.subject.name)):
                rate = _number(fact)
                if rate is not None and rate < expected:
                    because = Message.of("because.port_rate", rate_Bps=rate, expected_Bps=expected)
                    yield finding("NIC_DEGRADED", fact.subject, because, fact, severity=severity)
