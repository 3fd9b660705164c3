"""Forwarding tables of InfiniBand switches: dump_fts, dump_lfts, ibroute, and opensm's own dump.

Unicast lids [0x0-0x4c] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000100070 (leaf007):
0x0001 009 : (Channel Adapter portguid 0x00000000002000c1: 'host00000')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.errors import InputError

_HEAD = re.compile(
    r"^Unicast lids \[0x[0-9a-f]+-0x[0-9a-f]+\] of switch .*?guid (?P<guid>0x[0-9a-f]+) \((?P<name>.*)\):"
)
_ROW = re.compile(
    r"^0x(?P<lid>[0-9a-f]+)\s+(?P<port>\d+|UNREACHABLE)\s*:?\s*"
    r"(?:\((?P<kind>Channel Adapter|Switch|Router)(?: portguid (?P<guid>0x[0-9a-f]+))?: '(?P<name>.*)'\))?"
)
_OPENSM_HEAD = re.compile(r"^osm_ucast_mgr_dump_ucast_routes: Switch (?P<guid>0x[0-9a-f]+)")
_OPENSM_ROW = re.compile(r"^0x(?P<lid>[0-9A-Fa-f]+)\s*:\s*(?P<port>\d+|UNREACHABLE)")
_END = re.compile(r"^\d+ (?:valid )?lids dumped")
_IGNORED = re.compile(r"^\s*(?:Lid\s+Out|Port\s+Info|LID\s*:|Multicast|MLid|0x[cC]\w{3}\s|\d+ valid mlids|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRoutes:
    """One switch's table: the port out for each LID (0 is itself), and the names of adapters by LID."""

    guid: str
    name: str
    line: int
    port: dict[int, int]
    adapter: dict[int, str]


def is_ib_routes(lines: Sequence[str]) -> bool:
    """Whether these are the first lines of such a file."""
    return any(_HEAD.match(line) or _OPENSM_HEAD.match(line) for line in lines)


def parse_ib_routes(lines: Iterable[str], file: str) -> tuple[SwitchRoutes, ...]:
    """The tables in the file's order; raises `InputError` with file:line where it is cut off."""
    found: list[SwitchRoutes] = []
    closed = True
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip()
        if match := _HEAD.match(line) or _OPENSM_HEAD.match(line):
            groups = match.groupdict()
            found.append(
                SwitchRoutes(
                    guid=_plain(groups["guid"]),
                    name=groups.get("name") or "",
                    line=number,
                    port={},
                    adapter={},
                )
            )
            closed = match.re is _OPENSM_HEAD
        elif match := _ROW.match(line) or _OPENSM_ROW.match(line):
            if not found:
                raise InputError("a route before any switch", where=f"{file}:{number}")
            row = match.groupdict()
            if row["port"] != "UNREACHABLE":
                found[-1].port[int(row["lid"], 16)] = int(row["port"])
            if row.get("kind") == "Channel Adapter":
                found[-1].adapter[int(row["lid"], 16)] = row["name"].strip()
        elif _END.match(line):
            closed = True
        elif not _IGNORED.match(line):
            raise InputError(
                f"not a line of a forwarding table: {line[:60]!r}",
                where=f"{file}:{number}",
                fix="is the file cut off in the middle of a line?",
            )
    if not closed:
        raise InputError(
            f"the table of {found[-1].name or found[-1].guid} has no end",
            where=f"{file}:{found[-1].line}",
            fix="is the file cut off? run dump_fts again and keep all of its output",
        )
    return tuple(found)


def _plain(guid: str) -> str:
    """A GUID as ibnetdiscover's ids end: 16 digits, lower case."""
    return f"{int(guid, 16):016x}"
