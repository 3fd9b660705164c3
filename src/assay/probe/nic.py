"""Network adapters: RDMA ports and their counters, and the Ethernet interfaces of the machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

from assay.probe.fact import Fact, Value, known, missing
from assay.probe.files import Roots, entries, file_fact, link_name, scaled, whole
from assay.probe.pcie import read_link
from assay.units import parse as parse_unit

#: Bits of the port counters that stop at their largest value instead of wrapping.
#: Source: InfiniBand Architecture Specification, PortCounters attribute (as in Linux core/sysfs.c).
_COUNTER_BITS = {
    "symbol_error": 16,
    "link_error_recovery": 8,
    "link_downed": 8,
    "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16,
    "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8,
    "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4,
    "VL15_dropped": 16,
    "port_xmit_wait": 32,
}

#: These count words of four bytes.
_WORD_COUNTERS = ("port_xmit_data", "port_rcv_data")

_STATISTICS = ("bytes", "packets", "errors", "dropped")

_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec.*")


def read_nics(host: str, roots: Roots) -> tuple[Fact, ...]:
    """Every RDMA port as "port:<host>/mlx5_0[1]" and every interface as "port:<host>/eth0"."""
    node, root = f"node:{host}", roots.sys / "class/infiniband"
    adapters = entries(root)
    if os.path.isdir(root):
        count = known(node, "nic.rdma_adapters", len(adapters), "count", str(root))
    else:
        count = missing(node, "nic.rdma_adapters", "count", f"no {root} on this host", str(root))
    facts = [count]
    for adapter in adapters:
        facts += _adapter(host, adapter)
    for interface in entries(roots.sys / "class/net"):
        # bonding_masters is a file among the directories.
        if interface.name != "lo" and os.path.isdir(interface):
            facts += _interface(f"port:{host}/{interface.name}", interface)
    return tuple(facts)


def link_rate_Bps(text: str) -> float:
    """Bytes per second of "400 Gb/sec (4X NDR)"."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"rate {text!r} is not of the form '400 Gb/sec (4X NDR)'")
    return parse_unit(f"{float(match[1])} Gb/s").value


def is_saturated(counter: str, value: int) -> bool:
    """Whether a port counter stands at the largest value it can hold, so that the truth is higher."""
    bits = _COUNTER_BITS.get(counter)
    return bits is not None and value == 2**bits - 1


def _adapter(host: str, adapter: Path) -> list[Fact]:
    """The ports of one adapter; what belongs to the adapter is told for each of its ports."""
    ports = entries(adapter / "ports")
    subjects = [f"port:{host}/{adapter.name}[{port.name}]" for port in ports] or [
        f"port:{host}/{adapter.name}"
    ]
    facts: list[Fact] = []
    for subject in subjects:
        facts += [
            file_fact(subject, f"nic.{name}", adapter / name)
            for name in ("hca_type", "fw_ver", "board_id", "node_guid")
        ]
        facts.append(_driver(subject, adapter))
        facts.append(_interfaces_of(subject, adapter))
        facts += read_link(subject, adapter / "device")
    for subject, port in zip(subjects, ports, strict=False):
        facts += _port(subject, port)
    return facts


def _port(subject: str, port: Path) -> list[Fact]:
    facts = [
        file_fact(subject, "port.state", port / "state", parse=_state),
        file_fact(subject, "port.phys_state", port / "phys_state", parse=_state),
        file_fact(subject, "port.link_layer", port / "link_layer"),
        file_fact(subject, "port.rate", port / "rate", unit="B/s", parse=link_rate_Bps),
    ]
    counters = [_counter(subject, "counter", path) for path in entries(port / "counters")]
    facts += counters
    facts += [_counter(subject, "hw_counter", path) for path in entries(port / "hw_counters")]
    facts.append(_saturated(subject, counters, port / "counters"))
    return facts


def _counter(subject: str, kind: str, path: Path) -> Fact:
    key = f"port.{kind}.{path.name}"
    if path.name in _WORD_COUNTERS:
        return file_fact(subject, key, path, unit="B", parse=_words)
    return file_fact(subject, key, path, unit="count", parse=whole)


def _saturated(subject: str, counters: list[Fact], source: Path) -> Fact:
    """The counters that tell no more than "at least this many", by name."""
    if not counters:
        return missing(subject, "port.saturated_counters", "text", f"no counter in {source}", str(source))
    full = [
        name
        for fact in counters
        if (name := fact.key.rpartition(".")[2])
        and isinstance(fact.value, float | int)
        and is_saturated(name, int(fact.value))
    ]
    return known(subject, "port.saturated_counters", " ".join(full) or "none", "text", str(source))


def _state(text: str) -> str:
    """ "4: ACTIVE" is told as ACTIVE."""
    return text.partition(":")[2].strip() or text


def _words(text: str) -> Value:
    return whole(text) * 4


def _driver(subject: str, adapter: Path) -> Fact:
    path = adapter / "device/driver"
    name = link_name(path)
    if name is None:
        return missing(subject, "nic.driver", "text", f"no {path} on this host", str(path))
    return known(subject, "nic.driver", name, "text", str(path))


def _interfaces_of(subject: str, adapter: Path) -> Fact:
    path = adapter / "device/net"
    names = " ".join(entry.name for entry in entries(path))
    if not names:
        return missing(subject, "nic.interface", "text", f"no {path} on this host", str(path))
    return known(subject, "nic.interface", names, "text", str(path))


def _interface(subject: str, interface: Path) -> list[Fact]:
    facts = [
        file_fact(subject, "net.operstate", interface / "operstate"),
        file_fact(subject, "net.mtu", interface / "mtu", unit="B", parse=whole),
        file_fact(subject, "net.rate", interface / "speed", unit="B/s", parse=_speed_Bps),
    ]
    facts += [
        file_fact(
            subject,
            f"net.{direction}_{name}",
            interface / "statistics" / f"{direction}_{name}",
            unit="B" if name == "bytes" else "count",
            parse=whole,
        )
        for direction in ("rx", "tx")
        for name in _STATISTICS
    ]
    # A bridge, tunnel or container's interface has no device behind it, and so no driver and no slot.
    if os.path.exists(interface / "device"):
        facts.append(_driver(subject, interface))
        facts += read_link(subject, interface / "device")
    return facts


def _speed_Bps(text: str) -> float:
    """The kernel prints Mbit/s, and -1 where the driver does not know."""
    if whole(text) <= 0:
        raise ValueError(f"the driver reports a speed of {text} Mbit/s: link down or virtual")
    return scaled(1e6 / 8)(text)
