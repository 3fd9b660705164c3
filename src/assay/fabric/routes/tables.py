"""Routes as tables: for each switch and destination the port out. What each cable then carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.fabric.routes.patterns import Flows
from assay.fabric.topology.network import Network

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A path of more switches than this goes in a circle.
_MOST_HOPS = 16
#: Flows that are followed at once: bounds memory.
_BATCH = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """`port_out` [switch, adapter] is the port towards each adapter, 0 where the switch knows none.

    `link` and `far` [switch, port] are the directed link at a port and the device at its other end (switches
    count from 0, adapters follow; −1: no cable); `first_link`, `first` [adapter] the same for an adapter.
    Directed link 2k goes from a to b of cable k, 2k + 1 back.
    """

    network: Network
    switches: tuple[str, ...]
    adapters: tuple[str, ...]
    port_out: Ints
    link: Ints
    far: Ints
    first_link: Ints
    first: Ints

    @classmethod
    def of(cls, network: Network, ports: Mapping[str, Mapping[str, int]] | None = None) -> Tables:
        """Tables for a network; `ports` maps switch → adapter → port out, and may be filled in later."""
        switches = {device.name: at for at, device in enumerate(network.switches())}
        adapters = {device.name: at for at, device in enumerate(network.adapters)}
        most = max((max(c.a_port, c.b_port) for c in network.cables), default=0) + 1
        link, far = np.full((len(switches), most), -1), np.full((len(switches), most), -1)
        first_link, first = np.full(len(adapters), -1), np.full(len(adapters), -1)
        for at, cable in enumerate(network.cables):
            ends = ((cable.a, cable.a_port, cable.b, 2 * at), (cable.b, cable.b_port, cable.a, 2 * at + 1))
            for here, port, there, directed in ends:
                beyond = switches[there] if there in switches else len(switches) + adapters[there]
                if here in switches:
                    link[switches[here], port], far[switches[here], port] = directed, beyond
                elif first[adapters[here]] < 0:
                    first_link[adapters[here]], first[adapters[here]] = directed, beyond
        port_out = np.zeros((len(switches), len(adapters)), dtype=np.int64)
        for switch, row in (ports or {}).items():
            for adapter, port in row.items():
                port_out[switches[switch], adapters[adapter]] = port
        return cls(
            network=network,
            switches=tuple(switches),
            adapters=tuple(adapters),
            port_out=port_out,
            link=link,
            far=far,
            first_link=first_link,
            first=first,
        )

    def loads(self, flows: Flows) -> tuple[Floats, int]:
        """Flows on each directed link [2 × cables], and how many have no way to their destination.

        Raises `InputError` where a table sends traffic round in a circle.
        """
        total = np.zeros(2 * len(self.network.cables))
        stranded = 0
        for group in flows.groups:
            alone = Flows(pattern=flows.pattern, sender=group[:0], receiver=group[:0], groups=(group,))
            one = alone.listed()
            stranded += self._follow(one.sender, one.receiver, total)
        for start in range(0, flows.sender.size, _BATCH):
            part = slice(start, start + _BATCH)
            stranded += self._follow(flows.sender[part], flows.receiver[part], total)
        return total, stranded

    def _follow(self, sender: Ints, receiver: Ints, total: Floats, trail: list[int] | None = None) -> int:
        """Add a batch of flows hop by hop; returns how many end nowhere."""
        at, link, stranded = self.first[sender], self.first_link[sender], 0
        for _ in range(_MOST_HOPS):
            live = link >= 0
            stranded += int((~live).sum())
            at, receiver, link = at[live], receiver[live], link[live]
            total += np.bincount(link, minlength=total.size)
            arrived = at == len(self.switches) + receiver
            # A second port of the same device is not the destination, and a NIC forwards nothing.
            lost = ~arrived & (at >= len(self.switches))
            stranded += int(lost.sum())
            going = ~arrived & ~lost
            at, receiver = at[going], receiver[going]
            if not at.size:
                return stranded
            port = self.port_out[at, receiver]
            link, at = self.link[at, port], self.far[at, port]
        where = self.switches[int(at[0])] if 0 <= at[0] < len(self.switches) else "a switch"
        raise InputError(
            f"routes to {self.adapters[int(receiver[0])]} go in a circle at {where}",
            where=self.network.name,
            fix="were tables and cabling read at the same time?",
        )
