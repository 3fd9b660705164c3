"""A cluster by what people have of it: a shipped name, a file, an NCCL topology, or a measured run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.catalog.clusters import cluster, load_cluster
from assay.catalog.devices import gpu as catalogue_gpu
from assay.catalog.devices import gpus
from assay.catalog.nodes import compute_capability
from assay.catalog.pci import gpu_by_pci
from assay.domain.cluster import Cluster, Node
from assay.domain.device import Gpu
from assay.domain.fabric import Fabric, Transport, Wiring
from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCluster:
    """A cluster of as many nodes as asked for, and what was taken for granted about it."""

    cluster: Cluster
    assumed: tuple[str, ...] = ()


def read_cluster(said: str) -> Cluster:
    """The cluster that `said` names, of as many nodes as its description has."""
    path = Path(said)
    known = path.is_dir() or path.is_file() or path.suffix in (".xml", ".yaml", ".yml", ".toml")
    return find_cluster(said).cluster if known else cluster(said)


def find_cluster(
    said: str, *, nodes: int | None = None, base: str | None = None, gpu: str | None = None
) -> FoundCluster:
    """The cluster that `said` names.

    `base` is the shipped system (or cluster file) that a run was measured on, `gpu` the GPU of an NCCL
    topology whose PCI ids do not tell it. Without `nodes` a file's or a run's own number counts; a shipped
    system has none.
    """
    path = Path(said)
    if path.is_dir():
        found = _of_run(path, base)
    elif base is not None:
        raise InputError(f"--base is for a measured run, but {said!r} is none", fix="leave --base out")
    elif path.suffix == ".xml":
        found = FoundCluster(cluster=_of_topology(path, nodes or 1, gpu))
    elif path.suffix in (".yaml", ".yml", ".toml") or path.is_file():
        found = FoundCluster(cluster=load_cluster(path))
    else:
        found = FoundCluster(cluster=cluster(said))
        if nodes is None:
            raise InputError(
                f"how many nodes of {found.cluster.id}?", fix="say --nodes, for example --nodes 4"
            )
    if gpu is not None and path.suffix != ".xml":
        raise InputError(
            f"--gpu is for an NCCL topology; {said!r} names its GPU itself", fix="leave --gpu out"
        )
    if nodes is None:
        return found
    _require_network(found.cluster, nodes)
    return replace(found, cluster=found.cluster.of(nodes))


def _of_run(path: Path, base: str | None) -> FoundCluster:
    # Reading runs loads more than most predictions need.
    from assay.api.calibrating import calibrate

    done = calibrate([path], base=base)
    return FoundCluster(cluster=done.cluster, assumed=done.assumed)


def _require_network(found: Cluster, nodes: int) -> None:
    if nodes > found.domain_nodes and (found.fabric is None or not found.node.nics):
        raise InputError(
            f"{nodes} nodes of {found.id}, but nothing is known of a network between its nodes",
            fix="measure over two nodes or more, name the system with --base, or say --nodes 1",
        )


def _of_topology(path: Path, nodes: int, gpu: str | None) -> Cluster:
    from assay.codec.text_file import read_text
    from assay.formats.nccl_topo import node_of, pci_device
    from assay.formats.xml_tree import parse_xml

    tree = parse_xml(read_text(path), str(path))
    node = node_of(tree)
    named = gpu_by_pci(pci_device(tree), node.compute_capability)
    node = replace(node, gpu=named if gpu is None else _fitting_gpu(node, gpu, path))
    rdma = all(nic.gpudirect for nic in node.nics)
    fabric = Fabric(id=node.id, transport=Transport.ROCE if rdma else Transport.TCP, wiring=Wiring.RAIL)
    return Cluster(id=node.id, name=node.id, node=node, count=nodes, fabric=fabric if node.nics else None)


def _fitting_gpu(node: Node, name: str, path: Path) -> Gpu:
    one = catalogue_gpu(name)
    if compute_capability(one) != node.compute_capability:
        raise InputError(
            f"{one.id} has compute capability {compute_capability(one)}, the topology's GPUs have "
            f"{node.compute_capability}",
            where=str(path),
            fix=f"one of {', '.join(candidates(node))}",
        )
    return one


def candidates(node: Node) -> Sequence[str]:
    """Ids of the catalogue's GPUs with the compute capability of a topology's."""
    return [one.id for one in gpus() if compute_capability(one) == node.compute_capability]
