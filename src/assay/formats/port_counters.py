"""Counters of network ports: perfquery, ibqueryerrors, sysfs, ethtool, `rdma statistic`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of one port, by their perfquery names, with their lines."""

    file: str
    line: int
    port: str
    values: Mapping[str, tuple[int, int]]
    source: str


#: Counter in sysfs -> its name in perfquery.
_NAME_IN_SYSFS = {
    "symbol_error": "SymbolErrorCounter",
    "link_error_recovery": "LinkErrorRecoveryCounter",
    "link_downed": "LinkDownedCounter",
    "port_rcv_errors": "PortRcvErrors",
    "port_rcv_remote_physical_errors": "PortRcvRemotePhysicalErrors",
    "port_rcv_switch_relay_errors": "PortRcvSwitchRelayErrors",
    "port_xmit_discards": "PortXmitDiscards",
    "port_xmit_wait": "PortXmitWait",
    "local_link_integrity_errors": "LocalLinkIntegrityErrors",
    "excessive_buffer_overrun_errors": "ExcessiveBufferOverrunErrors",
}


#: Names in perfquery and ibqueryerrors before infiniband-diags 1.6.
_OLD_NAMES = {
    "SymbolErrors": "SymbolErrorCounter",
    "LinkRecovers": "LinkErrorRecoveryCounter",
    "LinkDowned": "LinkDownedCounter",
    "RcvErrors": "PortRcvErrors",
    "RcvRemotePhysErrors": "PortRcvRemotePhysicalErrors",
    "RcvSwRelayErrors": "PortRcvSwitchRelayErrors",
    "XmtDiscards": "PortXmitDiscards",
    "XmtWait": "PortXmitWait",
    "LinkIntegrityErrors": "LocalLinkIntegrityErrors",
    "ExcBufOverrunErrors": "ExcessiveBufferOverrunErrors",
}


class CounterReader:
    """perfquery, ibqueryerrors, and counters of /sys/class/infiniband as `name: value` or `name value`."""

    kind = "port counters"
    _head = re.compile(r"^# Port (?:extended )?counters: Lid (?P<lid>\d+) port (?P<port>\d+)")
    _dotted = re.compile(r"^(?P<name>[A-Za-z]\w+):\.*(?P<value>0x[0-9a-fA-F]+|\d+)\s*$")
    _errors_for = re.compile(r'^Errors for (?:0x[0-9a-f]+ )?"(?P<name>[^"]*)"')
    _guid = re.compile(r"^\s+GUID (?P<guid>0x[0-9a-f]+) port (?P<port>\w+): (?P<list>\[.*)$")
    _rdma = re.compile(r"^link (?P<dev>\w+)/(?P<port>\d+) (?P<list>[a-z]\w* \d.*)$")
    _one = re.compile(r"\[(?P<name>\w+) == (?P<value>\d+)")
    _sysfs = re.compile(
        r"^\s*(?:\S*?(?P<dev>mlx\w+|bnxt\w+|ib\w+)/ports/(?P<port>\d+)/(?:hw_)?counters/)?"
        r"(?P<name>symbol_error|link_error_recovery|link_downed|port_rcv_errors|"
        r"port_rcv_remote_physical_errors|"
        r"port_rcv_switch_relay_errors|port_xmit_discards|port_xmit_wait|local_link_integrity_errors|"
        r"excessive_buffer_overrun_errors|VL15_dropped|out_of_sequence|rx_\w+|np_\w+|rp_\w+|packet_seq_err)"
        r"[:=\s]+(?P<value>\d+)\s*$"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._values: dict[str, tuple[int, int]] | None = None
        self._node = ""
        self._sys: dict[str, dict[str, tuple[int, int]]] = {}

    def feed(self, line: str, number: int) -> bool:
        """Take headings and counters; sysfs counters need no heading."""
        if match := self._head.match(line):
            self._open(number, f"lid {match['lid']}[{match['port']}]", "perfquery")
            return True
        if self._values is not None and (match := self._dotted.match(line)):
            value = match["value"]
            name = _OLD_NAMES.get(match["name"], match["name"])
            self._values[name] = (int(value, 0) if len(value) < 25 else 2**64 - 1, number)
            return True
        if match := self._errors_for.match(line):
            self._node = " ".join(match["name"].split())
            return True
        if match := self._guid.match(line):
            values = {
                _OLD_NAMES.get(m["name"], m["name"]): (int(m["value"][:20]), number)
                for m in self._one.finditer(match["list"])
            }
            self.records.append(
                Counters(
                    file=self.file,
                    line=number,
                    values=values,
                    source="ibqueryerrors",
                    port=f"{self._node or match['guid']}[{match['port']}]",
                )
            )
            return True
        if match := self._rdma.match(line):
            pairs = re.findall(r"([a-z]\w*) (\d{1,20})(?= |$)", match["list"])
            values = {_NAME_IN_SYSFS.get(name, name): (int(value), number) for name, value in pairs}
            port = f"{match['dev']}[{match['port']}]"
            self.records.append(
                Counters(file=self.file, line=number, port=port, values=values, source="sysfs")
            )
            return True
        if re.match(r"##\s*(?:$|Summary:|\d+ ports|Suppressed:)", line):
            return True
        if match := self._sysfs.match(line):
            key = f"{match['dev'] or 'port'}[{match['port'] or 1}]"
            if key not in self._sys:
                self._sys[key] = {}
                self.records.append(
                    Counters(file=self.file, line=number, port=key, values=self._sys[key], source="sysfs")
                )
            self._sys[key][_NAME_IN_SYSFS.get(match["name"], match["name"])] = (
                int(match["value"][:20]),
                number,
            )
            return True
        self._values = None
        return False

    def _open(self, number: int, port: str, source: str) -> None:
        self._values = {}
        self.records.append(
            Counters(file=self.file, line=number, port=port, values=self._values, source=source)
        )
