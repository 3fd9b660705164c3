"""Which nodes are below one leaf switch: by the hosts file, Slurm's topology, the inventory, or in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.codec.text_file import read_lines
from assay.domain.fact import Fact
from assay.formats.slurm_topology import parse_slurm_topology
from assay.measure.crew import Seat
from assay.measure.launchers.ssh import read_hosts

#: Where nothing is on record, blocks have about so many nodes.
BLOCK_NODES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """Node → the name of its leaf, or of its block where no leaf is `known`; and who says so."""

    of: Mapping[str, str]
    source: str
    known: bool = True

    @property
    def settings(self) -> dict[str, object]:
        """As the benchmark `groups` has it."""
        return {"leaves": dict(self.of), "leaves_source": self.source, "leaves_known": self.known}


def find_leaves(
    seats: Sequence[Seat],
    *,
    hosts: Path | None = None,
    topology: Path | None = None,
    facts: Iterable[Fact] = (),
) -> Leaves:
    """The first that tells of any of these nodes: hosts file, topology.conf, facts; else blocks.

    A run that goes on keeps its blocks, also where some of its nodes are gone.
    """
    nodes = tuple(dict.fromkeys(seat.host for seat in seats))
    facts = tuple(facts)
    for told, source in (
        (_by_hosts(seats, hosts), str(hosts)),
        (_by_topology(topology), str(topology)),
        (_by_facts(facts, "leaf"), "inventory"),
    ):
        if of := {node: told[node] for node in nodes if node in told}:
            return Leaves(of=of, source=source)
    before = _by_facts(facts, "group.block")
    return Leaves(
        of={node: before[node] for node in nodes if node in before} or _blocks(nodes),
        source="blocks of consecutive nodes: no leaf is on record",
        known=False,
    )


def _by_hosts(seats: Iterable[Seat], path: Path | None) -> dict[str, str]:
    """By name or by address: a machine may call itself otherwise than ssh calls it."""
    listed = [host for host in read_hosts(path) if host.leaf] if path else []
    leaf_at = {key: host.leaf for host in listed for key in (host.address, host.name)}
    found = {seat.host: leaf_at.get(seat.host) or leaf_at.get(seat.address) for seat in seats}
    return {node: leaf for node, leaf in found.items() if leaf}


def _by_topology(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    cabling = parse_slurm_topology(read_lines(path), str(path))
    nodes = {device.name for device in cabling.devices if device.adapter}
    return {cable.a: cable.b for cable in cabling.cables if cable.a in nodes}


def _by_facts(facts: Iterable[Fact], key: str) -> dict[str, str]:
    return {
        fact.subject.name: str(fact.value)
        for fact in facts
        if fact.key == key and fact.subject.kind == "node" and fact.value is not None
    }


def _blocks(nodes: Sequence[str]) -> dict[str, str]:
    """Two blocks at least, as equal as can be."""
    count = max(2, round(len(nodes) / BLOCK_NODES))
    return {node: f"block{at * count // len(nodes)}" for at, node in enumerate(nodes)}
