"""`assay predict memory-pool`: does it fit in the pooled memory of an NVLink domain, and at what cost?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.answers import show_answer
from assay.app.options import json_option, page_options
from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.catalog.messages import Texts
    from assay.domain.message import MessageValue
    from assay.predict.memory_pool import PooledMemory, Way
    from assay.report.answer_page import Page


@click.command(name="memory-pool")
@click.option(
    "--cluster", "system", required=True, metavar="NAME|FILE", help="A shipped system, or a cluster file."
)
@click.option("--bytes", "size", metavar="SIZE", help="The data: 500 GB, 2 TiB.")
@click.option("--workload", metavar="NAME|FILE", help="Or the weights of a model, in --weight-bytes each.")
@click.option("--weight-bytes", type=float, default=2.0, show_default=True, help="Bytes of a weight.")
@click.option("--gpus", type=click.IntRange(min=1), help="GPUs that share.  [default: the NVLink domain]")
@click.option("--read", "read_frac", type=float, default=1.0, show_default=True, help="Part read in a pass.")
@click.option(
    "--locality", type=float, default=0.0, show_default=True, help="Part of reads that placement keeps local."
)
@page_options
@json_option
def memory_pool(
    system: str,
    size: str | None,
    workload: str | None,
    weight_bytes: float,
    gpus: int | None,
    read_frac: float,
    locality: float,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Hold data in the memory of all GPUs of an NVLink domain: share of remote accesses, time, alternatives.

    Exit code 1 where it does not fit.
    """
    from assay.api.clusters import read_cluster
    from assay.api.predicting import read_model
    from assay.errors import InputError
    from assay.predict.memory_pool import memory_pool as pool
    from assay.units import parse_bytes

    if (size is None) == (workload is None):
        raise InputError(
            "what is to be held?", fix="give either --bytes '500 GB' or --workload llama-3.1-405b"
        )
    data = float(parse_bytes(size)) if size else read_model(str(workload)).parameters * weight_bytes
    cluster = read_cluster(system)
    found = pool(cluster, data, gpus=gpus, read_frac=read_frac, locality=locality)
    show_answer(
        lambda _: _answer(cluster.id, found),
        lambda texts: _page(cluster.name, found, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
    return 0 if found.fits else 1


def _answer(cluster: str, found: PooledMemory) -> dict[str, object]:
    return headed("predict memory-pool") | {
        "cluster": cluster,
        "data_bytes": found.data_bytes,
        "gpus": found.gpus,
        "domain_gpus": found.domain_gpus,
        "pool_bytes": found.pool_bytes,
        "fits": found.fits,
        "remote_frac": found.remote_frac,
        "local_Bps": found.local_Bps,
        "link_Bps": found.link_Bps,
        "host_Bps": found.host_Bps,
        "ways": [
            {
                "name": way.name,
                "fits": way.fits,
                "pass_s": way.pass_s,
                "setup_s": way.setup_s,
                "bound_by": way.bound_by if way.pass_s is not None else None,
            }
            for way in found.ways
        ],
        "best": found.best.name if found.best else None,
    }


def _page(name: str, found: PooledMemory, texts: Texts) -> Page:
    from assay.domain.message import Message
    from assay.report.answer_page import Page, Section, Table
    from assay.units import show, show_bytes

    def say(code: str, **values: MessageValue) -> str:
        return texts.say(Message.of(f"pool.{code}", **values))

    def row(way: Way) -> tuple[str, ...]:
        if way.pass_s is None:
            return texts.label(f"pool.way.{way.name}"), texts.label("job.no_fit"), "", "", ""
        best = texts.label("pool.fastest") if way is found.best else ""
        held = texts.label(f"pool.way.{way.name}")
        return held, show(way.pass_s, "s"), show(way.setup_s, "s"), texts.label(way.bound_by), best

    heads = (*(texts.label(f"pool.head.{head}") for head in ("way", "pass", "setup", "bound")), "")
    return Page(
        kind="pool.page",
        title=say("title", text=show_bytes(found.data_bytes), gpus=found.gpus, cluster=name),
        lead=(
            say("fits" if found.fits else "no_fit", text=show_bytes(found.pool_bytes)),
            say("remote", text=f"{found.remote_frac:.1%}"),
            say("rates", memory_Bps=found.local_Bps, link_Bps=found.link_Bps, host_Bps=found.host_Bps),
        ),
        sections=(
            Section(
                title=texts.label("pool.ways"),
                table=Table(headers=heads, rows=tuple(map(row, found.ways)), words=frozenset({0, 3, 4})),
            ),
        ),
    )
