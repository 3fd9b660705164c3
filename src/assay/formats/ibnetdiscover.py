"""ibnetdiscover: a block for each switch and adapter, a line for each of its ports that has a cable.

Switch  16 "S-0000000000100070"  # "leaf007" base port 0 lid 37 lmc 0
[1]     "H-0000000000200440"[1](200441)  # "host00056" lid 26 4xHDR
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay.errors import InputError
from assay.formats.cabling import Cabling, FoundCable, FoundDevice, both_ends, device_name, rate_Bps

_HEAD = re.compile(r'^(?P<kind>Switch|Ca|Rt)\s+(?P<ports>\d+)\s+"(?P<id>[^"]+)"\s*#\s*"(?P<name>[^"]*)"')
_PORT = re.compile(
    r'^\[(?P<port>\d+)\](?:\[ext \d+\])?(?:\([0-9a-f]+\))?\s+"(?P<peer>[^"]+)"\[(?P<peer_port>\d+)\]'
    r"(?P<rest>.*)$"
)
_LID = re.compile(r"#\s*lid (\d+)\b")
_SPEED = re.compile(r"\b(\d+x[A-Z]+\d*)\b")
_KEYS = re.compile(r"^(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=")
#: What SHARP puts on a switch beside its ports.
_AGGREGATION = "Aggregation Node"


def is_ibnetdiscover(lines: Sequence[str]) -> bool:
    """Whether these are the first lines of such a file."""
    return any(_HEAD.match(line) for line in lines)


def parse_ibnetdiscover(lines: Iterable[str], file: str) -> Cabling:
    """Devices and cables; raises `InputError` with file:line where the file is cut off or mixed up."""
    names: dict[str, str] = {}
    devices: dict[str, FoundDevice] = {}
    said: list[tuple[str, int, str, int, int, str]] = []
    lids: dict[int, str] = {}
    here: str | None = None
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip()
        if match := _HEAD.match(line):
            here = match["id"]
            if here in devices:
                raise InputError(
                    f"{here} is described twice, first on line {devices[here].line}",
                    where=f"{file}:{number}",
                    fix="is the file put together from two?",
                )
            names[here] = device_name(match["name"]) or here
            devices[here] = FoundDevice(
                name=names[here], adapter=match["kind"] != "Switch", line=number, guid=here.partition("-")[2]
            )
        elif match := _PORT.match(line):
            if here is None:
                raise InputError("a port before any switch or adapter", where=f"{file}:{number}")
            if lid := _LID.search(match["rest"]):
                lids[int(lid[1])] = here
            speed = _SPEED.findall(match["rest"].rpartition('"')[2])
            said.append(
                (
                    here,
                    int(match["port"]),
                    match["peer"],
                    int(match["peer_port"]),
                    number,
                    speed[-1] if speed else "",
                )
            )
        elif line and not line.startswith("#") and not _KEYS.match(line):
            raise InputError(
                f"not a line of ibnetdiscover: {line[:60]!r}",
                where=f"{file}:{number}",
                fix="is the file cut off in the middle of a line?",
            )
    return _joined(file, devices, names, said, lids)


def _joined(
    file: str,
    devices: dict[str, FoundDevice],
    names: dict[str, str],
    said: list[tuple[str, int, str, int, int, str]],
    lids: dict[int, str],
) -> Cabling:
    """Cables by the devices' names; a name that several devices share gets the end of its GUID."""
    times: dict[str, int] = {}
    for name in names.values():
        times[name] = times.get(name, 0) + 1
    called = {key: name if times[name] == 1 else f"{name} {key[-6:]}" for key, name in names.items()}
    skipped = {key for key, name in names.items() if _AGGREGATION in name}
    cables = [
        (
            FoundCable(
                a=called[a],
                a_port=a_port,
                b=called.get(b, b),
                b_port=b_port,
                line=line,
                rate=rate,
                Bps=rate_Bps(rate),
            ),
            True,
        )
        for a, a_port, b, b_port, line, rate in said
        if a not in skipped and b not in skipped
    ]
    kept = [key for key in devices if key not in skipped]
    return Cabling(
        file=file,
        devices=tuple(
            FoundDevice(
                name=called[key], adapter=devices[key].adapter, line=devices[key].line, guid=devices[key].guid
            )
            for key in kept
        ),
        cables=both_ends(file, cables, {called[key]: devices[key].line for key in kept}),
        ignored=len(skipped),
        adapter_at={lid: called[key] for lid, key in lids.items() if key in kept and devices[key].adapter},
    )
