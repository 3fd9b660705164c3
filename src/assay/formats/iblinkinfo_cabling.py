"""iblinkinfo as cabling: each port under its switch or adapter, with what is at its other end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.errors import InputError
from assay.formats.cabling import (
    Cabling,
    FoundCable,
    FoundDevice,
    LANE_Gbps,
    both_ends,
    device_name,
    rate_Bps,
)
from assay.formats.fabric_links import FabricLink, LinkReader

#: Signalling rate of a lane as iblinkinfo prints it → name of the speed.
_SPEED = {
    "2.5": "SDR",
    "5.0": "DDR",
    "10.0": "QDR",
    "10.3125": "FDR10",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}


def is_iblinkinfo(lines: Sequence[str]) -> bool:
    """Whether these are the first lines of such a file."""
    return any("==(" in line and ")==>" in line for line in lines)


def parse_iblinkinfo(lines: Iterable[str], file: str) -> Cabling:
    """Devices and cables; raises `InputError` with file:line where the file is cut off or mixed up."""
    reader = LinkReader(file)
    for number, line in enumerate(lines, 1):
        if not reader.feed(line.rstrip("\n"), number) and line.strip() and not line.startswith("#"):
            raise InputError(
                f"not a line of iblinkinfo: {line.strip()[:60]!r}",
                where=f"{file}:{number}",
                fix="is the file cut off in the middle of a line?",
            )
    rows = [row for row in reader.records if isinstance(row, FabricLink)]
    devices: dict[str, FoundDevice] = {}
    for row in rows:
        name = device_name(row.owner)
        devices.setdefault(name, FoundDevice(name=name, adapter=row.is_adapter, line=row.line))
    said = [
        (
            FoundCable(
                a=device_name(row.owner),
                a_port=row.port,
                b=device_name(row.peer),
                b_port=row.peer_port,
                line=row.line,
                rate=_rate(row),
                Bps=rate_Bps(_rate(row)),
            ),
            True,
        )
        for row in rows
        if row.up and row.peer_port is not None and row.peer
    ]
    known = {name: device.line for name, device in devices.items()}
    cables = both_ends(file, said, known)
    return Cabling(
        file=file, devices=tuple(devices.values()), cables=cables, ignored=sum(not row.up for row in rows)
    )


def _rate(row: FabricLink) -> str:
    speed = _SPEED.get(row.lane_Gbps, "")
    return f"{row.width}{speed}" if speed in LANE_Gbps else ""
