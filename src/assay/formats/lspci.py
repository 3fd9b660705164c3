"""`lspci -vvv`, whole or grepped, and `setpci` of ACS registers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
