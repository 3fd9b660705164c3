"""`assay predict fabric`: what a fabric is made of, and what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.api.clusters import read_cluster
from assay.catalog.messages import Texts
from assay.codec.text_file import write_text
from assay.domain.cluster import Cluster
from assay.domain.fabric import Wiring
from assay.errors import InputError, unknown_name
from assay.fabric.contention.classes import shares
from assay.fabric.contention.inside import gpus_out
from assay.fabric.failures.impact import Conditions, Impact, impact, network_of
from assay.fabric.failures.sweep import Swept, sweep_cluster
from assay.fabric.loss.incast import Incast
from assay.fabric.loss.incast import incast as arrive
from assay.fabric.reach import Talk, domain_limit, talks
from assay.fabric.routes.patterns import flows
from assay.fabric.sharp_trees import SharpTrees, sharp_trees
from assay.fabric.sizing import FabricSize, size_cluster_fabric
from assay.fabric.topology.network import plain_name
from assay.fabric.topology.tiers import Tiers
from assay.formats.slurm_topology import expanded
from assay.report.fabric_picture import fabric_page, fabric_svg
from assay.units import parse_bytes, show


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A cluster and the fabric that joins its nodes."""

    cluster: Cluster
    size: FabricSize

    @property
    def title(self) -> str:
        """What the picture shows."""
        return f"{self.cluster.name}: {self.cluster.count:,} nodes, {self.cluster.gpus:,} GPUs"

    @property
    def latency_s(self) -> tuple[float, float]:
        """Switches and cables on the way between the nearest and the farthest nodes."""
        fabric = self.cluster.fabric
        hop_s = fabric.hop_latency_s if fabric is not None else 0.0
        return hop_s, self.size.most_hops * hop_s

    @property
    def room(self) -> int:
        """Nodes that the leaves have ports for."""
        size = self.size
        if size.tiers == 1:
            return size.radix // size.rails
        return size.leaf // size.planes * size.ports_down // size.rails


def size_fabric_of(
    system: str,
    nodes: int | None,
    *,
    radix: int | None = None,
    oversubscription: float | None = None,
    planes: int | None = None,
    wiring: str | None = None,
) -> Sized:
    """The fabric of `nodes` nodes of a system (all it has), with parts of its design changed."""
    described = read_cluster(system)
    cluster = described.of(nodes or described.count)
    fabric = cluster.fabric
    if fabric is None:
        raise InputError(f"cluster {cluster.id} has no fabric between its nodes", fix="describe [fabric]")
    kinds = [kind.value for kind in Wiring if kind is not Wiring.OPAQUE]
    if wiring is not None and wiring not in kinds:
        raise unknown_name("wiring", wiring, kinds)
    fabric = replace(
        fabric,
        radix=radix or fabric.radix,
        oversubscription=fabric.oversubscription if oversubscription is None else oversubscription,
        planes=planes or fabric.planes,
        wiring=fabric.wiring if wiring is None else Wiring(wiring),
    )
    cluster = replace(cluster, fabric=fabric)
    return Sized(cluster=cluster, size=size_cluster_fabric(cluster))


def write_pictures(
    sized: Sized,
    *,
    svg: Path | None,
    html: Path | None,
    lang: str = "en",
    broken: tuple[str, ...] = (),
    findings: tuple[str, ...] = (),
) -> None:
    """The picture as an SVG file, and with its table as an HTML page."""
    texts = Texts(lang)
    picture = fabric_svg(sized.size, texts, title=sized.title, broken=broken)
    if svg is not None:
        write_text(svg, picture)
    if html is not None:
        rows = [(texts.label(f"fabric.{key}"), text) for key, text in summary(sized)]
        page = fabric_page(picture, texts, title=sized.title, rows=rows, findings=findings)
        write_text(html, page)


def summary(sized: Sized) -> list[tuple[str, str]]:
    """What people ask first, as label and text."""
    size = sized.size
    near, far = sized.latency_s
    over = size.oversubscription_by_tier
    cables = f"{size.node_leaf_cables:,} + {size.leaf_spine_cables:,} + {size.spine_core_cables:,}"
    if size.global_cables:
        cables += f" + {size.global_cables:,}"
    if size.manager_leaf_cables:
        cables += f" + {size.manager_leaf_cables:,}"
    return [
        ("leaf", f"{size.leaf:,}"),
        ("spine", f"{size.spine:,}"),
        ("core", f"{size.core:,}"),
        ("cables", f"{size.cables:,} = {cables}"),
        ("transceivers", f"{size.transceivers:,}"),
        ("bisection", show(size.bisection_Bps, "B/s")),
        ("oversubscription", ", ".join(f"{tier} {ratio:g}:1" for tier, ratio in over.items()) or "–"),
        ("node_out", show(min(gpus_out(sized.cluster.node)), "B/s")),
        ("hops", f"{size.most_hops}"),
        ("latency", f"{show(near, 's')} – {show(far, 's')}"),
        ("room", f"{sized.room:,}"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShare:
    """A job on the shared fabric: the rate of its slowest flow alone, and beside the others."""

    job: str
    flows: int
    alone_Bps: float
    shared_Bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What was asked beyond the size; None and empty where it was not."""

    impact: Impact | None = None
    sweep: tuple[Swept, ...] = ()
    sharp: SharpTrees | None = None
    jobs: tuple[JobShare, ...] = ()
    talks: tuple[Talk, ...] = ()
    domain_limit: int | None = None
    incast: Mapping[str, Incast] = field(default_factory=dict)


def answer_questions(
    cluster: Cluster,
    conditions: Conditions,
    *,
    sharp: bool = False,
    sweep: bool = False,
    jobs: Sequence[str] = (),
    others: Sequence[str] = (),
    incast: str | None = None,
) -> Answers:
    """Failures, sweep, SHARP, jobs that share, who can talk to whom, incast. Raises `InputError`."""
    kinds = [cluster, *(read_cluster(name) for name in others)]
    return Answers(
        impact=impact(cluster, conditions) if conditions.any else None,
        sweep=tuple(sweep_cluster(cluster, conditions.routing)) if sweep else (),
        sharp=sharp_trees(cluster) if sharp else None,
        jobs=tuple(_share(cluster, jobs)) if jobs else (),
        talks=talks(kinds) if others else (),
        domain_limit=domain_limit(cluster),
        incast=_incast(cluster, incast) if incast else {},
    )


def _incast(cluster: Cluster, said: str) -> dict[str, Incast]:
    """`senders:burst:buffer` at one NIC's port: with nothing, ECN, or credits and PFC to hold them."""
    parts = said.split(":")
    if len(parts) != 3 or not parts[0].isdigit():
        raise InputError(f"--incast {said!r}", fix="write senders:burst:buffer, for example 32:1Mi:64Mi")
    burst, buffer = (float(parse_bytes(part, where="--incast")) for part in parts[1:])
    port = cluster.node.nics[0].rate_Bps
    ways = {"lossy": (False, None), "ecn": (False, buffer / 4), "lossless": (True, None)}
    return {
        name: arrive(
            int(parts[0]),
            burst,
            port_Bps=port,
            buffer_bytes=buffer,
            lossless=lossless,
            marks_at_bytes=marks,
        )
        for name, (lossless, marks) in ways.items()
    }


def _share(cluster: Cluster, said: Sequence[str]) -> Iterator[JobShare]:
    """Each job alone and beside the others, on the fabric's first plane with adaptive routing."""
    tiers = Tiers.of(network_of(cluster))
    running = []
    for text in said:
        pattern, colon, nodes = text.partition(":")
        if not colon or not nodes:
            raise InputError(f"{text!r} names no nodes", fix="write --job all_to_all:node[0-15]")
        running.append(flows(pattern, tiers.adapters, list(expanded(nodes, f"--job {text}"))))
    together = shares(tiers, running)
    for text, one in zip(said, running, strict=True):
        yield JobShare(
            job=text,
            flows=one.count,
            alone_Bps=shares(tiers, [one]).slowest_Bps,
            shared_Bps=together.slowest_of_Bps(tiers, one),
        )


def broken_names(conditions: Conditions) -> Iterator[str]:
    """Devices to mark in the picture: those that failures name, and both ends of links."""
    for failure in conditions.failures:
        if failure.kind in ("switch", "link"):
            yield from (plain_name(part.partition("[")[0]) for part in failure.what.split("-"))
