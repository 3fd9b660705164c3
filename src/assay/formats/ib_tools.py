"""Ports and GIDs of one host: ibstat, ibstatus, ibv_devinfo, rates in sysfs, show_gids.

Readers take one line after the other and say whether it was theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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


def _lanes_rate(width: str, speed: str) -> float | None:
    """`4X (2)` and `100.0 Gbps (128)` a lane, as ibv_devinfo prints them, in B/s."""
    lanes, rate = re.match(r"(\d{1,2})X", width), re.match(r"(\d{1,4}(?:\.\d+)?) Gbps", speed)
    return int(lanes[1]) * float(rate[1]) * 1e9 / 8 if lanes and rate else None
