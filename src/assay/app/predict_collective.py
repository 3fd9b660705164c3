"""`assay predict collective`: latency and bandwidth against size, what NCCL chooses, and what binds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option, page_options
from assay.app.predict_impact import impact_object, show_impact
from assay.app.say import say, say_json, say_wrote
from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.api.predicting_collective import PredictedCollective


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """`8:16Gi` doubles from 8 bytes to 16 GiB; `1Mi,64Mi` is a list."""
    from assay.errors import InputError
    from assay.units import parse_bytes

    if value is None:
        return None
    if ":" not in value:
        return tuple(parse_bytes(part) for part in value.split(",") if part.strip())
    first, last = (parse_bytes(part) for part in value.split(":", 1))
    if first < 1 or last < first:
        raise InputError(
            f"sizes from {first} to {last} bytes", fix="write the smaller first, for example 8:16Gi"
        )
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes)


@click.command(name="collective")
@click.option(
    "--cluster",
    "system",
    required=True,
    metavar="NAME|FILE",
    help="Shipped system, YAML, NCCL XML, or a run.",
)
@click.option("--nodes", type=click.IntRange(1), default=None, help="Nodes of the group.  [default: 1]")
@click.option(
    "--per-node", type=click.IntRange(1), default=None, help="Ranks in each node.  [default: all GPUs]"
)
@click.option("--op", default="all_reduce", show_default=True, help="all_reduce, all_gather, all_to_all, …")
@click.option(
    "--bytes", "sizes", callback=_sizes, metavar="8:16Gi", help="Sizes.  [default: 8:16Gi, or the file's]"
)
@click.option(
    "--measured",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="An nccl-tests file to set beside the prediction.",
)
@click.option(
    "--library", type=click.Choice(["nccl", "rccl", "gloo", "mpi"]), default="nccl", show_default=True
)
@click.option("--nccl", default="2.27", show_default=True, metavar="VERSION", help="NCCL's version.")
@click.option("--sharp/--no-sharp", default=None, help="Add up in InfiniBand switches.")
@click.option("--nvls/--no-nvls", default=None, help="Add up in NVSwitches.")
@click.option("--adaptive/--no-adaptive", default=None, help="Adaptive routing.")
@click.option("--algorithm", default=None, help="Force RING, TREE, NVLS, RABENSEIFNER, …")
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
    sizes: tuple[int, ...] | None,
    measured: Path | None,
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
    from assay.api.predicting_collective import CollectiveOptions, predict_collective
    from assay.fabric.collective import Options
    from assay.fabric.failures.impact import Conditions

    done = predict_collective(
        CollectiveOptions(
            cluster=system,
            op=op,
            sizes=sizes,
            nodes=nodes,
            per_node=per_node,
            library=Options(
                library=library,
                nccl=_version(nccl),
                sharp=sharp,
                nvls=nvls,
                adaptive_routing=adaptive,
                algorithm=algorithm.upper() if algorithm else None,
            ),
            conditions=Conditions.of(
                fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, repeat=repeat, jitter=jitter
            ),
            measured=measured,
        )
    )
    said = f"{library} {nccl}" if library in ("nccl", "rccl") else library
    answer = _answer(done, said)
    if html:
        from assay.api.pages import write_collective_page

        write_collective_page(done, html, lang=lang, library=said, answer=answer)
        say_wrote(html)
    if as_json:
        say_json(answer)
    else:
        _table(done)
        if done.impact is not None:
            show_impact(done.impact)
        _show_tails(done)
    return 0


def _version(text: str) -> tuple[int, int]:
    from assay.errors import InputError

    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise InputError(f"{text!r} is not a version of NCCL", fix="write it as 2.27")
    return int(parts[0]), int(parts[1])


def _answer(done: PredictedCollective, library: str) -> dict[str, object]:
    times = done.times
    points: list[dict[str, object]] = [
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
    for at, point in enumerate(points):
        seconds = done.measured_s.get(int(times.bytes[at]))
        if done.measured_s:
            error = None if seconds is None else float(times.time_s[at]) / seconds - 1
            point |= {"measured_s": seconds, "error_frac": error}
    tails = [
        {"bytes": size, "median_s": tail.median_s, "p99_s": tail.p99_s} for size, tail in done.tails.items()
    ]
    return headed("predict collective") | {
        "cluster": done.cluster.id,
        "library": library,
        "calibrated_by": done.source,
        "points": points,
        "extrapolated": list(times.extrapolated),
        **({} if done.impact is None else impact_object(done.impact)),
        **({"tails": tails} if tails else {}),
    }


def _show_tails(done: PredictedCollective) -> None:
    from assay.units import show

    for size, tail in done.tails.items():
        median, p99 = show(tail.median_s, "s"), show(tail.p99_s, "s")
        say(
            f"  rings of {show(size, 'B')} between nodes, a NIC each: median {median}, one in a hundred {p99}"
        )


def _table(done: PredictedCollective) -> None:
    from assay.units import percent, show

    times = done.times
    say(f"{times.op} on {done.cluster.name}")
    say(f"{int(times.ranks.flat[0])} ranks, {int(times.nodes.flat[0])} nodes\n")
    beside = f"{'measured':>9} {'error':>8}" if done.measured_s else f"{'80 % range':>21}"
    say(f"{'size':>8} {'time':>9} {beside} {'busbw':>10}  {'choice':<17} bound by")
    for at in range(times.bytes.size):
        choice = f"{times.algorithm[at]}/{times.protocol[at]}".strip("/")
        value = float(times.time_s[at])
        between = f"{show(float(times.low_s[at]), 's')} … {show(float(times.high_s[at]), 's')}"
        beside = f"{between:>21}"
        if done.measured_s:
            seconds = done.measured_s.get(int(times.bytes[at]))
            error = None if seconds is None else value / seconds - 1
            beside = f"{show(seconds, 's'):>9} {percent(error, sign=True):>8}"
        say(
            f"{show(float(times.bytes[at]), 'B'):>8} {show(value, 's'):>9} {beside} "
            f"{show(float(times.busbw_Bps[at]), 'B/s'):>10}  {choice:<17} {times.bound_by[at]}"
        )
    if done.source:
        say(f"\nmeasured on this cluster: {done.source}; the choice is NCCL's by its topology")
    if times.extrapolated:
        say(f"\nextrapolated: no measurement stands behind {', '.join(times.extrapolated)}")
