"""`assay predict fabric`: switches, cables and bandwidth of a design, or of a fabric as it was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option
from assay.app.say import say, say_json

if TYPE_CHECKING:
    from assay.api.predicting_fabric import Sized


@click.command(name="fabric")
@click.option("--cluster", "system", metavar="NAME|FILE", help="A shipped system, or a cluster file.")
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes of it.  [default: as described]"
)
@click.option("--radix", type=click.IntRange(min=4), help="Ports of a switch.  [default: the system's]")
@click.option("--oversubscription", type=float, metavar="K", help="Ports down over ports up of a leaf.")
@click.option("--planes", type=click.IntRange(1, 8), help="Equal fabrics beside each other.")
@click.option("--wiring", metavar="KIND", help="rail-optimised, fat-tree, dragonfly+, single-switch.")
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
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="PATTERN:NODES",
    help="Jobs that share the fabric: all_to_all:node[0-15]; repeat it.",
)
@click.option(
    "--with", "others", multiple=True, metavar="NAME|FILE", help="Other kinds of nodes: who talks to whom."
)
@click.option("--incast", metavar="N:BURST:BUFFER", help="N senders to one port: 32:1Mi:64Mi.")
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
    jobs: tuple[str, ...],
    others: tuple[str, ...],
    incast: str | None,
    svg: Path | None,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Size and draw a fabric, or check one as it was found against its design.

    Switches and cables by tier, bisection, hops, latency, oversubscription; of a fabric that was found also
    what its routes carry. Exit code 1 where the cabling has a fault.
    """
    from assay.api.predicting_fabric import answer_questions, broken_names, size_fabric_of, write_pictures
    from assay.app.predict_fabric_answers import answers_object, show_answers
    from assay.app.predict_found import show_found
    from assay.errors import InputError
    from assay.fabric.failures.impact import Conditions

    if files:
        if system or svg or html or loss or ecmp or sharp or sweep or jobs or others or incast:
            raise click.UsageError(
                "--from takes --against, --placement, --fail, --degrade, --adaptive; the rest is for designs"
            )
        asked = Conditions.of(fail=fail, degrade=degrade, adaptive=adaptive)
        return show_found(
            files, against=against, placement=placement, conditions=asked, lang=lang, as_json=as_json
        )
    if against or placement:
        raise click.UsageError("--against and --placement are for a fabric as found: --from FILE")
    if system is None:
        raise InputError("which fabric?", fix="say --cluster NAME --nodes N, or --from ibnetdiscover.txt")
    sized = size_fabric_of(
        system, nodes, radix=radix, oversubscription=oversubscription, planes=planes, wiring=wiring
    )
    asked = Conditions.of(fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, adaptive=adaptive, repeat=repeat)
    answers = answer_questions(
        sized.cluster, asked, sharp=sharp, sweep=sweep, jobs=jobs, others=others, incast=incast
    )
    write_pictures(sized, svg=svg, html=html, lang=lang, broken=tuple(broken_names(asked)))
    if as_json:
        say_json(_answer(sized) | answers_object(answers))
    else:
        _show(sized)
        show_answers(answers)
    return 0


def _answer(sized: Sized) -> dict[str, object]:
    from assay.codec.answer import headed
    from assay.fabric.contention.inside import gpus_out

    size, fabric = sized.size, sized.cluster.fabric
    near, far = sized.latency_s
    return headed("predict fabric") | {
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
            "spine_spine": size.global_cables,
        },
        "transceivers": size.transceivers,
        "bisection_Bps": size.bisection_Bps,
        "gpu_out_Bps": gpus_out(sized.cluster.node),
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
    say(sized.title)
    for key, text in summary(sized):
        say(f"  {texts.label('fabric.' + key):38s} {text}")
