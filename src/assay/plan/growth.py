"""Stages from a few servers to a large cluster: topology, bill of materials, what is re-cabled, and
scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay.domain.cluster import Cluster
from assay.domain.fabric import Transport
from assay.errors import InputError
from assay.fabric.sizing import FabricSize, size_fabric
from assay.plan.ranking import Candidate
from assay.plan.work import AnyJob, Work, work_on

#: Ports of one node beside the compute fabric, as NVIDIA's DGX H100 reference has them.
STORAGE_PORTS, IN_BAND_PORTS, OUT_OF_BAND_PORTS = 2, 2, 1
#: Ports that the fabric manager (UFM) takes on the compute leaves of an InfiniBand fabric.
UFM_PORTS = 4
_IN_BAND_RADIX, _OUT_OF_BAND_RADIX = 64, 48

_GENERATIONS = {12.5e9: "EDR", 25e9: "HDR", 50e9: "NDR", 100e9: "XDR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What is bought, in all, at one stage."""

    leaf: int
    spine: int
    core: int
    node_leaf_cables: int
    leaf_spine_cables: int
    spine_core_cables: int
    transceivers: int
    ufm_ports: int
    free_leaf_ports: int
    nodes_too_many: int
    storage_ports: int
    storage_switches: int
    in_band_ports: int
    in_band_switches: int
    out_of_band_ports: int
    out_of_band_switches: int

    @property
    def cables(self) -> int:
        """All cables of the compute fabric."""
        return self.node_leaf_cables + self.leaf_spine_cables + self.spine_core_cables


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One size of the cluster. `moved_cables` are those of the stage before that end somewhere else now.

    `rate_per_s` (tokens or steps) and `linear_frac` (against the first stage) are of the best layout;
    `why_not` says why there is none.
    """

    nodes: int
    gpus: int
    topology: str
    generation: str
    domain_gpus: int
    materials: Materials
    bisection_Bps: float | None
    moved_cables: int
    added_switches: int
    work: Work | None = None
    rate_per_s: float | None = None
    linear_frac: float | None = None
    why_not: str | None = None

    @property
    def candidate(self) -> Candidate | None:
        """The best layout, where what runs is a training."""
        return self.work.candidate if self.work else None


def stages(first: int, last: int) -> tuple[int, ...]:
    """Doublings from the first number of nodes to the last, which ends them whatever it is."""
    if not 1 <= first <= last:
        raise InputError(
            f"growth from {first} to {last} nodes", fix="begin with fewer nodes than you end with"
        )
    found = [first]
    while found[-1] * 2 < last:
        found.append(found[-1] * 2)
    return tuple(found) if found[-1] == last else (*found, last)


def grow(
    cluster: Cluster,
    sizes: Sequence[int],
    job: AnyJob,
    *,
    fixed: Mapping[str, object] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Stage, ...]:
    """Every stage with its materials, and the scaling of the job from each to the next."""
    fabrics = [fabric_of(cluster, nodes) for nodes in sizes]
    moves = [0, *(moved(before, after) for before, after in pairwise(fabrics))]
    built: list[Stage] = []
    base: float | None = None
    for at, nodes in enumerate(sizes):
        best, why_not = None, None
        try:
            best = work_on(job, cluster.of(nodes), fixed=fixed)
        except InputError as fault:
            why_not = fault.what
        gpus = nodes * len(cluster.node.gpus)
        rate = best.rate_per_s / gpus if best else None
        base = rate if base is None else base
        size = fabrics[at]
        built.append(
            Stage(
                nodes=nodes,
                gpus=gpus,
                topology=_topology(cluster, nodes, size),
                generation=generation(cluster),
                domain_gpus=len(cluster.node.gpus) * cluster.domain_nodes,
                materials=materials(cluster, nodes, size),
                bisection_Bps=size.bisection_Bps if size else None,
                moved_cables=moves[at],
                added_switches=_switches(size) - (_switches(fabrics[at - 1]) if at else 0),
                work=best,
                rate_per_s=rate * gpus if rate else None,
                linear_frac=rate / base if rate and base else None,
                why_not=why_not,
            )
        )
        if progress:
            progress(at + 1, len(sizes))
    return tuple(built)


def fabric_of(cluster: Cluster, nodes: int) -> FabricSize | None:
    """The compute fabric for so many nodes; None inside one NVLink domain. One switch while its ports
    suffice."""
    if nodes <= cluster.domain_nodes or nodes == 1:
        return None
    fabric, rails = cluster.fabric, len(cluster.node.nics)
    if fabric is None or rails == 0:
        raise InputError(
            f"{nodes} nodes of {cluster.id} need NICs and a fabric between them",
            fix="choose a system with a fabric, or describe one in the cluster's file",
        )
    port_Bps = cluster.node.nics[0].rate_Bps
    if nodes * rails + _ufm(cluster) <= fabric.radix:
        return FabricSize(
            nodes=nodes,
            rails=rails,
            radix=fabric.radix,
            tiers=1,
            leaf=1,
            spine=0,
            core=0,
            node_leaf_cables=nodes * rails,
            leaf_spine_cables=0,
            spine_core_cables=0,
            oversubscription=1.0,
            port_Bps=port_Bps,
        )
    return size_fabric(
        nodes, rails=rails, radix=fabric.radix, oversubscription=fabric.oversubscription, port_Bps=port_Bps
    )


def moved(before: FabricSize | None, after: FabricSize | None) -> int:
    """Cables of the smaller fabric whose other end changes in the larger one.

    One switch becomes the leaf of the first rail, so that the other rails' cables move. Between two tiers
    every leaf spreads its bundles over more spines. A third tier takes half of each old spine's ports.
    """
    if before is None or after is None:
        return 0
    if before.tiers == 1:
        return 0 if after.tiers == 1 else before.node_leaf_cables // before.rails * (before.rails - 1)
    if after.tiers == 3 and before.tiers == 2:
        return max(0, before.leaf_spine_cables - before.spine * (after.radix // 2))
    if after.tiers == 3 or before.leaf == 0 or before.spine == 0:
        return 0
    up = before.leaf_spine_cables // before.leaf
    kept = before.leaf * before.spine * min(up // before.spine, up // after.spine)
    return before.leaf_spine_cables - kept


def materials(cluster: Cluster, nodes: int, size: FabricSize | None) -> Materials:
    """The bill of materials in all; management and storage ports are kept apart from the compute fabric."""
    storage, in_band = nodes * STORAGE_PORTS, nodes * IN_BAND_PORTS
    radix = cluster.fabric.radix if cluster.fabric else _IN_BAND_RADIX
    compute = _switches(size)
    storage_switches, in_band_switches = _flat(storage, radix), _flat(in_band, _IN_BAND_RADIX)
    # Every node's BMC and every switch has one management port.
    managed = nodes * OUT_OF_BAND_PORTS + compute + storage_switches + in_band_switches
    down = size.radix if size and size.tiers == 1 else size.radix // 2 if size else 0
    ufm = _ufm(cluster) if size else 0
    free = size.leaf * down - size.node_leaf_cables - ufm if size else 0
    return Materials(
        leaf=size.leaf if size else 0,
        spine=size.spine if size else 0,
        core=size.core if size else 0,
        node_leaf_cables=size.node_leaf_cables if size else 0,
        leaf_spine_cables=size.leaf_spine_cables if size else 0,
        spine_core_cables=size.spine_core_cables if size else 0,
        transceivers=_transceivers(size),
        ufm_ports=ufm,
        free_leaf_ports=max(0, free),
        # Where the manager finds no port, a node gives up its place, as in the reference's 31 nodes of 32.
        nodes_too_many=-(-max(0, -free) // (size.rails if size else 1)),
        storage_ports=storage,
        storage_switches=storage_switches,
        in_band_ports=in_band,
        in_band_switches=in_band_switches,
        out_of_band_ports=managed,
        out_of_band_switches=-(-managed // _OUT_OF_BAND_RADIX),
    )


def generation(cluster: Cluster) -> str:
    """What the links are called: HDR, NDR, XDR, or Ethernet at its rate."""
    if not cluster.node.nics or cluster.fabric is None:
        return "–"
    rate = cluster.node.nics[0].rate_Bps
    if cluster.fabric.transport is Transport.INFINIBAND:
        return _GENERATIONS.get(rate, f"{rate * 8e-9:.0f} Gbit/s InfiniBand")
    return f"{rate * 8e-9:.0f} Gbit/s {cluster.fabric.transport.value}"


def _topology(cluster: Cluster, nodes: int, size: FabricSize | None) -> str:
    if size is None:
        return "nvlink-domain"
    return {1: "single-switch", 2: "leaf-spine", 3: "leaf-spine-core"}[size.tiers]


def _transceivers(size: FabricSize | None) -> int:
    """One for each cable where a cage holds two ports (NDR and faster); one at each end of it before."""
    if size is None:
        return 0
    return size.transceivers if size.port_Bps >= 50e9 else 2 * size.cables


def _switches(size: FabricSize | None) -> int:
    return size.switches if size else 0


def _ufm(cluster: Cluster) -> int:
    infiniband = cluster.fabric is not None and cluster.fabric.transport is Transport.INFINIBAND
    return UFM_PORTS if infiniband else 0


def _flat(ports: int, radix: int) -> int:
    """Switches of a fabric of two ports a node: one while it suffices, else leaves at half their ports and
    spines."""
    if ports <= radix:
        return 1
    leaf = -(-ports // (radix // 2))
    return leaf + -(-leaf // 2)
