"""Storage through fio: 4 KiB random reads and 1 MiB sequential transfers, one job and all ranks at once."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import AssayError, MeasurementError
from assay.measure.context import Context, RecipeParam
from assay.measure.disk import emptied, filesystem_of, place, require_room, takes_direct
from assay.measure.node import ranks_on_this_node
from assay.measure.registry import benchmark

if TYPE_CHECKING:
    from assay.formats.fio import Direction, FioJob

_READ_BYTES, _TRANSFER_BYTES = 4 << 10, 1 << 20
#: What fio may take beyond its runtime to start, lay out and end.
_MARGIN_S = 10.0
#: Noise that zlib packs below this share of its size is not noise.
_INCOMPRESSIBLE_FRAC = 0.95

_YIELDS = {
    "storage.sequential_write.bandwidth": "B/s",
    "storage.sequential_read.bandwidth": "B/s",
    "storage.random_read_4k.iops": "1/s",
    "storage.random_read_4k.latency": "s",
}


@dataclass(frozen=True)
class _Found:
    """One reading before it is recorded."""

    quantity: str
    value: float
    load: str
    recipe: dict[str, RecipeParam]
    n: int
    cpu_share_frac: float | None


@benchmark(
    "storage",
    summary="4 KiB random reads and sequential transfers",
    yields=tuple(_YIELDS),
    needs=("fio",),
    wave="node",
)
def storage(context: Context) -> None:
    """The first rank of each node runs fio, with one job and then as many as the node has ranks.

    All nodes work at the same time, and the recipe says how many. Each job has a file of its own; the files
    together are `file_bytes`. What keeps one node from measuring does not keep the others.
    """
    jobs = len(ranks_on_this_node(context))
    leads = context.local_rank == 0
    nodes = round(context.agree(float(leads), "sum"))
    found: list[_Found] = []
    reason: str | None = None
    for load, count in (("alone", 1), ("all", jobs)):
        context.barrier()
        if leads and reason is None:
            try:
                found += _measure(context, load, count, nodes)
            except (AssayError, OSError) as error:
                reason = error.what if isinstance(error, AssayError) else str(error)
    context.barrier()
    subject = f"node:{context.host}"
    if leads and reason is not None:
        for quantity, unit in _YIELDS.items():
            context.missing(quantity, unit, reason, subject=subject)
    elif leads:
        for one in found:
            context.record(
                one.quantity,
                one.value,
                _YIELDS[one.quantity],
                subject=subject,
                recipe=one.recipe,
                n=one.n,
                cpu_share_frac=one.cpu_share_frac,
                absolute=one.load == "all",
            )


def _measure(context: Context, load: str, jobs: int, nodes: int) -> Iterator[_Found]:
    """Write the files, read them in order, read them at random; they are gone afterwards."""
    with emptied(place(context, f"storage-{context.host}")) as folder:
        files = _Files.plan(context, folder, jobs)
        fio = _Fio(context, files)
        about = files.recipe | {"load": load, "nodes": nodes}

        def found(quantity: str, value: float, job: FioJob, ios: int, **more: RecipeParam) -> _Found:
            cpu = None if job.user_cpu_frac is None else job.user_cpu_frac + (job.system_cpu_frac or 0.0)
            return _Found(quantity, value, load, about | more, ios, cpu)

        job, done = fio.run("write", _TRANSFER_BYTES)
        files.require_written(done.io_bytes)
        yield found(
            "storage.sequential_write.bandwidth", done.bandwidth_Bps, job, done.ios, bs=_TRANSFER_BYTES
        )
        job, done = fio.run("read", _TRANSFER_BYTES)
        yield found(
            "storage.sequential_read.bandwidth", done.bandwidth_Bps, job, done.ios, bs=_TRANSFER_BYTES
        )
        job, done = fio.run("randread", _READ_BYTES)
        yield found("storage.random_read_4k.iops", done.iops, job, done.ios, bs=_READ_BYTES)
        for name, percent in (("p50", 50.0), ("p99", 99.0)):
            latency_s = done.clat.percentile_s(percent) if done.clat else None
            if latency_s is None:
                raise MeasurementError(f"fio gave no {name} of the completion latency")
            yield found(
                "storage.random_read_4k.latency", latency_s, job, done.ios, bs=_READ_BYTES, statistic=name
            )


@dataclass(frozen=True)
class _Files:
    """The file set: one file a job in `folder`, `direct` where the filesystem takes direct I/O."""

    folder: Path
    jobs: int
    bytes_per_job: int
    direct: bool
    recipe: dict[str, RecipeParam]

    @classmethod
    def plan(cls, context: Context, folder: Path, jobs: int) -> _Files:
        """Check that there is room, and what the filesystem can do."""
        bytes_per_job = max(1, context.settings["file_bytes"] // jobs // _TRANSFER_BYTES) * _TRANSFER_BYTES
        total_bytes = jobs * bytes_per_job
        require_room(folder, total_bytes)
        direct = takes_direct(folder)
        engine = _engine(direct)
        return cls(
            folder=folder,
            jobs=jobs,
            bytes_per_job=bytes_per_job,
            direct=direct,
            recipe={
                "iodepth": 1 if engine == "psync" else context.settings["iodepth"],
                "direct": direct,
                "file_bytes": total_bytes,
                "ioengine": engine,
                "jobs": jobs,
                "filesystem": filesystem_of(folder),
            }
            # Without direct I/O the file is dropped from the page cache before each run and warms up in it.
            | ({} if direct else {"page_cache": "dropped before"}),
        )

    def require_written(self, io_bytes: int | None) -> None:
        """Every file is there at its full size and holds noise, so that nothing can shorten the reading."""
        files = sorted(self.folder.iterdir())
        sizes = [file.stat().st_size for file in files]
        wanted = [self.bytes_per_job] * self.jobs
        if sizes != wanted or io_bytes != sum(wanted):
            raise MeasurementError(f"fio wrote {io_bytes} B into files of {sizes} B instead of {wanted} B")
        for file in files:
            with file.open("rb") as content:
                for part in range(4):
                    content.seek(part * self.bytes_per_job // 4)
                    block = content.read(_TRANSFER_BYTES // 4)
                    if len(zlib.compress(block, 1)) < _INCOMPRESSIBLE_FRAC * len(block):
                        raise MeasurementError(f"{file.name} holds data that can be compressed")


@dataclass(frozen=True)
class _Fio:
    """fio over the file set, within the time that is left."""

    context: Context
    files: _Files

    def run(self, rw: str, block_bytes: int) -> tuple[FioJob, Direction]:
        """All jobs of one kind as one, and what it did; raises where fio's own counts disagree."""
        from assay.formats.fio import parse

        runtime_s = self.context.settings["runtime_s"]
        # Writing ends with the file; reading goes on, from the start again, until its time is over.
        limit_s = self.context.time_left_s() - _MARGIN_S / 2
        if rw != "write":
            limit_s = min(limit_s, runtime_s + _MARGIN_S)
        if limit_s <= runtime_s:
            raise MeasurementError(f"no time is left for the {rw} of {runtime_s:g} s")
        text = _output(self._command(rw, block_bytes, runtime_s), limit_s)
        (report,) = parse(text.splitlines(), f"fio {rw}")
        job = report.jobs[0]
        done = job.write if rw == "write" else job.read
        if job.error or done is None:
            raise MeasurementError(f"the {rw} of fio failed with {os.strerror(job.error)}")
        if done.io_bytes != done.ios * block_bytes:
            raise MeasurementError(f"fio counts {done.ios} blocks of {block_bytes} B as {done.io_bytes} B")
        return job, done

    def _command(self, rw: str, block_bytes: int, runtime_s: float) -> list[str]:
        files, recipe = self.files, self.files.recipe
        options: dict[str, str | int] = {
            "name": "assay",
            "directory": str(files.folder),
            "filename_format": "job.$jobnum",
            "size": files.bytes_per_job,
            "rw": rw,
            "bs": block_bytes,
            "ioengine": str(recipe["ioengine"]),
            "iodepth": int(recipe["iodepth"]),
            "direct": int(files.direct),
            "invalidate": 1,
            "numjobs": files.jobs,
            "randseed": self.context.seed + self.context.replicate,
            "output-format": "json",
            "eta": "never",
        }
        flags = ["--thread", "--group_reporting"]
        if rw == "write":
            options |= {"buffer_compress_percentage": 0, "end_fsync": 1}
            flags.append("--refill_buffers")
        else:
            options |= {"runtime": f"{runtime_s:g}s", "allow_file_create": 0}
            flags.append("--time_based")
        return ["fio", *(f"--{name}={value}" for name, value in options.items()), *flags]


def _output(command: list[str], limit_s: float) -> str:
    """What fio printed; it is killed when it takes longer than `limit_s`."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except FileNotFoundError:
        raise MeasurementError("fio is not installed (package fio)") from None
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"fio did not end within {limit_s:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MeasurementError(f"fio ended with {done.returncode}: {said[0] if said else 'no message'}")
    return done.stdout


def _engine(direct: bool) -> str:
    """libaio or io_uring, which keep a queue full, where fio was built with one; else psync."""
    known = _output(["fio", "--enghelp"], _MARGIN_S).split()
    return next((name for name in ("libaio", "io_uring") if direct and name in known), "psync")
