"""What nccl-tests and rccl-tests report, as text or as JSON: the records, and the count of ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assay.errors import InputError

#: The program's name (without `_perf`) to the collective that it runs.
COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all_v",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "sendrecv": "send_recv",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
}
# busbw/algbw by the tools' own definition: 2(n-1)/n, or (n-1)/n; the others print 1 for any n.
_TWICE = {"all_reduce"}
_ONCE = {"all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "gather", "scatter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One rank of the list of devices; `busid` as printed (`0x8d`, `0000:8d:00`)."""

    line: int
    rank: int
    group: int | None
    pid: int | None
    host: str
    device: int
    busid: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the benchmark was run: sizes in bytes, counts of iterations; None where the file does not say."""

    threads: int
    gpus: int
    min_bytes: int
    max_bytes: int
    step_factor: int | None
    step_bytes: int | None
    warmup_iters: int | None
    iters: int
    agg_iters: int | None
    validation: bool | None
    graph: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationTimes:
    """Times of single iterations (`-I 1`); the text form prints only min, max, p99 and cv."""

    min_s: float | None
    max_s: float | None
    p99_s: float | None
    cv_frac: float | None
    mean_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    stdev_s: float | None = None
    skipped: int | None = None
    times_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One result, out of place or in place; None where the tool printed N/A, nan or inf.

    `wrong` counts wrong elements; `max_error` is what versions up to 2.11 print instead.
    """

    time_s: float | None
    algbw_Bps: float | None
    busbw_Bps: float | None
    wrong: int | None = None
    max_error: float | None = None
    iterations: IterationTimes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One message size. `redop` and `root` are None where the collective or the version has none."""

    line: int
    bytes: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    out_of_place: Placement | None
    in_place: Placement | None
    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTests:
    """One run of one benchmark program, complete to its footer.

    `collective` is None when neither the file nor the caller says it. `ranks` is the size of one
    communicator and `ranks_from` says how it is known, or why it is not. `avg_busbw_Bps` averages all
    sizes and both placements, so it means something only for a single size. `cpu_time` is true when
    the times are CPU times (`-C`). `resolution_Bps` is the last digit of a printed bandwidth below
    1000 GB/s. `env` holds NCCL's own variables only.
    """

    tool: str
    version: str | None
    library_version: str | None
    first_line: int
    last_line: int
    program: str | None
    collective: str | None
    settings: Settings | None
    devices: tuple[Device, ...]
    ranks: int | None
    ranks_from: str
    rows: tuple[Row, ...]
    out_of_bounds: int
    avg_busbw_Bps: float | None
    resolution_Bps: float
    cpu_time: bool = False
    errors: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    log_lines: int = 0
    unread: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise InputError(f"{self.tool} ran from line {self.first_line} without a result row")
        if self.ranks is not None and self.ranks < 1:
            raise InputError(f"{self.ranks} ranks cannot run a collective")


def collective_of(program: str | None, told: str | None, where: str) -> str | None:
    """The collective by the program's name (`/x/alltoall_perf_mpi`), checked against what the caller told."""
    stem = program.rsplit("/", 1)[-1].split("_perf")[0] if program else None
    found = COLLECTIVES.get(stem) if stem else None
    if found and told and found != told:
        raise InputError(
            f"the file is from {program}, which runs {found}, but {told} was said",
            where=where,
            fix="leave the collective away, or give the file it belongs to",
        )
    return found or told


def with_collective(run: NcclTests, told: str, where: str) -> NcclTests:
    """The run as one of the collective that a person named, with its ranks checked against it."""
    collective = collective_of(run.program, told, where)
    ranks, ranks_from = settle_ranks(
        collective, run.devices, run.rows, where=where, resolution_Bps=run.resolution_Bps
    )
    return replace(run, collective=collective, ranks=ranks, ranks_from=ranks_from)


def library_version(code: int) -> str:
    """NCCL's version number as people write it: 23007 is 2.30.7, 2804 is 2.8.4."""
    big = 10000 if code >= 10000 else 1000
    return f"{code // big}.{code % big // 100}.{code % 100}"


def settle_ranks(
    collective: str | None,
    devices: Sequence[Device],
    rows: Sequence[Row],
    *,
    where: str,
    resolution_Bps: float,
) -> tuple[int | None, str]:
    """The number of ranks from the device list, checked against busbw/algbw; and how it is known.

    `resolution_Bps` is the last digit that the tool prints. all_reduce: r = 2(n-1)/n, so n = 2/(2-r);
    all_gather and its kind: r = (n-1)/n, so n = 1/(1-r). Raises `InputError` with the arithmetic.
    """
    sizes = set(Counter(device.group for device in devices).values())
    listed = sizes.pop() if len(sizes) == 1 else None
    bounds = _rank_bounds(collective, rows, resolution_Bps=resolution_Bps)
    if bounds is None:
        return listed, "device list" if listed else "neither a device list nor a ratio of bandwidths tells it"
    low, high, row, ratio = bounds
    top = 2 if collective in _TWICE else 1
    solved = (
        "no number of ranks"
        if ratio >= top
        else f"n = {top}/({top} - {ratio:.4f}) = {top / (top - ratio):.2f}"
    )
    if low > high:
        raise InputError(
            f"the rows disagree about the number of ranks: busbw/algbw allows at least {low:.2f} in one and "
            f"at most {high:.2f} in another",
            where=where,
            fix="is this one run? rows of several runs must not be pasted together",
        )
    if listed is not None and not low <= listed <= high:
        raise InputError(
            f"the device list has {listed} ranks, but busbw/algbw is {ratio:.4f} on line {row}; "
            f"for {collective} that is {'2(n-1)/n' if top == 2 else '(n-1)/n'}, so {solved}",
            where=where,
            fix=f"check that the devices belong to this run and that it is {collective}",
        )
    if listed is not None:
        return listed, "device list, agrees with busbw/algbw"
    least, most = math.ceil(low), math.floor(high) if math.isfinite(high) else None
    if least == most:
        return least, "busbw/algbw"
    return None, f"busbw/algbw allows {least} to {'any number of' if most is None else most} ranks"


def _rank_bounds(
    collective: str | None, rows: Sequence[Row], *, resolution_Bps: float
) -> tuple[float, float, int, float] | None:
    """The least and the most ranks that all rows allow, and the most exact row with its ratio."""
    if collective not in _TWICE | _ONCE:
        return None
    top = 2.0 if collective in _TWICE else 1.0
    low, high, best = 1.0, math.inf, (0.0, 0, 0.0)
    for line, algbw, busbw in _bandwidths(rows):
        # Six characters hold two decimals below 1000 GB/s, one below 10 000, none above.
        digits = max(0, math.floor(math.log10(max(algbw, busbw) / 1e9)) - 2)
        half = resolution_Bps / 2 * 10**digits * (1 + 1e-6)
        if algbw < 10 * half:
            continue
        least, most = (busbw - half) / (algbw + half), (busbw + half) / (algbw - half)
        low = max(low, top / (top - least) if least < top else math.inf)
        high = min(high, top / (top - most) if most < top else math.inf)
        best = max(best, (algbw, line, busbw / algbw))
    return (low * (1 - 1e-9), high * (1 + 1e-9), best[1], best[2]) if best[1] else None


def _bandwidths(rows: Iterable[Row]) -> Iterable[tuple[int, float, float]]:
    for row in rows:
        for placement in (row.out_of_place, row.in_place):
            if placement and placement.algbw_Bps and placement.busbw_Bps is not None:
                yield row.line, placement.algbw_Bps, placement.busbw_Bps
