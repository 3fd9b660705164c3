"""opensm-subnet.lst: a line for each end of each cable, as opensm writes it after a sweep.

{ SW Ports:10 … NodeGUID:0000000000100000 … {leaf000} LID:0002 PN:01 } { CA … {host0} LID:0001 PN:01 }
  PHY=4x LOG=ACT SPD=50
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay.errors import InputError
from assay.formats.cabling import Cabling, FoundCable, FoundDevice, both_ends, device_name, rate_Bps

_END = (
    r"\{{ (?P<kind{n}>CA|SW|RT)(?:-SM)? Ports:\w+ .*?NodeGUID:(?P<guid{n}>\w+) .*?"
    r"\{{(?P<name{n}>[^}}]*)\}} LID:(?P<lid{n}>\w+) PN:(?P<port{n}>\w+) \}}"
)
_LINE = re.compile(
    rf"^{_END.format(n=1)} {_END.format(n=2)} PHY=(?P<width>\w+) LOG=(?P<state>\w+) SPD=(?P<speed>[\d.]+)"
)
#: Gbit/s of a lane as opensm rounds it → name of the speed.
_SPEED = {
    "2.5": "SDR",
    "5": "DDR",
    "10": "QDR",
    "FDR10": "FDR10",
    "14": "FDR",
    "25": "EDR",
    "50": "HDR",
    "100": "NDR",
    "200": "XDR",
}


def is_opensm_subnet(lines: Sequence[str]) -> bool:
    """Whether these are the first lines of such a file."""
    return any(_LINE.match(line) for line in lines)


def parse_opensm_subnet(lines: Iterable[str], file: str) -> Cabling:
    """Devices and cables; raises `InputError` with file:line where the file is cut off or mixed up."""
    devices: dict[str, FoundDevice] = {}
    said: list[tuple[FoundCable, bool]] = []
    lids: dict[int, str] = {}
    for number, raw in enumerate(lines, 1):
        line = raw.strip()
        if not line:
            continue
        match = _LINE.match(line)
        if match is None:
            raise InputError(
                f"not a line of opensm-subnet.lst: {line[:60]!r}",
                where=f"{file}:{number}",
                fix="is the file cut off in the middle of a line?",
            )
        name = device_name(match["name1"])
        adapter = match["kind1"] != "SW"
        devices.setdefault(
            name, FoundDevice(name=name, adapter=adapter, line=number, guid=match["guid1"].lower())
        )
        if adapter:
            lids[int(match["lid1"], 16)] = name
        rate = f"{match['width'].lower()}{_SPEED.get(match['speed'], '')}"
        cable = FoundCable(
            a=name,
            a_port=int(match["port1"], 16),
            b=device_name(match["name2"]),
            b_port=int(match["port2"], 16),
            line=number,
            rate=rate,
            Bps=rate_Bps(rate),
        )
        said.append((cable, True))
    known = {name: device.line for name, device in devices.items()}
    return Cabling(
        file=file, devices=tuple(devices.values()), cables=both_ends(file, said, known), adapter_at=lids
    )
