"""Cabling as other programs list it: devices, and cables with both ends, each with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from assay.errors import InputError

#: Gbit/s of data of one lane, by the name of the speed (InfiniBand Architecture Specification).
LANE_Gbps = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 13.64,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
_RATE = re.compile(r"(?P<lanes>\d+)x(?P<speed>[A-Z]+\d*)", re.IGNORECASE)
_MANAGED = re.compile(r"MF0;(?P<host>[^:]+):[^/]+(?P<part>(?:/\w+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice:
    """One adapter or switch. `adapter` is None where the tool does not say which it is."""

    name: str
    adapter: bool | None
    line: int
    guid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCable:
    """One cable; `rate` as printed, `Bps` one direction or None where nothing is said."""

    a: str
    a_port: int
    b: str
    b_port: int
    line: int
    rate: str = ""
    Bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cabling:
    """What one file says; `ignored` counts what takes no part (aggregation nodes, ports without a cable).

    `adapter_at` maps an adapter's LID to its name, where the file says it.
    """

    file: str
    devices: tuple[FoundDevice, ...]
    cables: tuple[FoundCable, ...]
    ignored: int = 0
    adapter_at: Mapping[int, str] = field(default_factory=dict)


def device_name(said: str) -> str:
    """A managed switch's name without what its firmware puts around it: `MF0;leaf7:MQM9700/U1` is leaf7."""
    match = _MANAGED.fullmatch(said.strip())
    if match is None:
        return said.strip()
    part = match["part"]
    return match["host"] if part in ("/U1", "") else f"{match['host']}{part}"


def rate_Bps(rate: str) -> float | None:
    """B/s, one direction, of `4xHDR`; None for a rate of another kind."""
    match = _RATE.fullmatch(rate.strip())
    if match is None or match["speed"].upper() not in LANE_Gbps:
        return None
    return int(match["lanes"][:3]) * LANE_Gbps[match["speed"].upper()] * 1e9 / 8


def both_ends(
    file: str, said: list[tuple[FoundCable, bool]], known: dict[str, int]
) -> tuple[FoundCable, ...]:
    """Cables that a tool lists once from each end, as one each.

    `said` pairs a cable as seen from its end `a` with whether the other end must say it too; `known` are the
    devices that the file describes, by line. Raises `InputError` for a device that is never described or an
    end that disagrees: the file was cut off, or is of two times.
    """
    seen: dict[tuple[str, int], FoundCable] = {}
    for cable, _ in said:
        end = (cable.a, cable.a_port)
        if end in seen:
            raise InputError(
                f"port {cable.a}[{cable.a_port}] is listed twice, first on line {seen[end].line}",
                where=f"{file}:{cable.line}",
                fix="is the file put together from two?",
            )
        seen[end] = cable
    kept: dict[frozenset[tuple[str, int]], FoundCable] = {}
    for cable, must in said:
        if cable.b not in known:
            raise InputError(
                f"{cable.a}[{cable.a_port}] is cabled to {cable.b!r}, which the file never describes",
                where=f"{file}:{cable.line}",
                fix="is the file cut off? run the tool again and keep all of its output",
            )
        back = seen.get((cable.b, cable.b_port))
        if must and (back is None or (back.b, back.b_port) != (cable.a, cable.a_port)):
            other = f"{back.b}[{back.b_port}] (line {back.line})" if back else "nothing"
            raise InputError(
                f"{cable.a}[{cable.a_port}] says {cable.b}[{cable.b_port}], "
                f"but {cable.b}[{cable.b_port}] says {other}",
                where=f"{file}:{cable.line}",
                fix="is the file cut off, or put together from two? run the tool again",
            )
        kept.setdefault(frozenset(((cable.a, cable.a_port), (cable.b, cable.b_port))), cable)
    return tuple(kept.values())
