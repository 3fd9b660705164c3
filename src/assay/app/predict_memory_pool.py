"""`assay predict memory-pool`: does it fit in the pooled memory of an NVLink domain, and at what cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from assay.app.options import json_option
from assay.app.say import say, say_json

if TYPE_CHECKING:
    from assay.predict.memory_pool import PooledMemory


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
@json_option
def memory_pool(
    system: str,
    size: str | None,
    workload: str | None,
    weight_bytes: float,
    gpus: int | None,
    read_frac: float,
    locality: float,
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
    if as_json:
        say_json(_answer(cluster.id, found))
    else:
        _show(cluster.name, found)
    return 0 if found.fits else 1


def _answer(cluster: str, found: PooledMemory) -> dict[str, object]:
    from assay.codec.answer import headed

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


_WORDS = {
    "pooled": "spread over all GPUs",
    "copied": "a copy in each GPU",
    "host": "the rest in the host's memory",
}


def _show(name: str, found: PooledMemory) -> None:
    from assay.units import show, show_bytes

    say(
        f"{show_bytes(found.data_bytes)} on {found.gpus} GPUs of {name}\n"
        f"  pool       {show_bytes(found.pool_bytes)}: {'fits' if found.fits else 'DOES NOT FIT'}\n"
        f"  remote     {found.remote_frac:.1%} of the accesses\n"
        f"  bandwidth  memory {show(found.local_Bps, 'B/s')}, links {show(found.link_Bps, 'B/s')}, "
        f"host {show(found.host_Bps, 'B/s')} a GPU\n\n"
        f"  {'way':<30} {'one pass':>10} {'once before':>12}  bound by"
    )
    for way in found.ways:
        if way.pass_s is None:
            say(f"  {_WORDS[way.name]:<30} {'does not fit':>10}")
            continue
        best = "   ← fastest" if way is found.best else ""
        say(
            f"  {_WORDS[way.name]:<30} {show(way.pass_s, 's'):>10} {show(way.setup_s, 's'):>12}  "
            f"{way.bound_by}{best}"
        )
