"""Links of a fabric as the subnet manager sees them: iblinkinfo, and the ports of ibnetdiscover."""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.errors import InputError
from assay.formats.ibnetdiscover import parse_ibnetdiscover


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


class NetReader:
    """ibnetdiscover: gathers its lines, which only together tell both ends of a cable."""

    kind = "ibnetdiscover"
    _first = re.compile(r"^(?:vendid=|Switch\s+\d+\s+\"|Ca\s+\d+\s+\"|# Topology file)")
    _more = re.compile(
        r"^(?:\s*$|#|\[\d+\]|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=|(?:Switch|Ca|Rt)\s)"
    )

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._lines: list[str] = []
        self._inside = False

    def feed(self, line: str, number: int) -> bool:
        """Take every line of the listing; blank ones keep the numbers right."""
        if not self._inside and not self._first.match(line):
            return False
        self._inside = bool(self._more.match(line) or self._first.match(line))
        if self._inside:
            self._lines += [""] * (number - 1 - len(self._lines)) + [line]
        return self._inside

    def finish(self) -> None:
        """A listing that is cut off says nothing about cables."""
        if self._lines:
            try:
                self.records.append(parse_ibnetdiscover(self._lines, self.file))
            except InputError:
                return
