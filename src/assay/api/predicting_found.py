"""`assay predict fabric --from …`: a fabric as found, held against its design, and what its routes carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.api.clusters import read_cluster
from assay.catalog.findings import finding as kind_of
from assay.codec.document import read_document
from assay.codec.fabric_design import load_design
from assay.codec.text_file import read_lines
from assay.domain.fabric import Wiring
from assay.domain.finding import Evidence, Finding
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.fabric.failures.impact import Conditions
from assay.fabric.failures.remaining import Remaining, remaining
from assay.fabric.routes.patterns import PATTERNS, Flows, flows
from assay.fabric.routes.spread import spread
from assay.fabric.routes.tables import Tables
from assay.fabric.sizing import FabricSize, size_cluster_fabric, size_fabric
from assay.fabric.topology.fat_tree import Names, fat_tree
from assay.fabric.topology.faults import Fault, against_design, alone
from assay.fabric.topology.found import found_network
from assay.fabric.topology.network import Network, plain_name
from assay.fabric.topology.tiers import Tiers
from assay.formats.cabling import Cabling, rate_Bps
from assay.formats.cabling_table import is_cabling_table, parse_cabling_table
from assay.formats.ib_routes import SwitchRoutes, is_ib_routes, parse_ib_routes
from assay.formats.iblinkinfo_cabling import is_iblinkinfo, parse_iblinkinfo
from assay.formats.ibnetdiscover import is_ibnetdiscover, parse_ibnetdiscover
from assay.formats.opensm_subnet import is_opensm_subnet, parse_opensm_subnet
from assay.formats.slurm_topology import expanded, is_slurm_topology, parse_slurm_topology

#: Kinds of cabling files, in the order in which they are tried.
_CABLING = (
    (is_ibnetdiscover, parse_ibnetdiscover),
    (is_iblinkinfo, parse_iblinkinfo),
    (is_opensm_subnet, parse_opensm_subnet),
    (is_slurm_topology, parse_slurm_topology),
    (is_cabling_table, parse_cabling_table),
)
_HEAD_LINES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a pattern puts on the fabric. `worst` is the fullest link by name, `flows` on it, and `slowdown`
    its time over that of the busiest NIC: 1 where the NICs bind. `stranded` flows have no way.
    """

    pattern: str
    count: int
    worst: str
    flows: float
    slowdown: float
    stranded: int
    routes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A fabric as found, with its findings and loads; `left` is what asked failures leave of it."""

    network: Network
    design: Network | None
    findings: tuple[Finding, ...]
    loads: tuple[Load, ...]
    ignored: int
    left: Remaining | None = None

    def count(self, tier: int) -> int:
        """Switches of a tier."""
        return len(self.network.switches(tier))

    def cables(self, low: int, high: int) -> int:
        """Cables between two tiers."""
        devices = self.network.devices
        tiers = [{devices[c.a].tier, devices[c.b].tier} for c in self.network.cables]
        return sum(ends == {low, high} for ends in tiers)

    @property
    def bisection_Bps(self) -> float:
        """The narrower of NICs and leaf uplinks, halved."""
        rate = {(0, 1): 0.0, (1, 2): 0.0}
        for cable in self.network.cables:
            ends = sorted(self.network.devices[d].tier or 0 for d in (cable.a, cable.b))
            if tuple(ends) in rate:
                rate[ends[0], ends[1]] += cable.Bps
        narrow = min(rate.values()) if self.count(2) else rate[0, 1]
        return narrow / 2


def read_found(
    files: Sequence[Path],
    *,
    against: str | None = None,
    placement: str | None = None,
    conditions: Conditions | None = None,
) -> Found:
    """Read discovery and route files, whichever they are. Raises `InputError` with file:line.

    Failures among the `conditions` are held against the fabric as found, with its routes dealt anew.
    """
    cabling: Cabling | None = None
    routes: list[tuple[SwitchRoutes, ...]] = []
    for file in files:
        lines = read_lines(file)
        if is_ib_routes(lines[:_HEAD_LINES]):
            routes.append(parse_ib_routes(lines, str(file)))
            continue
        if cabling is not None:
            raise InputError(f"a second cabling file beside {cabling.file}", where=str(file), fix="give one")
        cabling = read_cabling(lines, str(file))
    if cabling is None:
        raise InputError("routes without cabling", fix="give ibnetdiscover's output too: --from, once more")
    design = None if against is None else read_design(against)
    tiers = {} if design is None else {plain_name(d.name): d.tier or 0 for d in design.switches()}
    told = {d.name: tiers[plain_name(d.name)] for d in cabling.devices if plain_name(d.name) in tiers}
    network = found_network(cabling, told)
    faults = alone(network) if design is None else against_design(network, design)
    tables = None if not routes else route_tables(network, cabling, [one for part in routes for one in part])
    nodes = None if placement is None else list(expanded(placement, "--placement"))
    return Found(
        network=network,
        design=design,
        findings=tuple(_finding(fault, network) for fault in faults),
        loads=tuple(_loads(network, tables, nodes)),
        ignored=cabling.ignored,
        left=_left(network, conditions, nodes),
    )


def _left(network: Network, conditions: Conditions | None, nodes: list[str] | None) -> Remaining | None:
    if conditions is None or not conditions.failures:
        return None
    return remaining(network, conditions.failures, routing=conditions.routing or "static", nodes=nodes)


def read_cabling(lines: Sequence[str], name: str) -> Cabling:
    """Cabling of any of the kinds that are known; the kind is seen in the lines."""
    for recognise, parse in _CABLING:
        if recognise(lines[:_HEAD_LINES]):
            return parse(lines, name)
    raise InputError(
        "no cabling that is known here",
        where=f"{name}:1",
        fix="give ibnetdiscover, iblinkinfo, opensm-subnet.lst, Slurm's topology.conf, or a CSV with device, "
        "port, remote, remote_port",
    )


def read_design(said: str) -> Network:
    """A design: a design file, a cluster file or shipped system, or a cabling list that is to be."""
    file = Path(said)
    if file.suffix in (".csv", ".txt", ".conf"):
        return found_network(read_cabling(read_lines(file), said))
    if file.suffix in (".yaml", ".yml", ".toml") and "node" not in read_document(file).data:
        parts = load_design(file)
        rate = rate_Bps(parts.rate)
        if rate is None:
            raise InputError(
                f"rate {parts.rate!r}", where=parts.document.where("rate"), fix="for example 4xNDR or 4xHDR"
            )
        by_rail = parts.wiring is Wiring.RAIL
        try:
            size = size_fabric(
                parts.nodes,
                rails=parts.rails,
                radix=parts.radix,
                oversubscription=parts.oversubscription,
                port_Bps=rate,
                planes=parts.planes,
                by_rail=by_rail,
            )
        except InputError as fault:
            raise InputError(fault.what, where=parts.document.where("nodes"), fix=fault.fix) from None
        _check_even(size, parts.document.where("nodes"))
        return fat_tree(size, by_rail=by_rail, names=Names(**parts.names), name=said, rate=parts.rate)
    cluster = read_cluster(said)
    rail = cluster.fabric is not None and cluster.fabric.wiring is Wiring.RAIL
    return fat_tree(size_cluster_fabric(cluster), by_rail=rail, name=said)


def _check_even(size: FabricSize, where: str) -> None:
    """A three-tier design whose last pod would have fewer leaves than the others is refused."""
    leaf = size.leaf // size.planes
    if size.tiers > 2 and leaf % size.pod_leaves:
        raise InputError(
            f"{leaf} leaves do not divide into pods of {size.pod_leaves}",
            where=where,
            fix=f"use nodes for {-(-leaf // size.pod_leaves) * size.pod_leaves} leaves, or describe the "
            "cabling as a list",
        )


def route_tables(network: Network, cabling: Cabling, found: Sequence[SwitchRoutes]) -> Tables:
    """Tables of all switches for the adapters of a network; raises `InputError` where the two do not fit."""
    by_guid = {device.guid: device.name for device in network.switches() if device.guid}
    by_name = {plain_name(device.name): device.name for device in network.devices.values()}
    ports: dict[str, dict[str, int]] = {}
    for one in found:
        switch = by_guid.get(one.guid) or by_name.get(plain_name(one.name))
        if switch is None:
            raise InputError(
                f"routes of switch {one.name or one.guid}, which is not in {network.name}",
                fix="read cabling and routes of the same fabric at the same time",
            )
        row: dict[str, int] = {}
        for lid, port in one.port.items():
            adapter = cabling.adapter_at.get(lid) or by_name.get(plain_name(one.adapter.get(lid, "")))
            if adapter is not None:
                row[adapter] = port
        ports[switch] = row
    return Tables.of(network, ports)


def _loads(network: Network, tables: Tables | None, nodes: Sequence[str] | None) -> list[Load]:
    adapters = network.adapters
    found = []
    for pattern in PATTERNS:
        if pattern == "incast":
            continue
        wanted = flows(pattern, adapters, nodes)
        if not wanted.count:
            continue
        found.append(
            _adaptive_load(network, wanted) if tables is None else _table_load(network, tables, wanted)
        )
    return [load for load in found if load is not None]


def _table_load(network: Network, tables: Tables, wanted: Flows) -> Load:
    carried, stranded = tables.loads(wanted)
    rate = np.repeat([cable.Bps for cable in network.cables], 2)
    seconds = carried / rate
    at = int(np.argmax(seconds))
    nic = [
        k
        for k, c in enumerate(network.cables)
        if network.devices[c.a].is_adapter != network.devices[c.b].is_adapter
    ]
    ideal = float(seconds.reshape(-1, 2)[nic].max(initial=0.0))
    cable = network.cables[at // 2]
    ends = (f"{cable.a}[{cable.a_port}]", f"{cable.b}[{cable.b_port}]")
    return Load(
        pattern=wanted.pattern,
        count=wanted.count,
        worst=" → ".join(ends if at % 2 == 0 else ends[::-1]),
        flows=float(carried[at]),
        slowdown=float(seconds[at]) / ideal if ideal else 1.0,
        stranded=stranded,
        routes="tables",
    )


def _adaptive_load(network: Network, wanted: Flows) -> Load | None:
    """Without tables traffic is taken to spread over all shortest paths; not where levels are mixed up."""
    try:
        tiers = Tiers.of(network)
    except InputError:
        return None
    load = spread(tiers, wanted)
    seconds = load.seconds_per_byte(tiers)
    worst, level = load.worst(tiers)
    ideal = float(seconds["nic"].max(initial=0.0))
    names = {"leaf-spine": (tiers.leaves, tiers.spines), "spine-core": (tiers.spines, tiers.cores)}
    at = np.unravel_index(int(np.argmax(seconds[level])), seconds[level].shape)
    if level == "nic":
        where = tiers.adapters[int(at[0])].name
        carried = max(load.nic_out[at[0]], load.nic_in[at[0]])
    else:
        low, high = names[level]
        where = f"{low[int(at[0])]} – {high[int(at[1])]}"
        up, down = (load.up, load.down) if level == "leaf-spine" else (load.top_up, load.top_down)
        carried = max(up[at], down[at])
    return Load(
        pattern=wanted.pattern,
        count=wanted.count,
        worst=where,
        flows=float(carried),
        slowdown=worst / ideal if ideal else 1.0,
        stranded=round(load.stranded),
        routes="adaptive",
    )


def _finding(fault: Fault, network: Network) -> Finding:
    kind = kind_of(fault.code)
    first, second = fault.ends
    subject = Subject("pair", f"{first}|{second}") if second else Subject("group", first)
    words = Message.of(
        f"fabric.because.{fault.code}",
        first=first,
        second=second,
        wanted=fault.wanted or "–",
        found=fault.found or "–",
        count=fault.count,
        of=fault.of,
    )
    proof = () if fault.line is None else (_evidence(fault, network),)
    return Finding(code=fault.code, severity=kind.severity, subject=subject, because=words, evidence=proof)


def _evidence(fault: Fault, network: Network) -> Evidence:
    return Evidence(file=network.name, line=fault.line, text=f"{fault.ends[0]} – {fault.ends[1]}")
