"""`assay predict collective`: latency and bandwidth against size, what NCCL chooses, and what binds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option, page_options
from assay.app.predict_impact import impact_object, show_impact

if TYPE_CHECKING:
    from assay.domain.cluster import Cluster
    from assay.fabric.collective import CollectiveTimes, Options
    from assay.fabric.failures.impact import Impact


def _sizes(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    """`8:16Gi` doubles from 8 bytes to 16 GiB; `1Mi,64Mi` is a list."""
    from assay.errors import InputError
    from assay.units import parse_bytes

    if ":" not in value:
        return [parse_bytes(part) for part in value.split(",") if part.strip()]
    first, last = (parse_bytes(part) for part in value.split(":", 1))
    if first < 1 or last < first:
        raise InputError(
            f"sizes from {first} to {last} bytes", fix="write the smaller first, for example 8:16Gi"
        )
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


@click.command(name="collective")
@click.option(
    "--cluster", "system", required=True, metavar="NAME|FILE", help="Shipped system, YAML, or NCCL XML."
)
@click.option("--nodes", type=click.IntRange(1), default=None, help="Nodes of the group.  [default: 1]")
@click.option(
    "--per-node", type=click.IntRange(1), default=None, help="Ranks in each node.  [default: all GPUs]"
)
@click.option("--op", default="all_reduce", show_default=True, help="all_reduce, all_gather, all_to_all, …")
@click.option("--bytes", "sizes", callback=_sizes, default="8:16Gi", show_default=True, help="Sizes.")
@click.option("--library", type=click.Choice(["nccl", "rccl", "gloo"]), default="nccl", show_default=True)
@click.option("--nccl", default="2.27", show_default=True, metavar="VERSION", help="NCCL's version.")
@click.option("--sharp/--no-sharp", default=None, help="Add up in InfiniBand switches.")
@click.option("--nvls/--no-nvls", default=None, help="Add up in NVSwitches.")
@click.option("--adaptive/--no-adaptive", default=None, help="Adaptive routing.")
@click.option("--algorithm", default=None, help="Force RING, TREE, NVLS, …")
@failing
@click.option(
    "--jitter", default="0 s", show_default=True, metavar="TIME", help="Most that a message is late."
)
@page_options
@json_option
def collective(
    system: str,
    nodes: int | None,
    per_node: int | None,
    op: str,
    sizes: list[int],
    library: str,
    nccl: str,
    sharp: bool | None,
    nvls: bool | None,
    adaptive: bool | None,
    algorithm: str | None,
    fail: tuple[str, ...],
    degrade: tuple[str, ...],
    loss: float,
    ecmp: bool,
    repeat: str | None,
    jitter: str,
    html: Path | None,
    lang: str,
    as_json: bool,
) -> int:
    """Predict a collective: time with a range, bandwidths, NCCL's choice, and the link that binds."""
    from assay.api.clusters import read_cluster
    from assay.fabric.collective import Options, collective_time
    from assay.fabric.failures.impact import Conditions, impact, slowed_cluster
    from assay.fabric.placement import Placement
    from assay.units import show

    cluster = read_cluster(system)
    cluster = cluster.of(max(cluster.count, nodes or 1))
    conditions = Conditions.of(fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, repeat=repeat)
    late = jitter.strip() not in ("0 s", "0")
    harm = impact(cluster.of(nodes or 1), conditions) if conditions.any or late else None
    if harm is not None:
        cluster = slowed_cluster(cluster, harm, op)
    options = Options(
        library=library,
        nccl=_version(nccl),
        sharp=sharp,
        nvls=nvls,
        adaptive_routing=adaptive,
        algorithm=algorithm.upper() if algorithm else None,
    )
    width = per_node or len(cluster.node.gpus)
    times = collective_time(cluster, op, sizes, Placement.of(width, nodes or 1), options=options)
    tails = _tails(harm, cluster.of(nodes or 1), sizes, jitter)
    answer = _answer(cluster, times, options) | ({} if harm is None else impact_object(harm))
    answer |= {"tails": tails} if tails else {}
    if html:
        from assay.api.pages import write_collective_page

        write_collective_page(
            times, html, lang=lang, cluster=cluster.name, library=str(answer["library"]), answer=answer
        )
        click.echo(f"wrote {html}", err=True)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        _table(cluster, times)
        if harm is not None:
            show_impact(harm)
        for tail in tails:
            size, median, p99 = (show(tail[key], unit) for key, unit in _TAIL.items())
            click.echo(
                f"  rings of {size} between nodes, a NIC each: median {median}, one in a hundred {p99}"
            )
    return 0


_TAIL = {"bytes": "B", "median_s": "s", "p99_s": "s"}


def _tails(harm: Impact | None, cluster: Cluster, sizes: list[int], jitter: str) -> list[dict[str, float]]:
    """Rings, one a NIC, that wait for the slowest message of every step: smallest and largest size."""
    from assay.fabric.loss.latency import ring_tail
    from assay.units import parse

    late_s = parse(jitter, unit="s", where="--jitter").value
    if harm is None or cluster.count < 2 or not (late_s or harm.conditions.loss_frac):
        return []
    found = []
    for size in sorted({sizes[0], sizes[-1]}):
        share = size / len(cluster.node.nics)
        tail = ring_tail(harm.connection, cluster.count, share, harm.conditions.loss_frac, late_s)
        found.append({"bytes": float(size), "median_s": tail.median_s, "p99_s": tail.p99_s})
    return found


def _version(text: str) -> tuple[int, int]:
    from assay.errors import InputError

    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise InputError(f"{text!r} is not a version of NCCL", fix="write it as 2.27")
    return int(parts[0]), int(parts[1])


def _answer(cluster: Cluster, times: CollectiveTimes, options: Options) -> dict[str, object]:
    from assay import __version__

    points = [
        {
            "op": times.op,
            "bytes": int(times.bytes[at]),
            "nodes": int(times.nodes[at]),
            "ranks": int(times.ranks[at]),
            "time_s": {
                "value": float(times.time_s[at]),
                "low": float(times.low_s[at]),
                "high": float(times.high_s[at]),
            },
            "algbw_Bps": float(times.algbw_Bps[at]),
            "busbw_Bps": float(times.busbw_Bps[at]),
            "algorithm": str(times.algorithm[at]),
            "protocol": str(times.protocol[at]),
            "bound_by": str(times.bound_by[at]),
        }
        for at in range(times.bytes.size)
    ]
    return {
        "schema_version": 1,
        "command": "predict collective",
        "assay_version": __version__,
        "cluster": cluster.id,
        "library": f"{options.library} {options.nccl[0]}.{options.nccl[1]}",
        "points": points,
        "extrapolated": list(times.extrapolated),
    }


def _table(cluster: Cluster, times: CollectiveTimes) -> None:
    from assay.units import show

    click.echo(
        f"{times.op} on {cluster.name}: {int(times.ranks.flat[0])} ranks, {int(times.nodes.flat[0])} nodes\n"
    )
    click.echo(
        f"{'size':>10} {'time':>10} {'80 % range':>23} {'algbw':>11} {'busbw':>11}  {'choice':<17} bound by"
    )
    for at in range(times.bytes.size):
        choice = f"{times.algorithm[at]}/{times.protocol[at]}".rstrip("/")
        between = f"{show(float(times.low_s[at]), 's')} … {show(float(times.high_s[at]), 's')}"
        click.echo(
            f"{show(float(times.bytes[at]), 'B'):>10} {show(float(times.time_s[at]), 's'):>10} {between:>23} "
            f"{show(float(times.algbw_Bps[at]), 'B/s'):>11} {show(float(times.busbw_Bps[at]), 'B/s'):>11}  "
            f"{choice:<17} {times.bound_by[at]}"
        )
    if times.extrapolated:
        click.echo(f"\nextrapolated: no measurement stands behind {', '.join(times.extrapolated)}")
