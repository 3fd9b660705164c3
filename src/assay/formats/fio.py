"""fio's JSON output (`--output-format=json`), with the warnings that fio prints around it.

fio reports 0 for what it did not do, also when a job failed before its first I/O with `error` 0; a
direction without a single I/O is therefore None here. Times are ns (µs before 3.0), `bw_bytes` B/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assay.errors import InputError
from assay.formats.json_text import Fields, read_object
from assay.formats.lines import real
from assay.formats.recognise import file_format

# fio's own defaults (manual, "Job file parameters"); an option that the file leaves away has these.
_DEFAULT_BS, _DEFAULT_IODEPTH, _DEFAULT_NUMJOBS = "4k", "1", "1"
_SIZE = re.compile(r"(\d+)(?:([kmgtp])(i?b?)|b?)", re.ASCII | re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A latency distribution; `percentiles_s` holds (percent, seconds), ascending."""

    min_s: float | None
    max_s: float | None
    mean_s: float | None
    stdev_s: float | None
    samples: int | None
    percentiles_s: tuple[tuple[float, float], ...]

    def percentile_s(self, percent: float) -> float | None:
        """The percentile as fio reported it, or None when it did not; never interpolated."""
        return next((value for at, value in self.percentiles_s if abs(at - percent) < 1e-6), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """What was read, written or trimmed: `clat` is from submission to completion, `lat` the whole."""

    ios: int
    io_bytes: int | None
    iops: float
    bandwidth_Bps: float
    runtime_s: float | None
    clat: Latency | None
    lat: Latency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FioJob:
    """One job (or one group of them, with group_reporting).

    `options` holds the global and the job's own options as text, the latter winning; `rw`, `bs_bytes`
    and so on are read from them with fio's defaults, None when fio printed no options at all.
    `error` other than 0 is the errno with which the job failed. `merged`: fio shows one entry for all
    `numjobs` (group_reporting, which fio leaves out of the options that it prints).
    """

    line: int
    name: str
    group: int | None
    error: int
    elapsed_s: float | None
    options: tuple[tuple[str, str], ...]
    rw: str | None
    bs_bytes: int | None
    iodepth: int | None
    numjobs: int | None
    direct: bool | None
    ioengine: str | None
    size_bytes: int | None
    filename: str | None
    merged: bool
    read: Direction | None
    write: Direction | None
    trim: Direction | None
    user_cpu_frac: float | None
    system_cpu_frac: float | None

    @property
    def did_work(self) -> bool:
        """Whether the job ended without an error and did at least one I/O."""
        return self.error == 0 and any((self.read, self.write, self.trim))


@dataclass(frozen=True, slots=True, kw_only=True)
class FioReport:
    """One fio run; `time_s` is seconds since 1970."""

    tool: str
    version: str | None
    time_s: float | None
    first_line: int
    last_line: int
    jobs: tuple[FioJob, ...]
    disks: tuple[str, ...]
    unread: tuple[int, ...] = ()


def _recognise(head: Sequence[str]) -> bool:
    return any(line.lstrip().startswith('"fio version"') or '{"fio version"' in line for line in head)


@file_format("fio", "fio JSON output", _recognise)
def parse(lines: Iterable[str], name: str) -> tuple[FioReport, ...]:
    """The fio report in the file. Raises `InputError` for cut-off JSON and for client/server reports."""
    found = read_object(lines, name, title="fio JSON output")
    root = found.root
    if root.has("client_stats") and not root.has("jobs"):
        raise InputError(
            "this is fio's client/server report, which is not read",
            where=root.where,
            fix="run fio on each node by itself with --output-format=json",
        )
    root.need("fio version", "jobs")
    jobs = root.children("jobs")
    if not jobs:
        raise InputError("fio ran no job", where=root.where, fix="check fio's messages and run it again")
    general = _options(root.child("global options"))
    numbers = found.lines_of("jobname", len(jobs))
    return (
        FioReport(
            tool="fio",
            version=root.text("fio version"),
            time_s=root.real("timestamp"),
            first_line=found.first_line,
            last_line=found.last_line,
            jobs=tuple(
                _job(
                    Fields(items=job.items, path=job.path, where=f"{name}:{line}"),
                    general,
                    line,
                    sum(other.items.get("jobname") == job.items.get("jobname") for other in jobs),
                )
                for job, line in zip(jobs, numbers, strict=True)
            ),
            disks=tuple(disk.text("name") or "" for disk in root.children("disk_util")),
            unread=found.unread,
        ),
    )


def _options(fields: Fields | None) -> dict[str, str]:
    if fields is None:
        return {}
    return {key: str(value) for key, value in fields.items.items() if isinstance(value, str | int | float)}


def _job(job: Fields, general: dict[str, str], line: int, entries: int) -> FioJob:
    job.need("jobname", "error")
    told = job.has("job options") or bool(general)
    options = general | _options(job.child("job options"))
    base = 1000 if options.get("kb_base") == "1000" else 1024

    def option(key: str, default: str | None = None) -> str | None:
        return options.get(key, default) if told else None

    def count(key: str, default: str) -> int | None:
        return _size(option(key, default), base)

    direct = option("direct", "0")
    elapsed, user, system = job.real("elapsed"), job.real("usr_cpu"), job.real("sys_cpu")
    return FioJob(
        line=line,
        name=job.text("jobname") or "",
        group=job.whole("groupid"),
        error=job.whole("error") or 0,
        elapsed_s=elapsed,
        options=tuple(options.items()),
        rw=option("rw", option("readwrite", "read")),
        bs_bytes=_size(option("bs", option("blocksize", _DEFAULT_BS)), base),
        iodepth=count("iodepth", _DEFAULT_IODEPTH),
        numjobs=count("numjobs", _DEFAULT_NUMJOBS),
        direct=None if direct is None else direct not in ("0", "false"),
        ioengine=option("ioengine"),
        size_bytes=_size(option("size"), base),
        filename=option("filename"),
        merged=(count("numjobs", _DEFAULT_NUMJOBS) or 1) > 1 and entries == 1,
        read=_direction(job.child("read")),
        write=_direction(job.child("write")),
        trim=_direction(job.child("trim")),
        user_cpu_frac=None if user is None else user / 100,
        system_cpu_frac=None if system is None else system / 100,
    )


def _size(text: str | None, base: int) -> int | None:
    """fio's sizes: "4k" is 4096 unless kb_base is 1000; a percentage, list or range has no single value."""
    match = _SIZE.fullmatch(text.strip()) if text else None
    if match is None or len(match[1]) > 18:
        return None
    prefix = (match[2] or "").lower()
    # Tried with fio 3.33: only "kib" stands for the other base than "k", "kb" and "ki" do.
    unit = 2024 - base if (match[3] or "").lower() == "ib" else base
    return int(match[1]) * (unit ** _POWERS[prefix] if prefix else 1)


def _direction(item: Fields | None) -> Direction | None:
    if item is None:
        return None
    item.need("iops", "total_ios")
    ios, iops = item.whole("total_ios"), item.real("iops")
    if not ios or iops is None:
        return None
    rate, kib_rate = item.real("bw_bytes"), item.real("bw")  # bw_bytes is there since fio 3.0
    if rate is None and kib_rate is None:
        raise InputError(
            f"{item.path}bw is missing", where=item.where, fix="give fio's output as it was written"
        )
    runtime_ms = item.real("runtime")
    return Direction(
        ios=ios,
        io_bytes=item.whole("io_bytes"),
        iops=iops,
        bandwidth_Bps=rate if rate is not None else (kib_rate or 0.0) * 1024,
        runtime_s=None if runtime_ms is None else runtime_ms / 1e3,
        clat=_latency(item, "clat"),
        lat=_latency(item, "lat"),
    )


def _latency(item: Fields, key: str) -> Latency | None:
    nanoseconds, microseconds = item.child(f"{key}_ns"), item.child(key)
    found, unit_s = (nanoseconds, 1e-9) if nanoseconds else (microseconds, 1e-6)
    if found is None:
        return None
    table = found.child("percentile")
    percentiles = [
        (at, value * unit_s)
        for percent in (table.items if table else ())
        if (at := real(percent)) and table and (value := table.real(percent)) is not None
    ]

    def seconds(name: str) -> float | None:
        value = found.real(name)
        return None if value is None else value * unit_s

    return Latency(
        min_s=seconds("min"),
        max_s=seconds("max"),
        mean_s=seconds("mean"),
        stdev_s=seconds("stddev"),
        samples=found.whole("N"),
        percentiles_s=tuple(sorted(percentiles)),  # before 3.0 padded with "0.00", left out above
    )
