"""Slurm's topology.conf: switches with the nodes or the switches below them, in Slurm's ranges.

SwitchName=leaf0 Nodes=node[00-31]
SwitchName=spine0 Switches=leaf[0-7]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from assay.errors import InputError, did_you_mean
from assay.formats.cabling import Cabling, FoundCable, FoundDevice

_PAIR = re.compile(r"(\w+)=(\S+)")
_RANGE = re.compile(r"(?P<head>[^\[\]]*)\[(?P<list>[^\]]*)\](?P<tail>.*)")
_KEYS = ("SwitchName", "Nodes", "Switches", "LinkSpeed", "BlockName", "BlockSizes")
_MOST = 100_000


def is_slurm_topology(lines: Sequence[str]) -> bool:
    """Whether a line names a switch with what is below it."""
    return any(re.match(r"\s*SwitchName=\S+\s", line) for line in lines)


def parse_slurm_topology(lines: Iterable[str], file: str) -> Cabling:
    """Who hangs on which switch; ports are counted in the file's order, as the file names none."""
    devices: dict[str, FoundDevice] = {}
    below: list[tuple[str, str, int]] = []
    for number, raw in enumerate(lines, 1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        said = dict(_PAIR.findall(line))
        unknown = next((key for key in said if key not in _KEYS), None)
        if unknown or "SwitchName" not in said:
            raise InputError(
                f"unknown key {unknown!r}" if unknown else f"no SwitchName in {line[:60]!r}",
                where=f"{file}:{number}",
                fix=did_you_mean(unknown or "SwitchName", _KEYS),
            )
        for switch in expanded(said["SwitchName"], f"{file}:{number}"):
            if switch in devices and devices[switch].adapter is False:
                raise InputError(
                    f"switch {switch} is named twice, first on line {devices[switch].line}",
                    where=f"{file}:{number}",
                )
            devices[switch] = FoundDevice(name=switch, adapter=False, line=number)
            for key in ("Nodes", "Switches"):
                names = list(expanded(said[key], f"{file}:{number}")) if key in said else []
                below.extend((switch, name, number) for name in names)
                if key == "Nodes":
                    devices |= {n: FoundDevice(name=n, adapter=True, line=number) for n in names}
    used: dict[str, int] = {}
    cables = []
    for upper, lower, number in below:
        if lower not in devices:
            raise InputError(
                f"switch {lower!r} is below {upper}, but is not described",
                where=f"{file}:{number}",
                fix=did_you_mean(lower, devices),
            )
        for name in (upper, lower):
            used[name] = used.get(name, 0) + 1
        cables.append(FoundCable(a=lower, a_port=used[lower], b=upper, b_port=used[upper], line=number))
    return Cabling(file=file, devices=tuple(devices.values()), cables=tuple(cables))


def expanded(text: str, where: str) -> Iterator[str]:
    """The names of a host list: `node[00-03,7],gpu1` → node00 … node03, node7, gpu1."""
    for part in _split(text):
        match = _RANGE.fullmatch(part)
        if match is None:
            if "[" in part or "]" in part:
                raise InputError(f"a bracket is open in {part!r}", where=where)
            yield part
            continue
        for piece in match["list"].split(","):
            first, dash, last = piece.partition("-")
            last = last if dash else first
            if not (first.isdigit() and last.isdigit()) or int(last) - int(first) not in range(_MOST):
                raise InputError(f"{piece!r} is no range of numbers", where=where, fix="for example [00-31]")
            for number in range(int(first), int(last) + 1):
                yield from expanded(f"{match['head']}{number:0{len(first)}d}{match['tail']}", where)


def _split(text: str) -> Iterator[str]:
    """Parts between commas that stand outside of brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]
