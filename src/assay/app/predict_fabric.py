"""`assay predict fabric`: switches, cables and bandwidth of a design, or of a fabric as it was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option
from assay.app.predict_impact import impact_object, show_impact

if TYPE_CHECKING:
    from assay.api.predicting_fabric import Sized
    from assay.fabric.failures.sweep import Swept


@click.command(name="fabric")
@click.option("--cluster", "system", metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of it.  [default: as described]"
)
@click.option("--radix", type=click.IntRange(min=4), help="Ports of a switch.  [default: the system's]")
@click.option("--oversubscription", type=float, metavar="K", help="Ports down over ports up of a leaf.")
@click.option("--planes", type=click.IntRange(1, 8), help="Equal fabrics beside each other.")
@click.option("--wiring", metavar="KIND", help="rail-optimised, fat-tree or single-switch.")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The fabric as found: ibnetdiscover, iblinkinfo, dump_fts, topology.conf, a cabling CSV; repeat it.",
)
@click.option(
    "--against", metavar="FILE|NAME", help="Its design: a design, cluster or cabling file, a system."
)
@click.option("--placement", metavar="NODES", help="Nodes of a job, in order: node[000-031],node040.")
@failing
@click.option(
    "--adaptive/--no-adaptive", default=None, help="Adaptive routing.  [default: as the fabric has it]"
)
@click.option("--sharp", is_flag=True, help="Trees that add up in the switches: their limits and their gain.")
@click.option(
    "--sweep", is_flag=True, help="What the failure of one of each class of link and switch leaves."
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw it.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Picture and table as a page.",
)
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of pictures."
)
@json_option
def fabric(
    system: str | None,
    nodes: int | None,
    radix: int | None,
    oversubscription: float | None,
    planes: int | None,
    wiring: str | None,
    files: tuple[Path, ...],
    against: str | None,
    placement: str | None,
    fail: tuple[str, ...],
    degrade: tuple[str, ...],
    loss: float,
    ecmp: bool,
    repeat: str | None,
    adaptive: bool | None,
    sharp: bool,
    sweep: bool,
    svg: Path | None,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Size and draw a fabric, or check one as it was found against its design.

    Switches and cables by tier, bisection, hops, latency, oversubscription; of a fabric that was found also
    what its routes carry. Exit code 1 where the cabling has a fault.
    """
    from assay.api.predicting_fabric import broken_names, size_fabric_of, write_pictures
    from assay.app.predict_sharp import sharp_object, show_sharp
    from assay.errors import InputError
    from assay.fabric.failures.impact import Conditions, impact
    from assay.fabric.failures.sweep import sweep_cluster
    from assay.fabric.sharp_trees import sharp_trees

    if files:
        from assay.app.predict_found import show_found

        if system is not None or svg is not None or html is not None:
            raise click.UsageError("--from shows a fabric as found; --cluster, --svg and --html a design")
        return show_found(files, against=against, placement=placement, lang=lang, as_json=as_json)
    if system is None:
        raise InputError("which fabric?", fix="say --cluster NAME --nodes N, or --from ibnetdiscover.txt")
    sized = size_fabric_of(
        system, nodes, radix=radix, oversubscription=oversubscription, planes=planes, wiring=wiring
    )
    asked = Conditions.of(fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, adaptive=adaptive, repeat=repeat)
    cluster = sized.cluster
    harm = impact(cluster, asked) if asked.any else None
    swept = tuple(sweep_cluster(cluster, asked.routing)) if sweep else ()
    tree = sharp_trees(cluster) if sharp else None
    write_pictures(sized, svg=svg, html=html, lang=lang, broken=tuple(broken_names(asked)))
    if as_json:
        answer = _answer(sized) | ({} if harm is None else impact_object(harm))
        answer |= {"sweep": [_swept(one) for one in swept]} if sweep else {}
        answer |= {} if tree is None else {"sharp": sharp_object(tree)}
        click.echo(json.dumps(answer, indent=1))
        return 0
    _show(sized)
    if harm is not None:
        show_impact(harm)
    if tree is not None:
        show_sharp(tree)
    _show_sweep(swept)
    return 0


def _swept(one: Swept) -> dict[str, object]:
    return {
        "class": one.name,
        "count": one.count,
        "failure": str(one.failure),
        "remaining_frac": one.left.pattern_frac,
        "bisection_frac": one.left.bisection_frac,
        "stranded_flows": one.left.stranded,
    }


def _show_sweep(swept: tuple[Swept, ...]) -> None:
    if swept:
        click.echo(
            f"\n{'one fails of':<16} {'alike':>8} {'ring':>7} {'tree':>7} {'all-to-all':>11} bisection"
        )
    for one in swept:
        part = one.left.pattern_frac
        click.echo(
            f"{one.name:<16} {one.count:8,} {part['ring']:7.1%} {part['tree']:7.1%} "
            f"{part['all_to_all']:11.1%} {one.left.bisection_frac:10.2%}"
        )


def _answer(sized: Sized) -> dict[str, object]:
    from assay import __version__
    from assay.codec.answer import SCHEMA_VERSION

    size, fabric = sized.size, sized.cluster.fabric
    near, far = sized.latency_s
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "predict fabric",
        "assay_version": __version__,
        "cluster": sized.cluster.id,
        "nodes": sized.cluster.count,
        "gpus": sized.cluster.gpus,
        "wiring": fabric.wiring.value if fabric else None,
        "radix": size.radix,
        "rails": size.rails,
        "planes": size.planes,
        "tiers": size.tiers,
        "switches": {"leaf": size.leaf, "spine": size.spine, "core": size.core},
        "cables": {
            "node_leaf": size.node_leaf_cables,
            "leaf_spine": size.leaf_spine_cables,
            "spine_core": size.spine_core_cables,
            "manager_leaf": size.manager_leaf_cables,
        },
        "transceivers": size.transceivers,
        "bisection_Bps": size.bisection_Bps,
        "oversubscription": size.oversubscription_by_tier,
        "most_hops": size.most_hops,
        "latency_s": {"nearest": near, "farthest": far},
        "room_nodes": sized.room,
        "findings": [],
    }


def _show(sized: Sized) -> None:
    from assay.api.predicting_fabric import summary
    from assay.catalog.messages import Texts

    texts = Texts("en")
    click.echo(sized.title)
    for key, text in summary(sized):
        click.echo(f"  {texts.label('fabric.' + key):38s} {text}")
