"""`assay predict collective`: latency and bandwidth against size, what NCCL chooses, and what binds."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import failing, json_option
from assay.app.predict_impact import impact_object, show_impact

if TYPE_CHECKING:
    from assay.api.measured_collective import MeasuredCollective
    from assay.domain.cluster import Cluster
    from assay.fabric.collective import CollectiveTimes, Options


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    """`8:16Gi` doubles from 8 bytes to 16 GiB; `1Mi,64Mi` is a list."""
    from assay.errors import InputError
    from assay.units import parse_bytes

    if value is None:
        return None
    if ":" not in value:
        return [parse_bytes(part) for part in value.split(",") if part.strip()]
    first, last = (parse_bytes(part) for part in value.split(":", 1))
    if first < 1 or last < first:
        raise InputError(
            f"sizes from {first} to {last} bytes", fix="write the smaller first, for example 8:16Gi"
        )
    return _doubling(first, last)


def _doubling(first: int, last: int) -> list[int]:
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
@click.option("--op", default=None, help="all_reduce, all_gather, all_to_all, …  [default: all_reduce]")
@click.option("--bytes", "sizes", callback=_sizes, default=None, help="Sizes.  [default: 8:16Gi]")
@click.option("--library", type=click.Choice(["nccl", "rccl", "gloo"]), default="nccl", show_default=True)
@click.option("--nccl", default=None, metavar="VERSION", help="NCCL's version.  [default: 2.27]")
@click.option("--sharp/--no-sharp", default=None, help="Add up in InfiniBand switches.")
@click.option("--nvls/--no-nvls", default=None, help="Add up in NVSwitches.")
@click.option("--adaptive/--no-adaptive", default=None, help="Adaptive routing.")
@click.option("--algorithm", default=None, help="Force RING, TREE, NVLS, …")
@click.option(
    "--measured",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="An nccl-tests result to compare with: its collective, sizes, ranks and version, unless said here.",
)
@failing
@json_option
def collective(
    system: str,
    nodes: int | None,
    per_node: int | None,
    op: str | None,
    sizes: list[int] | None,
    library: str,
    nccl: str | None,
    sharp: bool | None,
    nvls: bool | None,
    adaptive: bool | None,
    algorithm: str | None,
    measured: Path | None,
    fail: tuple[str, ...],
    degrade: tuple[str, ...],
    loss: float,
    ecmp: bool,
    repeat: str | None,
    as_json: bool,
) -> int:
    """Predict a collective: time with a range, bandwidths, NCCL's choice, and the link that binds."""
    from assay.api.measured_collective import read_measured
    from assay.api.predicting import read_cluster
    from assay.fabric.collective import collective_time
    from assay.fabric.failures.impact import Conditions, impact, slowed_cluster
    from assay.fabric.operations import operation
    from assay.fabric.placement import Placement

    beside = read_measured(measured, operation(op) if op else None) if measured else None
    said = op or (beside.op if beside else "all_reduce")
    asked = (list(beside.bytes) if beside else _doubling(8, 2**34)) if sizes is None else sizes
    found = read_cluster(system)
    across = nodes or (beside.nodes if beside else None) or 1
    width = per_node or (beside.per_node if beside else None) or len(found.node.gpus)
    cluster = found.of(max(found.count, across))
    conditions = Conditions.of(fail=fail, degrade=degrade, loss=loss, ecmp=ecmp, repeat=repeat)
    harm = impact(cluster.of(across), conditions) if conditions.any else None
    if harm is not None:
        cluster = slowed_cluster(cluster, harm, said)
    options = _options(beside, library, nccl, sharp, nvls, adaptive, algorithm)
    times = collective_time(cluster, said, asked, Placement.of(width, across), options=options)
    if as_json:
        answer = _answer(cluster, times, options, beside) | ({} if harm is None else impact_object(harm))
        click.echo(json.dumps(answer, indent=2))
    else:
        _table(cluster, times, beside)
        if harm is not None:
            show_impact(harm)
    return 0


def _options(
    beside: MeasuredCollective | None,
    library: str,
    nccl: str | None,
    sharp: bool | None,
    nvls: bool | None,
    adaptive: bool | None,
    algorithm: str | None,
) -> Options:
    from assay.fabric.collective import Options, is_added_in_switches

    version = nccl or (beside.nccl if beside and library == "nccl" else None) or "2.27"
    return Options(
        library=library,
        nccl=_version(version),
        sharp=sharp,
        nvls=nvls,
        adaptive_routing=adaptive,
        algorithm=algorithm.upper() if algorithm else None,
        reduces_in_switch=beside is None or is_added_in_switches(beside.dtype),
        launcher="thread" if beside is not None and beside.one_process else "graph",
    )


def _version(text: str) -> tuple[int, int]:
    from assay.errors import InputError

    parts = text.split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise InputError(f"{text!r} is not a version of NCCL", fix="write it as 2.27")
    return int(parts[0]), int(parts[1])


def _measured_s(times: CollectiveTimes, beside: MeasuredCollective | None) -> list[float | None]:
    """The measured time at each predicted size, None where there is none."""
    known = dict(zip(beside.bytes, beside.time_s, strict=True)) if beside else {}
    return [known.get(int(size)) for size in times.bytes]


def _answer(
    cluster: Cluster, times: CollectiveTimes, options: Options, beside: MeasuredCollective | None
) -> dict[str, object]:
    from assay import __version__

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
    if beside is not None:
        for point, predicted, seen in zip(points, times.time_s, _measured_s(times, beside), strict=True):
            point["measured_s"] = seen
            point["error_frac"] = None if seen is None else float(predicted) / seen - 1
    return {
        "schema_version": 1,
        "command": "predict collective",
        "assay_version": __version__,
        "cluster": cluster.id,
        "library": f"{options.library} {options.nccl[0]}.{options.nccl[1]}",
        "points": points,
        "extrapolated": list(times.extrapolated),
    }


def _table(cluster: Cluster, times: CollectiveTimes, beside: MeasuredCollective | None) -> None:
    from assay.units import show

    click.echo(
        f"{times.op} on {cluster.name}: {int(times.ranks.flat[0])} ranks, {int(times.nodes.flat[0])} nodes\n"
    )
    click.echo(
        f"{'size':>10} {'time':>10} {'80 % range':>23} {'algbw':>11} {'busbw':>11}  {'choice':<17} bound by"
        + (f"   {'measured':>10} {'error':>7}" if beside else "")
    )
    seen = _measured_s(times, beside)
    for at in range(times.bytes.size):
        choice = f"{times.algorithm[at]}/{times.protocol[at]}".rstrip("/")
        between = f"{show(float(times.low_s[at]), 's')} … {show(float(times.high_s[at]), 's')}"
        click.echo(
            f"{show(float(times.bytes[at]), 'B'):>10} {show(float(times.time_s[at]), 's'):>10} {between:>23} "
            f"{show(float(times.algbw_Bps[at]), 'B/s'):>11} {show(float(times.busbw_Bps[at]), 'B/s'):>11}  "
            f"{choice:<17} {times.bound_by[at]}" + _error(float(times.time_s[at]), seen[at], bool(beside))
        )
    errors = [abs(float(t) / m - 1) for t, m in zip(times.time_s, seen, strict=True) if m]
    if errors and beside:
        middle = f"{statistics.median(errors):.1%}"
        click.echo(f"\nmedian error {middle} over {len(errors)} sizes of {beside.file}")
    if times.extrapolated:
        click.echo(f"\nextrapolated: no measurement stands behind {', '.join(times.extrapolated)}")


def _error(predicted_s: float, measured_s: float | None, wanted: bool) -> str:
    from assay.units import show

    if not wanted:
        return ""
    if measured_s is None:
        return f"   {'–':>10}"
    return f"   {show(measured_s, 's'):>10} {predicted_s / measured_s - 1:>+7.1%}"
