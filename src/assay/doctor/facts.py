"""Everything that the given files say, sorted by kind, with what follows from it about the job itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from assay.formats.artefact import Command, FioFile, Reading
from assay.formats.bandwidth_text import Matrix, PairTable, RdmaRate, TestRun
from assay.formats.cabling import Cabling
from assay.formats.clock_text import ClockSources
from assay.formats.dcgm import DiagResult
from assay.formats.fabric_links import FabricLink
from assay.formats.fio import FioJob
from assay.formats.flight_recorder import Dump
from assay.formats.ib_tools import Gid, Port
from assay.formats.kineto import Trace
from assay.formats.lspci import PciDevice
from assay.formats.nccl_log import Channel, devices, interfaces
from assay.formats.nccl_ras import RasRank
from assay.formats.nccl_topo import Graph, TopologyDevice
from assay.formats.nvidia_smi import NvlinkGpu, SmiGpu, SmiSummary, Topology
from assay.formats.port_counters import Counters
from assay.formats.sentences import Said
from assay.formats.stack_text import LiveRank
from assay.formats.training_log import Step

#: A fact said more often than this by one process is counted, and its later lines are not kept.
MOST_PER_SPEAKER = 40
#: Most lines kept of one fact, over all speakers; most connections and steps kept.
MOST_PER_FACT, MOST_CHANNELS, MOST_STEPS = 20_000, 50_000, 100_000
_CONSUMER = re.compile(r"GeForce|RTX [2345]0\d0|TITAN|GTX")


@dataclass(slots=True, kw_only=True)
class Facts:
    """Records of all files by kind, in the order in which they were read."""

    said: dict[str, list[Said]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    channels: dict[tuple[str, int, int, str | None, str, bool], Channel] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)
    links: list[FabricLink] = field(default_factory=list)
    gids: list[Gid] = field(default_factory=list)
    pci: list[PciDevice] = field(default_factory=list)
    gpus: list[SmiGpu] = field(default_factory=list)
    smi: list[SmiSummary] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    nvlinks: list[NvlinkGpu] = field(default_factory=list)
    runs: list[TestRun] = field(default_factory=list)
    pairs: list[PairTable] = field(default_factory=list)
    matrices: list[Matrix] = field(default_factory=list)
    dumps: list[Dump] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    diags: list[DiagResult] = field(default_factory=list)
    topology_devices: list[TopologyDevice] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rdma: list[RdmaRate] = field(default_factory=list)
    live: list[LiveRank] = field(default_factory=list)
    fio: list[tuple[str, FioJob]] = field(default_factory=list)
    cablings: list[Cabling] = field(default_factory=list)
    ras: list[RasRank] = field(default_factory=list)
    clock_sources: list[ClockSources] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    _per_speaker: dict[tuple[str, str, str | None, str | None, int | None], int] = field(default_factory=dict)

    def add(self, record: object) -> None:
        """Sort one record in."""
        if isinstance(record, Said):
            self._add_said(record)
        elif isinstance(record, Channel):
            key = (record.host, record.src, record.dst, record.way, record.transport, record.gdr)
            if key not in self.channels and len(self.channels) < MOST_CHANNELS:
                self.channels[key] = record
        elif isinstance(record, FioFile):
            self.fio += [(record.file, job) for job in record.report.jobs]
        elif isinstance(record, Step):
            if len(self.steps) < MOST_STEPS:
                self.steps.append(record)
        else:
            self._list_of(record).append(record)

    def _add_said(self, said: Said) -> None:
        self.counts[said.fact] = self.counts.get(said.fact, 0) + 1
        speaker = (said.fact, said.file, said.host, said.pid, said.rank)
        count = self._per_speaker.get(speaker, 0)
        kept = self.said.setdefault(said.fact, [])
        if count < MOST_PER_SPEAKER and len(kept) < MOST_PER_FACT:
            self._per_speaker[speaker] = count + 1
            kept.append(said)

    def _list_of(self, record: object) -> list[object]:
        for kind, name in _LISTS.items():
            if isinstance(record, kind):
                found: list[object] = getattr(self, name)
                return found
        raise TypeError(f"no place for a {type(record).__name__} among the facts")

    def all(self, *facts: str) -> list[Said]:
        """Every line that states one of the facts, in the order given and read."""
        return [said for fact in facts for said in self.said.get(fact, ())]

    @property
    def states_anything(self) -> bool:
        """Whether a reader made anything of any line, beside the commands that stand there."""
        lists = (getattr(self, name) for name in _LISTS.values() if name != "commands")
        return bool(self.said or self.channels or self.steps or self.fio or any(lists))

    def has(self, *facts: str) -> bool:
        """Whether any line states one of the facts."""
        return any(self.said.get(fact) for fact in facts)


_LISTS: dict[type, str] = {
    Command: "commands",
    Port: "ports",
    Counters: "counters",
    FabricLink: "links",
    Gid: "gids",
    PciDevice: "pci",
    SmiGpu: "gpus",
    SmiSummary: "smi",
    Topology: "topologies",
    NvlinkGpu: "nvlinks",
    TestRun: "runs",
    PairTable: "pairs",
    Matrix: "matrices",
    Dump: "dumps",
    Trace: "traces",
    DiagResult: "diags",
    TopologyDevice: "topology_devices",
    Graph: "graphs",
    LiveRank: "live",
    ClockSources: "clock_sources",
    RasRank: "ras",
    Cabling: "cablings",
    RdmaRate: "rdma",
}


class Job:
    """What the facts say about the job and its machines, worked out once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that NCCL or nccl-tests name."""
        names = [s.host for s in self._nccl if s.host]
        names += [c.host for c in self.facts.channels.values()]
        names += [host for run in self.facts.runs for host in run.hosts]
        return tuple(dict.fromkeys(names))

    @cached_property
    def _nccl(self) -> list[Said]:
        return [s for kept in self.facts.said.values() for s in kept if s.pid is not None]

    @cached_property
    def env(self) -> dict[str, list[tuple[str, Said | None]]]:
        """Variables of NCCL that are set: name → (value, the line that says so)."""
        found: dict[str, list[tuple[str, Said | None]]] = {}
        for said in self.facts.all("nccl.env", "conf.env"):
            found.setdefault(said["name"], []).append((said["value"].strip(), said))
        for run in self.facts.runs:
            for name, value in run.env.items():
                if name not in found:
                    found.setdefault(name, []).append((value, None))
        return found

    def is_set(self, name: str, *values: str) -> bool:
        """Whether the variable is set to one of the values (any value when none is given)."""
        return any(not values or value in values for value, _ in self.env.get(name, ()))

    @cached_property
    def alone(self) -> frozenset[str]:
        """Hosts that hold every rank of their communicator, so that nothing of theirs crosses the network."""
        ranks: dict[tuple[str, str, int], set[int]] = {}
        for said in self.facts.all("nccl.comm"):
            size, rank = said.number("nranks"), said.number("rank")
            if said.host and size and rank is not None:
                ranks.setdefault((said.host, said["id"], size), set()).add(rank)
        whole = {host for (host, _, size), seen in ranks.items() if len(seen) == size}
        return frozenset(whole - {host for (host, _, size), seen in ranks.items() if len(seen) < size})

    @cached_property
    def done(self) -> frozenset[str]:
        """Hosts on which NCCL finished setting up."""
        ready = self.facts.all("nccl.connected")
        ready += [s for s in self.facts.all("nccl.comm") if s["state"] == "COMPLETE"]
        return frozenset(s.host for s in ready if s.host)

    @cached_property
    def multi_node(self) -> bool | None:
        """True or False where the files tell, else None."""
        counts = [n for s in self.facts.all("nccl.comm") if (n := s.number("nnodes"))]
        if counts:
            return max(counts) > 1
        if len({s.host for s in self._nccl if s.host} - self.alone) > 1 or any(
            len(r.hosts) > 1 for r in self.facts.runs
        ):
            return True
        # Without shared memory and P2P even one node talks through the network.
        forced = self.is_set("NCCL_SHM_DISABLE", "1") or self.is_set("NCCL_P2P_DISABLE", "1")
        network = [
            c for c in self.facts.channels.values() if c.transport.startswith("NET") and c.src != c.dst
        ]
        if any(c.src_device == c.dst_device or not forced for c in network):
            return True
        ranks = {s.number("rank") for s in self.facts.all("nccl.comm")}
        sizes = {s.number("nranks") for s in self.facts.all("nccl.comm")}
        if len(sizes) == 1 and len(ranks) == next(iter(sizes)):
            return False
        if self.facts.channels and not network and self.facts.has("nccl.connected"):
            return False
        return None

    @cached_property
    def completed(self) -> bool:
        """Whether NCCL finished setting up."""
        return self.facts.has("nccl.connected") or any(
            s["state"] == "COMPLETE" for s in self.facts.all("nccl.comm")
        )

    @cached_property
    def products(self) -> tuple[str, ...]:
        """Names of GPUs wherever they stand."""
        names = [s["name"] for s in self.facts.all("gpu.listed", "gpu.csv", "gpu.row")]
        names += [s["name"].replace("-", " ") for s in self.facts.all("gpu.label")]
        names += [text for gpu in self.facts.gpus if (text := gpu.text("Product Name"))]
        names += [name for run in self.facts.runs for _, _, _, name in run.devices if name]
        names += [gpu.product for gpu in self.facts.nvlinks if gpu.product]
        return tuple(dict.fromkeys(names))

    @cached_property
    def consumer(self) -> bool:
        """Whether all known GPUs are GeForce cards, which have no GPUDirect RDMA."""
        return bool(self.products) and all(_CONSUMER.search(name) for name in self.products)

    @cached_property
    def drivers(self) -> tuple[tuple[int, ...], ...]:
        """Driver versions as numbers."""
        texts = [s["version"] for s in self.facts.all("sw.driver")] + [
            s["driver"] for s in self.facts.all("gpu.csv")
        ]
        return tuple(dict.fromkeys(version(text) for text in texts))

    @cached_property
    def roce(self) -> bool:
        """Whether the data network is RoCE."""
        layers = {layer for s in self.facts.all("nccl.ib_devices") for _, layer in devices(s["devices"])}
        return (
            "RoCE" in layers
            or bool(self.facts.gids)
            or (bool(self.facts.ports) and all(p.link_layer == "Ethernet" for p in self.facts.ports))
        )

    @cached_property
    def addresses(self) -> dict[str, set[str]]:
        """Host → addresses with which it set up NCCL."""
        found: dict[str, set[str]] = {}
        for said in self.facts.all("nccl.bootstrap"):
            found.setdefault(said.host or "", set()).add(said["addr"])
        for said in self.facts.all("nccl.socket_devices"):
            found.setdefault(said.host or "", set()).update(a for _, a in interfaces(said["devices"]))
        return found

    def host_of(self, address: str) -> str | None:
        """The host that has this address, where the logs say."""
        return next((host for host, own in self.addresses.items() if address in own), None)


def version(text: str) -> tuple[int, ...]:
    """`535.161.08` → (535, 161, 8); empty where there is no number."""
    return tuple(int(part[:6]) for part in re.findall(r"\d+", text)[:4])


def collect(records: Iterable[object], into: Facts) -> Facts:
    """Sort records into facts."""
    for record in records:
        into.add(record)
    return into
