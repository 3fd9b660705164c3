"""`assay plan sweep`: a grid done in pieces on a process pool or on Dask, into CSV or Parquet.

Every finished piece is a file of its own beside the output, written in one step: a sweep that is stopped, or
whose workers die, goes on where it was.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.api.clusters import read_cluster
from assay.api.planning import JobOptions, find_job, find_work, fixed_axes
from assay.api.pool import process_pool
from assay.api.predicting_jobs import is_job
from assay.catalog.faults import failure_rate
from assay.codec.sweep import load_sweep
from assay.codec.text_file import write_text, writing
from assay.domain.cluster import Cluster
from assay.domain.layout import parse_layout
from assay.errors import AssayError, EnvironmentLackError, InputError
from assay.plan.job import Job as Training
from assay.plan.job import with_layout
from assay.plan.ranking import rank
from assay.plan.reliability import Job, Restart, best_interval_s, goodput_frac
from assay.plan.sweep import AXES, RESULTS, Piece, Point, Row, failed, pieces, points
from assay.plan.work import work_on
from assay.predict.calibration import calibrated_physics, network_of
from assay.predict.jobs.price import RANGE
from assay.predict.prediction import Prediction, predict

Progress = Callable[[int, int], None]

#: Points of a piece: long enough to be worth the way to a worker, short enough to be lost.
PIECE = 4
#: A piece whose worker died is tried again alone; one that then kills its worker so often is given up.
_TRIES_ALONE = 2
_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep wrote: rows in all, those with an error, points found done already, and workers that were
    lost."""

    file: Path
    rows: int
    errors: int
    done_before: int
    workers_lost: int


def sweep(
    source: Path,
    out: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    piece: int = PIECE,
    progress: Progress | None = None,
) -> Swept:
    """Do the grid of a file; `out` ends in .csv or .parquet. Rows stand in the grid's order, whoever did
    them.

    Raises `InputError` for the file, and `EnvironmentLackError` where Parquet or Dask is not installed.
    """
    write = _writer(out)
    every = points(load_sweep(source).axes)
    beside = str(source.resolve().parent)
    todo = pieces([_placed(point, beside) for point in every], piece)
    folder = out.with_name(out.name + ".parts")
    with writing(out):
        folder.mkdir(parents=True, exist_ok=True)
    held = {one.key: rows for one in todo if (rows := _read_part(folder, one)) is not None}
    before = sum(len(rows) for rows in held.values())
    left = [one for one in todo if one.key not in held]
    lost = Counter[str]()
    done = before
    run = _on_dask(left, scheduler, lost) if scheduler else _on_pool(left, workers or _cpus(), lost)
    if progress:
        progress(done, len(every))
    for one, rows in run:
        held[one.key] = rows
        _write_part(folder, one, rows)
        done += len(rows)
        if progress:
            progress(done, len(every))
    table = [row for one in todo for row in held[one.key]]
    write(out, table)
    return Swept(
        file=out,
        rows=len(table),
        errors=sum(row["error"] is not None for row in table),
        done_before=before,
        workers_lost=lost["workers"],
    )


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _placed(point: Point, beside: str) -> Point:
    """Files named in a grid are looked for beside it; names of the catalogue stay."""
    found = dict(point)
    for axis in ("cluster", "workload"):
        path = Path(beside) / str(found[axis])
        if path.exists() and not path.is_dir():
            found[axis] = str(path)
    return found


def do_piece(some: Sequence[Point]) -> list[Row]:
    """The rows of some points; what a point's input gets wrong is its row's error."""
    rows = []
    for point in some:
        try:
            rows.append(_row(point))
        except AssayError as fault:
            rows.append(failed(point, f"{fault.what}" + (f"; {fault.fix}" if fault.fix else "")))
    return rows


def _row(point: Point) -> Row:
    cluster = read_cluster(str(point["cluster"])).of(_whole(point["nodes"]))
    options = JobOptions(
        workload=str(point["workload"]),
        global_batch=_whole(point["global_batch"]) or None,
        seq_len=_whole(point["seq_len"]) or None,
        task=str(point["task"]),
        stack=str(point["stack"]),
        tokens=_number(point["tokens"]) or None,
        precision="bf16",
    )
    if is_job(options.workload):
        return {**point, **_phased(point, options, cluster)}
    job = find_job(options)
    done = _predicted(str(point["layout"]), options, job, cluster)
    t = done.step_time_s
    values: Row = {
        "gpus": done.situation.layout.ranks,
        "chosen_layout": layout_text(done),
        "step_time_s": t.value,
        "step_low_s": t.low,
        "step_high_s": t.high,
        "tokens_per_s_per_gpu": done.tokens_per_s_per_gpu,
        "mfu_frac": done.mfu_frac,
        "memory_bytes": done.total_bytes,
        "fits": done.fits,
    }
    return {**point, **_in_time(point, values, done.days(job.tokens), cluster)}


def _predicted(layout: str, options: JobOptions, job: Training, cluster: Cluster) -> Prediction:
    """The prediction of the layout that the point names, or of the best."""
    if layout == "best":
        return (
            rank(job, cluster, fixed=fixed_axes(options), count=1, front=0, small=True)
            .candidates[0]
            .prediction
        )
    base = job.on(cluster)
    chosen = parse_layout(layout, gpus=cluster.gpus)
    model = job.workload.model
    chosen.check(gpus=cluster.gpus, layers=model.layers, heads=model.heads, seq_len=job.workload.seq_len)
    physics = calibrated_physics(cluster.calibration)
    return predict(with_layout(base, chosen), network_of(cluster), physics=physics)


def _phased(point: Point, options: JobOptions, cluster: Cluster) -> Row:
    """The row of a job of phases, which knows neither tokens nor layouts."""
    steps = _number(point["steps"]) or None
    work = work_on(find_work(replace(options, tokens=None, steps=steps)), cluster)
    low, high = RANGE
    one = work.phased
    step_s = one.step_s if one else None
    values: Row = {
        "gpus": cluster.gpus,
        "step_time_s": step_s,
        "step_low_s": None if step_s is None else step_s * low,
        "step_high_s": None if step_s is None else step_s * high,
        "memory_bytes": sum(one.memory_bytes.values()) if one else None,
        "fits": True,
    }
    return _in_time(point, values, work.ideal_h / 24, cluster)


def _in_time(point: Point, values: Row, days: float, cluster: Cluster) -> Row:
    """The results of a row with its days, and what failures make of them."""
    said = _number(point["failures_per_1000_node_days"])
    rate = said / 1000 / _DAY_S if said else failure_rate(len(cluster.node.gpus)).value_per_s
    failing = Job(
        nodes=cluster.count, failures_per_s=rate, save_s=_number(point["save_s"]), restart=Restart()
    )
    goodput = goodput_frac(failing, best_interval_s(failing))
    times: Row = {
        "days": days,
        "goodput_frac": goodput,
        "days_with_failures": days / goodput if goodput else None,
    }
    return dict.fromkeys(RESULTS) | values | times


def layout_text(done: Prediction) -> str:
    """A layout as `--layout` takes it."""
    one = done.situation.layout
    words = [f"{name}={getattr(one, name)}" for name in ("tp", "pp", "vpp", "cp", "ep", "dp", "micro_batch")]
    words += [f"{name}={getattr(one, name)}" for name in ("sharding", "recompute", "precision")]
    return ",".join(words)


def _number(value: object) -> float:
    return float(str(value))


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{value!r} is not a whole number")
    return value


def _on_pool(left: Sequence[Piece], workers: int, lost: Counter[str]) -> Iterator[tuple[Piece, list[Row]]]:
    """Pieces as they are done. When a worker dies, those under way are done again, each alone."""
    waiting, suspects = deque(left), deque[Piece]()
    tries = Counter[str]()
    while waiting or suspects:
        alone = not waiting
        queue, width = (suspects, 1) if alone else (waiting, workers)
        running: dict[Future[list[Row]], Piece] = {}
        with process_pool(width, start="spawn") as pool:
            try:
                while queue or running:
                    while queue and len(running) < width:
                        one = queue.popleft()
                        try:
                            running[pool.submit(do_piece, one.points)] = one
                        except BrokenProcessPool:
                            queue.appendleft(one)
                            raise
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        rows = future.result()
                        yield running.pop(future), rows
            except BrokenProcessPool:
                lost["workers"] += 1
                for future, one in running.items():
                    if future.done() and not future.exception():
                        yield one, future.result()
                        continue
                    tries[one.key] += alone
                    if tries[one.key] < _TRIES_ALONE:
                        suspects.append(one)
                    else:
                        yield one, [failed(point, "its worker was killed each time") for point in one.points]


def _on_dask(left: Sequence[Piece], scheduler: str, lost: Counter[str]) -> Iterator[tuple[Piece, list[Row]]]:
    """Pieces as a Dask scheduler's workers do them; Dask itself repeats those whose worker died."""
    distributed = _load("distributed")
    try:
        client = distributed.Client(scheduler, timeout="20s")
    except (OSError, ValueError) as fault:
        raise InputError(
            f"no Dask scheduler at {scheduler}: {fault}",
            fix="start one: dask scheduler, then dask worker ADDRESS",
        ) from None
    with client:
        by_key = {one.key: one for one in left}
        futures = [client.submit(do_piece, one.points, key=one.key, retries=3) for one in left]
        for future in distributed.as_completed(futures):
            one = by_key[future.key]
            if future.status == "finished":
                yield one, future.result()
            else:
                lost["workers"] += 1
                reason = f"its workers were lost: {future.exception()}"
                yield one, [failed(point, reason) for point in one.points]


def _part(folder: Path, one: Piece) -> Path:
    return folder / f"{one.key}.json"


def _read_part(folder: Path, one: Piece) -> list[Row] | None:
    """The rows of a piece that was done before; None where there are none, or not all of them."""
    try:
        rows = json.loads(_part(folder, one).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return rows if isinstance(rows, list) and len(rows) == len(one.points) else None


def _write_part(folder: Path, one: Piece, rows: list[Row]) -> None:
    write_text(_part(folder, one), json.dumps(rows), fix="free some space, then give the command again")


def _writer(out: Path) -> Callable[[Path, list[Row]], None]:
    """How to write the table; asked first, so that nothing is computed that cannot be written."""
    if out.suffix == ".csv":
        return _write_csv
    if out.suffix == ".parquet":
        _load("pyarrow")
        return _write_parquet
    raise InputError(
        f"--out {out} is neither .csv nor .parquet", fix="name the file rows.csv or rows.parquet"
    )


def _write_csv(out: Path, table: list[Row]) -> None:
    fresh = out.with_name(out.name + ".new")
    with fresh.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*AXES, *RESULTS])
        writer.writeheader()
        writer.writerows(table)
    os.replace(fresh, out)


def _write_parquet(out: Path, table: list[Row]) -> None:
    arrow, parquet = _load("pyarrow"), _load("pyarrow.parquet")
    fresh = out.with_name(out.name + ".new")
    parquet.write_table(arrow.Table.from_pylist(table), fresh)
    os.replace(fresh, out)


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        raise EnvironmentLackError(
            f"{name} is not installed: {fault}",
            fix="pip install 'assay[sweep]', or write .csv on this machine",
        ) from fault
