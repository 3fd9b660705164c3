"""Failures as people name them, and the network without what failed.

link:leaf3-spine1   one cable of the bundle between two switches; link:leaf3[17] the cable in that port
switch:spine2       a switch with all its cables
rail:4              all adapters of a rail
nic:node07/mlx5_3   one adapter
gpu:node89/1@0.8    a GPU that runs at a part of its speed; without @ it is dead, and its node with it
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.errors import InputError, unknown_name
from assay.fabric.topology.network import Cable, Device, Network, plain_name

KINDS = ("link", "switch", "rail", "nic", "gpu")
_FORM = re.compile(r"(?P<kind>\w+):(?P<what>[^@]+)(?:@(?P<part>[^@]+))?")
_PORT = re.compile(r"(?P<device>.+)\[(?P<port>\d{1,4})\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure; `part` is what is left of the speed, 0 for dead."""

    kind: str
    what: str
    part: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind}:{self.what}" + (f"@{self.part:g}" if self.part else "")


def parse_failure(text: str, *, degraded: bool = False) -> Failure:
    """Read the written form; `degraded` wants a part. Raises `InputError` with the forms that there are."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"cannot read the failure {text!r}",
            fix="write link:leaf3-spine1, switch:spine2, rail:4, nic:node07/mlx5_3 or gpu:node89/1@0.8",
        )
    if match["kind"] not in KINDS:
        raise unknown_name("kind of failure", match["kind"], KINDS)
    part = _part(match["part"], text)
    if degraded and not part:
        raise InputError(f"{text!r} says no part of the speed that is left", fix=f"write {text}@0.5")
    return Failure(kind=match["kind"], what=match["what"].strip(), part=part)


def broken(network: Network, failures: Sequence[Failure]) -> Network:
    """The network with failed cables gone and degraded ones slower; GPUs do not change it.

    Raises `InputError` for a device that is not there, with the nearest names.
    """
    for failure in failures:
        hit = {cable.ends for cable in _cables(network, failure)}
        if failure.part:
            slowed = (replace(c, Bps=c.Bps * failure.part) if c.ends in hit else c for c in network.cables)
            network = Network(network.name, network.devices, tuple(slowed))
        else:
            network = network.without([cable for cable in network.cables if cable.ends in hit])
    return network


def gpu_part(failures: Sequence[Failure]) -> float:
    """The speed of the slowest GPU that still runs: all others wait for it."""
    return min((failure.part for failure in failures if failure.kind == "gpu" and failure.part), default=1.0)


def lost_nodes(network: Network, failures: Sequence[Failure]) -> list[str]:
    """Nodes that are out because a GPU of theirs is dead."""
    found = []
    for failure in failures:
        if failure.kind == "gpu":
            node = _node(network, failure.what.rpartition("/")[0] or failure.what)
            if not failure.part:
                found.append(node)
    return found


def _cables(network: Network, failure: Failure) -> list[Cable]:
    if failure.kind == "link":
        return [_link(network, failure.what)]
    if failure.kind == "switch":
        device = network.named(failure.what)
        if device.is_adapter:
            raise InputError(f"{device.name} is an adapter", fix=f"write nic:{device.name}")
        return _at(network, device)
    if failure.kind == "nic":
        device = network.named(failure.what)
        if not device.is_adapter:
            raise InputError(f"{device.name} is a switch", fix=f"write switch:{device.name}")
        return _at(network, device)
    if failure.kind == "rail":
        rails = sorted({str(device.rail) for device in network.adapters})
        if failure.what not in rails:
            raise unknown_name("rail", failure.what, rails)
        names = {device.name for device in network.adapters if str(device.rail) == failure.what}
        return [cable for cable in network.cables if cable.a in names or cable.b in names]
    lost = lost_nodes(network, [failure])
    names = {device.name for device in network.adapters if device.node in lost}
    return [cable for cable in network.cables if cable.a in names or cable.b in names]


def _at(network: Network, device: Device) -> list[Cable]:
    return [cable for cable in network.cables if device.name in (cable.a, cable.b)]


def _link(network: Network, what: str) -> Cable:
    """The cable in a named port, or the first of the bundle between two devices."""
    if match := _PORT.fullmatch(what):
        device = network.named(match["device"])
        cable = network.at_ports().get((device.name, int(match["port"])))
        if cable is None:
            raise InputError(f"port {device.name}[{match['port']}] has no cable")
        return cable
    parts = what.split("-")
    known = {plain_name(name): name for name in network.devices}
    for at in range(1, len(parts)):
        ends = [known.get(plain_name("-".join(half))) for half in (parts[:at], parts[at:])]
        if None not in ends:
            between = [cable for cable in network.cables if {cable.a, cable.b} == set(ends)]
            if not between:
                raise InputError(f"no cable joins {ends[0]} and {ends[1]}")
            return between[0]
    for half in (parts[0], "-".join(parts[1:])):
        network.named(half)
    raise InputError(f"link {what!r} does not name two ends", fix="write link:leaf3-spine1 or link:leaf3[17]")


def _node(network: Network, said: str) -> str:
    nodes = {plain_name(device.node): device.node for device in network.adapters}
    if plain_name(said) not in nodes:
        raise unknown_name("node", said, nodes.values())
    return nodes[plain_name(said)]


def _part(text: str | None, whole: str) -> float:
    if text is None:
        return 0.0
    try:
        part = float(text)
    except ValueError:
        part = -1.0
    if not 0 < part <= 1:
        raise InputError(f"{whole!r}: {text!r} is not a part between 0 and 1", fix="for example @0.8")
    return part
