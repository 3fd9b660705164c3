"""InfiniBand and RoCE tools: ibstat, ibstatus, ibv_devinfo, iblinkinfo, ibqueryerrors, perfquery, sysfs
counters, show_gids. Readers take one line after the other and say whether it was theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Port:
    """One port of one adapter; what a tool does not print stays None."""

    file: str
    line: int
    device: str
    port: int = 1
    model: str | None = None
    state: str | None = None
    physical: str | None = None
    rate_Bps: float | None = None
    rate_text: str = ""
    rate_line: int = 0
    state_line: int = 0
    link_layer: str | None = None
    lid: str | None = None
    mtu: int | None = None
    mtu_line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of one port, by their perfquery names, with their lines."""

    file: str
    line: int
    port: str
    values: Mapping[str, tuple[int, int]]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLink:
    """One row of iblinkinfo: an end, its state, its peer if any, and what the link could be."""

    file: str
    line: int
    text: str
    owner: str
    is_adapter: bool
    port: int
    up: bool
    peer: str
    could_be: str | None
    peer_port: int | None = None
    width: str = ""
    lane_Gbps: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gid:
    """One row of show_gids."""

    file: str
    line: int
    text: str
    device: str
    index: int
    gid: str
    ipv4: str | None
    version: str


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


class PortReader:
    """ibstat (CA blocks), ibstatus (device blocks) and ibv_devinfo (hca_id blocks)."""

    kind = "ibstat"
    _ca = re.compile(r"^CA '(?P<dev>[^']+)'")
    _status = re.compile(r"^Infiniband device '(?P<dev>[^']+)' port (?P<port>\d+) status:")
    _devinfo = re.compile(r"^hca_id:\s*(?P<dev>\S+)")
    _value = re.compile(r"^\s+(?P<key>[A-Za-z_ ]+?):\s*(?P<value>.*)$")
    _sysfs = re.compile(
        r"^\S*infiniband/(?P<dev>\w+)/ports/(?P<port>\d+)/(?P<key>rate|state|phys_state|link_layer):(?P<value>.*)$"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._device: str | None = None
        self._model: str | None = None
        self._port: Port | None = None
        self._command_device: str | None = None

    def feed(self, line: str, number: int) -> bool:
        """Take a heading and the indented lines under it."""
        if match := self._ca.match(line) or self._devinfo.match(line):
            self._device, self._model, self._port = match["dev"], None, None
            return True
        if match := self._status.match(line):
            self._device, self._model = match["dev"], None
            self._open(number, int(match["port"][:4]))
            return True
        if match := re.match(r"^\s*(?:active|max)_mtu:\s+(?P<mtu>\d+) \(\d\)", line):
            return self._mtu(line, number, int(match["mtu"][:6]))
        if match := self._sysfs.match(line):
            return self._from_sysfs(match, number)
        if self._device is None:
            return False
        if not line.strip():
            return True
        if match := re.match(r"^\s+(?:Port|port:)\s+(?P<port>\d+):?\s*$", line):
            self._open(number, int(match["port"][:4]))
            return True
        if match := self._value.match(line):
            self._set(match["key"].strip(), match["value"].strip(), number)
            return True
        self._device = self._port = None
        return False

    def command(self, command: str) -> None:
        """A pasted command line names the device of `ibv_devinfo -d mlx5_0 | grep mtu`."""
        found = re.search(r"ibv_devinfo\b.*-d\s*(\S+)", command)
        self._command_device = found[1] if found else None
        self._device = self._port = None

    def _mtu(self, line: str, number: int, mtu: int) -> bool:
        if self._port is None:
            if self._command_device is None:
                return False
            self._device = self._command_device
            self._open(number, 1)
        if "active" in line and self._port is not None:
            self._port.mtu, self._port.mtu_line = mtu, number
        return True

    def _from_sysfs(self, match: re.Match[str], number: int) -> bool:
        """`grep . /sys/class/infiniband/*/ports/*/rate`: one value of one port a line."""
        place = match["dev"], int(match["port"][:4])
        if self._port is None or (self._port.device, self._port.port) != place:
            known = {(p.device, p.port): p for p in self.records if isinstance(p, Port)}
            self._device, self._port = match["dev"], known.get(place)
            if self._port is None:
                self._open(number, place[1])
        if self._port is not None and match["key"] == "rate":
            self._port.state = self._port.state or "ACTIVE"  # a port that is down has the lowest rate
        self._set(match["key"], match["value"].strip(), number)
        return True

    def _open(self, number: int, port: int) -> None:
        self._port = Port(
            file=self.file, line=number, device=self._device or "", port=port, model=self._model
        )
        self.records.append(self._port)

    def _set(self, key: str, value: str, number: int) -> None:
        if key in ("CA type", "vendor_part_id") and self._port is None:
            self._model = value if key == "CA type" else f"MT{value}"
            return
        port, key = self._port, key.lower()
        if port is None:
            return
        if key == "state":
            port.state, port.state_line = (
                value.split(":")[-1].strip().replace("PORT_", "").split(" ")[0],
                number,
            )
        elif key in ("physical state", "phys state", "phys_state"):
            port.physical = value.split(":")[-1].strip()
        elif key == "rate" and (found := re.match(r"(\d+(?:\.\d+)?)", value)):
            port.rate_Bps, port.rate_text, port.rate_line = float(found[1]) * 1e9 / 8, value, number
        elif key == "active_width":
            port.rate_text = value
        elif key == "active_speed" and port.rate_Bps is None and (rate := _lanes_rate(port.rate_text, value)):
            port.rate_Bps, port.rate_text, port.rate_line = rate, f"{port.rate_text}, {value} a lane", number
        elif key in ("link layer", "link_layer"):
            port.link_layer = value
        elif key in ("base lid", "port_lid"):
            port.lid = value


def _lanes_rate(width: str, speed: str) -> float | None:
    """`4X (2)` and `100.0 Gbps (128)` a lane, as ibv_devinfo prints them, in B/s."""
    lanes, rate = re.match(r"(\d{1,2})X", width), re.match(r"(\d{1,4}(?:\.\d+)?) Gbps", speed)
    return int(lanes[1]) * float(rate[1]) * 1e9 / 8 if lanes and rate else None


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
            self._values[match["name"]] = (int(value, 0) if len(value) < 25 else 2**64 - 1, number)
            return True
        if match := self._errors_for.match(line):
            self._node = " ".join(match["name"].split())
            return True
        if match := self._guid.match(line):
            values = {m["name"]: (int(m["value"][:20]), number) for m in self._one.finditer(match["list"])}
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


class LinkReader:
    """iblinkinfo: rows under `CA:` and `Switch:` headings, and the one-line form."""

    kind = "iblinkinfo"
    _owner = re.compile(r"^(?P<kind>CA|Switch|Switch:?)\s*:\s*(?:0x[0-9a-f]+ )?(?P<name>.+?):\s*$")
    _row = re.compile(
        r"^\s*(?:0x[0-9a-f]+\s+)?(?:\"(?P<name>[^\"]*)\"\s+)?(?P<lid>\d+)\s+(?P<port>\d+)\[\s*\] "
        r"==\((?P<state>[^)]*)\)==>\s*"
        r"(?P<rest>.*)$"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._name, self._adapter = "", False

    def feed(self, line: str, number: int) -> bool:
        """Take headings and rows."""
        if (match := self._owner.match(line)) and "==" not in line:
            self._name, self._adapter = match["name"].strip(), match["kind"] == "CA"
            return True
        if (match := self._row.match(line)) is None:
            return False
        peer = re.search(r'(?:(\d+)\[\s*\] )?"([^"]*)"', match["rest"])
        rate = re.match(r"\s*(\d+X)\s+([\d.]+) Gbps", match["state"])
        could = re.search(r"\((?:Could be|could be) ([^)]*)\)|Could be ([\d. ]+Gbps)", match["rest"])
        self.records.append(
            FabricLink(
                file=self.file,
                line=number,
                text=line.strip()[:300],
                owner=match["name"] or self._name,
                is_adapter=self._adapter,
                port=int(match["port"][:5]),
                up="LinkUp" in match["state"],
                peer=(peer[2] if peer else "").strip(),
                could_be=(could[1] or could[2]) if could else None,
                peer_port=int(peer[1][:5]) if peer and peer[1] else None,
                width=rate[1].lower() if rate else "",
                lane_Gbps=rate[2] if rate else "",
            )
        )
        return True


class GidReader:
    """show_gids: a table of device, port, index, GID, IPv4, version and interface."""

    kind = "show_gids"
    _row = re.compile(
        r"^(?P<dev>\w+)\s+(?P<port>\d+)\s+(?P<index>\d+)\s+(?P<gid>[0-9a-f:]{15,})\s+"
        r"(?:(?P<ip>\d+\.\d+\.\d+\.\d+)\s+)?"
        r"(?P<version>v\d)\s+(?P<iface>\S+)\s*$"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []

    def feed(self, line: str, number: int) -> bool:
        """Take rows, the head, and the count under them."""
        if match := self._row.match(line):
            self.records.append(
                Gid(
                    file=self.file,
                    line=number,
                    text=line.strip(),
                    device=match["dev"],
                    gid=match["gid"],
                    index=int(match["index"][:5]),
                    ipv4=match["ip"],
                    version=match["version"],
                )
            )
            return True
        return bool(re.match(r"^(?:DEV\s+PORT\s+INDEX|---\s+---|n_gids_found=)", line))


#: Bits of the ACS control register, from the lowest; PCI Express base specification, 7.7.11.
_ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")


@dataclass(slots=True, kw_only=True)
class PciDevice:
    """One device of `lspci -vvv`; without a heading `address` is empty (a grep of ACSCtl lines)."""

    file: str
    line: int
    address: str
    name: str
    acs: tuple[str, int] | None = None
    cap: tuple[str, str] | None = None
    sta: tuple[str, str, int, str] | None = None
    ats: bool = False
    lines: dict[str, int] = field(default_factory=dict)


class LspciReader:
    """`lspci -vvv`, whole or grepped: link state, ACS control, ATS."""

    kind = "lspci"
    _device = re.compile(
        r"^(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) (?P<name>[A-Z0-9].*)$"
    )
    _acs = re.compile(r"ACSCtl:\s*(?P<bits>SrcValid[+-].*)")
    _cap = re.compile(r"LnkCap:.*?Speed (?P<speed>[\d.]+)GT/s.*?Width x(?P<width>\d+)")
    _sta = re.compile(r"LnkSta:\s*Speed (?P<speed>[\d.]+)GT/s(?P<a>[^,]*), Width x(?P<width>\d+)(?P<b>[^,]*)")

    _register = re.compile(
        r"^(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) "
        r"(?:@\w+ )?= (?P<bits>[0-9a-f]{4})\s*$"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._current: PciDevice | None = None
        self._acs_asked = False

    def command(self, command: str) -> None:
        """A pasted `setpci -s … ECAP_ACS+6.w` says that the numbers under it are ACS control registers."""
        self._acs_asked = "ECAP_ACS" in command

    def feed(self, line: str, number: int) -> bool:
        """Take a device's heading and the lines under it."""
        if self._acs_asked and (match := self._register.match(line)):
            bits = int(match["bits"], 16)
            shown = " ".join(f"{name}{'+' if bits >> i & 1 else '-'}" for i, name in enumerate(_ACS_BITS))
            self.records.append(
                PciDevice(file=self.file, line=number, address=match["address"], name="", acs=(shown, number))
            )
            return True
        if match := self._device.match(line):
            self._current = PciDevice(
                file=self.file, line=number, address=match["address"], name=match["name"]
            )
            self.records.append(self._current)
            return True
        if match := self._acs.search(line):
            if self._current is None or self._current.acs is not None:
                self._bare(number)
            if self._current is not None:
                self._current.acs = (match["bits"].strip(), number)
            if self._current is not None and not self._current.address:
                self._current = None
            return True
        current = self._current
        if match := re.search(r"ATSCtl:\s*Enable(?P<on>[+-])", line):
            if current is None:
                current = self._bare(number)
            current.ats = match["on"] == "+"
            self._current = current if current.address else None
            return True
        if current is None or not line.startswith((" ", "\t")):
            self._current = None
            return False
        if match := self._cap.search(line):
            current.cap = (match["speed"], match["width"])
        elif match := self._sta.search(line):
            current.sta = (match["speed"], match["width"], number, (match["a"] + match["b"]).strip())
        return True

    def _bare(self, number: int) -> PciDevice:
        self._current = PciDevice(file=self.file, line=number, address="", name="")
        self.records.append(self._current)
        return self._current
