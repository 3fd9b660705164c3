"""A network from what a tool listed: who is an adapter, which tier a switch is of.

A switch's tier is its name's where that says leaf, spine or core; otherwise leaves are the switches with many
adapters, spines those next to leaves, cores those next to spines. A few adapters on a spine (a manager's,
or a misplaced one) do not make it a leaf.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.errors import InputError
from assay.fabric.topology.network import Cable, Device, Network, node_and_rail
from assay.formats.cabling import Cabling, FoundDevice

#: A switch with fewer adapters than this part of what the fullest has is no leaf.
_LEAF_FRAC = 0.25
_WORDS = {"leaf": 1, "tor": 1, "spine": 2, "agg": 2, "core": 3, "super-spine": 3}
#: A rate for cables of which the file says none: only ratios of loads count then.
UNKNOWN_Bps = 1.0


def found_network(cabling: Cabling, tiers: Mapping[str, int] | None = None) -> Network:
    """The network of a discovery file; `tiers` are those that a design gives by name. Raises `InputError`."""
    if not cabling.devices:
        raise InputError("no device is in the file", where=cabling.file, fix="run the discovery again")
    adapters = {device.name for device in cabling.devices if _is_adapter(device, cabling)}
    switches = [device.name for device in cabling.devices if device.name not in adapters]
    if not switches:
        raise InputError(f"{len(adapters)} adapters and no switch", where=cabling.file)
    level = _tiers(switches, adapters, [(c.a, c.b) for c in cabling.cables], tiers or {})
    devices: dict[str, Device] = {}
    for device in cabling.devices:
        if device.name in adapters:
            node, rail = node_and_rail(device.name)
            known = Device(name=device.name, tier=0, node=node, rail=rail, guid=device.guid, line=device.line)
        else:
            known = Device(name=device.name, tier=level[device.name], guid=device.guid, line=device.line)
        devices[device.name] = known
    cables = tuple(
        Cable(
            a=c.a,
            a_port=c.a_port,
            b=c.b,
            b_port=c.b_port,
            Bps=UNKNOWN_Bps if c.Bps is None else c.Bps,
            rate=c.rate,
            line=c.line,
        )
        for c in cabling.cables
    )
    return Network(cabling.file, devices, cables)


def _is_adapter(device: FoundDevice, cabling: Cabling) -> bool:
    """As the tool says; else what has a rail in its name, or a single cable, is an adapter."""
    if device.adapter is not None:
        return device.adapter
    if node_and_rail(device.name)[1] is not None:
        return True
    return sum(device.name in (c.a, c.b) for c in cabling.cables) == 1


def _tiers(
    switches: list[str], adapters: set[str], pairs: list[tuple[str, str]], told: Mapping[str, int]
) -> dict[str, int | None]:
    neighbours: dict[str, list[str]] = {name: [] for name in switches}
    for a, b in pairs:
        for here, there in ((a, b), (b, a)):
            if here in neighbours:
                neighbours[here].append(there)
    level: dict[str, int | None] = {name: told.get(name) or _named_tier(name) for name in switches}
    hosts = {name: sum(there in adapters for there in neighbours[name]) for name in switches}
    most = max(hosts.values())
    for name in switches:
        if level[name] is None and hosts[name] and hosts[name] >= _LEAF_FRAC * most:
            level[name] = 1
    for tier in (2, 3):
        for name in switches:
            below = (level.get(there) == tier - 1 for there in neighbours[name])
            if level[name] is None and any(below):
                level[name] = tier
    return level


def _named_tier(name: str) -> int | None:
    said = name.lower()
    return next((tier for word, tier in sorted(_WORDS.items(), reverse=True) if word in said), None)
