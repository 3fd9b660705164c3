"""The JSON file that nccl-tests and rccl-tests write with `-J` (version 3).

Booleans are the texts "true" and "false", a missing number is "nan", `root` is a padded text, and the
file holds the whole environment, of which only NCCL's own variables are kept: the rest may be secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.errors import InputError
from assay.formats.json_text import Fields, read_object
from assay.formats.lines import scaled
from assay.formats.nccl_record import (
    Device,
    IterationTimes,
    NcclTests,
    Placement,
    Row,
    Settings,
    collective_of,
    library_version,
    settle_ranks,
)
from assay.formats.recognise import file_format

VERSIONS = (3,)
_RESOLUTION_BPS = 1e3  # six decimals of GB/s
_OWN_ENV = ("NCCL_", "RCCL_")


def _recognise(head: Sequence[str]) -> bool:
    text = "\n".join(head)
    return text.lstrip("\ufeff \n").startswith("{") and '"nccl_version"' in text


@file_format("nccl-tests-json", "nccl-tests -J JSON", _recognise)
def parse(lines: Iterable[str], name: str, collective: str | None = None) -> tuple[NcclTests, ...]:
    """The one run in the file. `collective` is needed only when `args` does not name the program.

    Raises `InputError` for an unknown version, a cut-off file and a run that did not end.
    """
    found = read_object(lines, name, title="nccl-tests JSON file")
    root, where = found.root, found.root.where
    version = root.whole("version")
    if version not in VERSIONS:
        raise InputError(
            f"version {version} of nccl-tests' JSON is unknown; known: {', '.join(map(str, VERSIONS))}",
            where=where,
            fix="give the text output of the same run instead",
        )
    root.need("config", "results")
    if not (root.has("out_of_bounds") and root.has("end_time")):
        raise InputError(
            "the run did not end: 'out_of_bounds' and 'end_time' are missing",
            where=where,
            fix="let the benchmark run to its end; half a run is not judged",
        )
    config = root.child("config") or root
    bounds = root.child("out_of_bounds") or root
    average = root.child("average_bus_bandwidth")
    results = root.children("results")
    numbers = found.lines_of("size", len(results))
    devices = tuple(
        _device(item, found.first_line) for item in (config.children("devices") or root.children("devices"))
    )
    rows = tuple(_row(item, line) for item, line in zip(results, numbers, strict=True))
    args = root.strings("args")
    known = collective_of(args[0] if args else None, collective, where)
    if not rows:
        raise InputError("the file has no results", where=where, fix="run the benchmark again")
    ranks, ranks_from = settle_ranks(known, devices, rows, where=where, resolution_Bps=_RESOLUTION_BPS)
    library = root.whole("nccl_version")
    bandwidth = average.real("bandwidth") if average else None
    return (
        NcclTests(
            tool="nccl-tests",
            version=None,
            library_version=library_version(library) if library else None,
            first_line=found.first_line,
            last_line=found.last_line,
            program=args[0] if args else None,
            collective=known,
            settings=_settings(config),
            devices=devices,
            ranks=ranks,
            ranks_from=ranks_from,
            rows=rows,
            out_of_bounds=bounds.whole("count") or 0,
            avg_busbw_Bps=None if bandwidth is None else bandwidth * 1e9,
            resolution_Bps=_RESOLUTION_BPS,
            cpu_time=any(item.has("cpu_time") for result in results for item in _placements(result) if item),
            errors=root.strings("errors"),
            env=tuple(_own(root.strings("env"))),
            unread=found.unread,
        ),
    )


def _own(env: Iterable[str]) -> Iterable[tuple[str, str]]:
    for entry in env:
        key, sign, value = entry.partition("=")
        if sign and key.startswith(_OWN_ENV):
            yield key, value


def _whole(fields: Fields, key: str) -> int:
    value = fields.whole(key)
    if value is None:
        raise InputError(
            f"{fields.path}{key} is missing", where=fields.where, fix="give the file as it was written"
        )
    return value


def _settings(config: Fields) -> Settings:
    validation = config.whole("validation")
    return Settings(
        threads=_whole(config, "nthreads"),
        gpus=_whole(config, "ngpus"),
        min_bytes=_whole(config, "minimum_bytes"),
        max_bytes=_whole(config, "maximum_bytes"),
        step_factor=config.whole("step_factor"),
        step_bytes=config.whole("step_bytes"),
        warmup_iters=config.whole("warmup_iters" if config.has("warmup_iters") else "warmup_iterations"),
        iters=_whole(config, "iterations"),
        agg_iters=config.whole("aggregated_iterations"),
        validation=None if validation is None else bool(validation),
        graph=config.whole("graph"),
    )


def _device(item: Fields, line: int) -> Device:
    return Device(
        line=line,
        rank=_whole(item, "rank"),
        group=item.whole("group"),
        pid=item.whole("pid"),
        host=item.text("hostname") or "",
        device=_whole(item, "device"),
        busid=item.text("device_hex") or "",
        name=(item.text("device_info") or "").strip(),
    )


def _placements(result: Fields) -> tuple[Fields | None, Fields | None]:
    return result.child("out_of_place"), result.child("in_place")


def _row(result: Fields, line: int) -> Row:
    redop, root = result.text("redop"), result.whole("root")
    out_of_place, in_place = _placements(result)
    return Row(
        line=line,
        bytes=_whole(result, "size"),
        count=_whole(result, "count"),
        dtype=result.text("type") or "",
        redop=None if redop in (None, "", "none") else redop,
        root=None if root == -1 else root,
        out_of_place=_placement(out_of_place, result.child("out_of_place_per_iter")),
        in_place=_placement(in_place, result.child("in_place_per_iter")),
    )


def _placement(item: Fields | None, per_iter: Fields | None) -> Placement | None:
    if item is None:
        return None
    wrong = item.real("nwrong")
    return Placement(
        time_s=scaled(item.real("cpu_time" if item.has("cpu_time") else "time"), 1e-6),
        algbw_Bps=scaled(item.real("alg_bw"), 1e9),
        busbw_Bps=scaled(item.real("bus_bw"), 1e9),
        wrong=None if wrong is None else round(wrong),
        iterations=_iterations(per_iter) if per_iter else None,
    )


def _iterations(item: Fields) -> IterationTimes:
    def seconds(key: str) -> float | None:
        return scaled(item.real(key), 1e-6)

    return IterationTimes(
        min_s=seconds("min_us"),
        max_s=seconds("max_us"),
        p99_s=seconds("p99_us"),
        cv_frac=scaled(item.real("cv_pct"), 1e-2),
        mean_s=seconds("avg_us"),
        p50_s=seconds("p50_us"),
        p95_s=seconds("p95_us"),
        stdev_s=seconds("stdev_us"),
        skipped=item.whole("skipped_iterations"),
        times_s=tuple(time_us * 1e-6 for time_us in item.reals("times_us")),
    )
