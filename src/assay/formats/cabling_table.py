"""A cabling list as CSV, one cable a line, as people keep it or scripts write it from LLDP neighbours.

The head names the columns: device, port, remote device and remote port under any of their usual names, and
maybe a rate. A port is a number or ends in one (`swp12`, `Ethernet1/12`). `#` starts a comment.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence

from assay.errors import InputError, UnitError
from assay.formats.cabling import Cabling, FoundCable, FoundDevice, rate_Bps
from assay.units import parse

_COLUMNS = {
    "a": ("a", "device", "local_device", "local", "node", "system", "from", "source", "hostname"),
    "a_port": ("a_port", "port", "local_port", "interface", "local_interface", "from_port", "source_port"),
    "b": (
        "b",
        "remote",
        "remote_device",
        "neighbor",
        "neighbour",
        "remote_system",
        "chassis",
        "to",
        "peer",
        "destination",
    ),
    "b_port": (
        "b_port",
        "remote_port",
        "neighbor_port",
        "neighbour_port",
        "remote_interface",
        "to_port",
        "peer_port",
        "destination_port",
    ),
    "rate": ("rate", "speed", "bandwidth"),
}
_NUMBER = re.compile(r"(\d+)\D*$")


def is_cabling_table(lines: Sequence[str]) -> bool:
    """Whether the first line that is no comment names both ends of a cable."""
    head = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return len(_places(_words(head)).keys() & {"a", "a_port", "b", "b_port"}) == 4


def parse_cabling_table(lines: Iterable[str], file: str) -> Cabling:
    """Devices and cables, one that both its ends list once. Raises `InputError` with file:line."""
    numbered = [
        (number, line) for number, line in enumerate(lines, 1) if line.strip() and not line.startswith("#")
    ]
    if not numbered:
        raise InputError("the file is empty", where=file)
    places = _places(_words(numbered[0][1]))
    for name in ("a", "a_port", "b", "b_port"):
        if name not in places:
            raise InputError(
                f"no column for {name}",
                where=f"{file}:{numbered[0][0]}",
                fix=f"name one of {', '.join(_COLUMNS[name])}",
            )
    devices: dict[str, FoundDevice] = {}
    cables: dict[frozenset[tuple[str, int]], FoundCable] = {}
    at_port: dict[tuple[str, int], FoundCable] = {}
    for number, line in numbered[1:]:
        cable = _cable(_words(line, lower=False), places, file, number)
        ends = frozenset(((cable.a, cable.a_port), (cable.b, cable.b_port)))
        if ends in cables:
            continue
        for device, port in ends:
            if (device, port) in at_port:
                raise InputError(
                    f"port {device}[{port}] has a second cable, "
                    f"the first is on line {at_port[device, port].line}",
                    where=f"{file}:{number}",
                    fix="keep one of the two",
                )
            at_port[device, port] = cable
            devices.setdefault(device, FoundDevice(name=device, adapter=None, line=number))
        cables[ends] = cable
    return Cabling(file=file, devices=tuple(devices.values()), cables=tuple(cables.values()))


def _cable(words: list[str], places: dict[str, int], file: str, number: int) -> FoundCable:
    where = f"{file}:{number}"
    if len(words) <= max(places.values()):
        raise InputError(f"{len(words)} columns, the head has more", where=where, fix="is the line cut off?")
    rate = words[places["rate"]].strip() if "rate" in places else ""
    return FoundCable(
        a=_name(words[places["a"]], where),
        a_port=_port(words[places["a_port"]], where),
        b=_name(words[places["b"]], where),
        b_port=_port(words[places["b_port"]], where),
        line=number,
        rate=rate,
        Bps=_Bps(rate, where),
    )


def _name(text: str, where: str) -> str:
    if not text.strip():
        raise InputError("a device without a name", where=where)
    return text.strip()


def _port(text: str, where: str) -> int:
    match = _NUMBER.search(text.strip())
    if match is None or len(match[1]) > 6:
        raise InputError(f"port {text.strip()!r} has no number", where=where, fix="for example 12 or swp12")
    return int(match[1])


def _Bps(rate: str, where: str) -> float | None:
    known = rate_Bps(rate)
    if known is not None or not rate:
        return known
    try:
        return parse(rate, unit="B/s", where=where).value
    except UnitError as fault:
        raise InputError(fault.what, where=where, fix="for example 400 Gbit/s or 4xNDR") from None


def _words(line: str, *, lower: bool = True) -> list[str]:
    words = next(csv.reader([line]), [])
    return [word.strip().lower().replace(" ", "_") if lower else word.strip() for word in words]


def _places(head: list[str]) -> dict[str, int]:
    return {
        name: head.index(word) for name, words in _COLUMNS.items() for word in words[::-1] if word in head
    }
