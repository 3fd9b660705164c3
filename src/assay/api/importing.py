"""Results that other tools wrote, as readings: a file is one restart, its recipe is what the file says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.codec.text_file import read_text
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe, RecipeValue
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError
from assay.formats.fio import Direction, FioJob, FioReport
from assay.formats.gemm_table import GemmTable
from assay.formats.nccl_record import NcclTests, Row, with_collective
from assay.formats.nvbandwidth import NvBandwidth, Testcase
from assay.formats.perftest import Perftest
from assay.formats.recognise import load_plugins, parse

#: Stands for the machine that a file does not name.
_SOMEWHERE = "imported"
#: NCCL's names of the number formats.
_DTYPES = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64", "fp8_e4m3": "fp8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The readings of one file; `notes` says what in it could not become one."""

    readings: tuple[Reading, ...]
    ranks: int = 1
    notes: tuple[Message, ...] = ()


def read_results(path: Path, *, collective: str | None = None, restart: int = 0) -> Results:
    """Read one result file of a known kind, recognised by its content.

    `collective` names the operation where an nccl-tests file does not; `restart` numbers the file among
    several, because each was made by a process of its own. Raises `InputError` with file and line.
    """
    lines = read_text(path, undecodable="replace").splitlines()
    load_plugins()
    readings: list[Reading] = []
    notes: list[Message] = []
    ranks = 1
    for record in parse(lines, str(path)):
        maker = _Maker(str(path), restart)
        if isinstance(record, NcclTests):
            told = with_collective(record, collective, str(path)) if collective else record
            ranks = max(ranks, told.ranks or 1)
            readings += maker.nccl_tests(told)
        elif isinstance(record, FioReport):
            readings += maker.fio(record)
        elif isinstance(record, NvBandwidth):
            readings += maker.nvbandwidth(record)
        elif isinstance(record, Perftest):
            readings += maker.perftest(record)
        elif isinstance(record, GemmTable):
            readings += maker.gemm_table(record)
        unread = getattr(record, "unread", ())
        if unread:
            notes.append(Message.of("note.lines_unread", lines=len(unread), where=f"{path}:{unread[0]}"))
    if not readings:
        raise InputError("nothing in this file is a quantity that Assay judges", where=f"{path}:1")
    return Results(readings=tuple(readings), ranks=ranks, notes=tuple(notes))


class _Maker:
    """Makes readings of one file."""

    def __init__(self, name: str, restart: int) -> None:
        self._name = name
        self._restart = restart

    def _reading(
        self,
        quantity: str,
        subject: Subject,
        value: float | None,
        unit: str,
        line: int,
        recipe: dict[str, RecipeValue],
        *,
        reason: str | None = None,
        n: int | None = None,
    ) -> Reading:
        return Reading(
            quantity=quantity,
            subject=subject,
            origin=Origin.MEASURED,
            value=value,
            reason=(reason or "the tool printed no value") if value is None else None,
            unit=unit,
            recipe=Recipe.of(recipe),
            n=n,
            replicate=self._restart,
            source=f"{self._name}:{line}",
        )

    def nccl_tests(self, run: NcclTests) -> Iterator[Reading]:
        """busbw as the mean of out of place and in place, which is what published floors average."""
        if run.collective is None:
            raise InputError(
                "the file does not say which collective was run",
                where=f"{self._name}:{run.first_line}",
                fix="name it, for example --collective all_reduce",
            )
        if run.ranks is None:
            raise InputError(
                f"the file does not say how many ranks took part: {run.ranks_from}",
                where=f"{self._name}:{run.first_line}",
                fix="keep the device list that nccl-tests prints above the table",
            )
        spoiled = _spoiled(run)
        for row in run.rows:
            recipe: dict[str, RecipeValue] = {
                "method": "pipelined",
                "bytes": row.bytes,
                "ranks": run.ranks,
                "dtype": _DTYPES.get(row.dtype, row.dtype),
                "transport": "nccl",
                "statistic": "mean",
                "placement": "mean of out of place and in place",
            }
            for name, unit in (("busbw", "B/s"), ("algbw", "B/s"), ("time", "s")):
                yield self._reading(
                    f"collective.{run.collective}.{name}",
                    CLUSTER,
                    None if spoiled else _both_placements(row, name),
                    unit,
                    row.line,
                    recipe,
                    reason=spoiled,
                    n=run.settings.iters if run.settings else None,
                )

    def fio(self, report: FioReport) -> Iterator[Reading]:
        """4k random reads and 1 MiB streams; other block sizes have no quantity and are left out."""
        for job in report.jobs:
            yield from self._fio_job(job)

    def _fio_job(self, job: FioJob) -> Iterator[Reading]:
        node = Subject("node", _SOMEWHERE)
        recipe: dict[str, RecipeValue] = {"load": "alone" if (job.numjobs or 1) == 1 else "all"}
        known = {
            "iodepth": job.iodepth,
            "direct": job.direct,
            "file_bytes": job.size_bytes,
            "jobs": job.numjobs,
            "ioengine": job.ioengine,
        }
        recipe |= {name: value for name, value in known.items() if value is not None}
        failed = f"fio ended job {job.name!r} with error {job.error}" if job.error else None
        if job.rw == "randread" and job.bs_bytes == 4096:
            read = None if failed else job.read
            name = "storage.random_read_4k"
            iops = read.iops if read else None
            yield self._reading(f"{name}.iops", node, iops, "1/s", job.line, recipe, reason=failed)
            for statistic, percent in (("p50", 50.0), ("p99", 99.0)):
                latency = _percentile(read, percent)
                told = recipe | {"statistic": statistic}
                yield self._reading(f"{name}.latency", node, latency, "s", job.line, told, reason=failed)
        for rw, done, quantity in (
            ("read", job.read, "storage.sequential_read.bandwidth"),
            ("write", job.write, "storage.sequential_write.bandwidth"),
        ):
            if job.rw == rw and (job.bs_bytes or 0) >= 2**20:
                value = None if failed or done is None else done.bandwidth_Bps
                yield self._reading(quantity, node, value, "B/s", job.line, recipe, reason=failed)

    def nvbandwidth(self, run: NvBandwidth) -> Iterator[Reading]:
        """Copy-engine host and peer copies, one way; a testcase that did not pass has no value."""
        host = run.host or _SOMEWHERE
        for case in run.testcases:
            reason = None if case.status == "passed" else f"testcase {case.name} {case.status}"
            for subject, value in _cells(case, host):
                quantity, recipe = _NVBANDWIDTH[case.name]
                yield self._reading(
                    quantity, subject, None if reason else value, "B/s", case.line, recipe, reason=reason
                )

    def perftest(self, run: Perftest) -> Iterator[Reading]:
        """Bandwidth and latency of RDMA verbs; the port is the device that the file names."""
        if run.program is None:
            raise InputError(
                "the file does not say which verb was run", where=f"{self._name}:{run.first_line}"
            )
        verb = run.program.split("_")[1]
        port = Subject("port", f"{_SOMEWHERE}/{run.device or 'unknown'}")
        for row in run.bandwidth:
            recipe: dict[str, RecipeValue] = {
                "bytes": row.bytes,
                "statistic": "mean",
                "bidirectional": run.bidirectional,
            }
            if run.queue_pairs is not None:
                recipe["queue_pairs"] = run.queue_pairs
            quantity = f"rdma.{verb}.bandwidth"
            yield self._reading(quantity, port, row.average_Bps, "B/s", row.line, recipe, n=row.iterations)
        for line in run.latency:
            for statistic, value in (("mean", line.mean_s), ("p50", line.typical_s), ("max", line.max_s)):
                if value is not None:
                    quantity = f"rdma.{verb}.latency"
                    told: dict[str, RecipeValue] = {"bytes": line.bytes, "statistic": statistic}
                    yield self._reading(quantity, port, value, "s", line.line, told, n=line.iterations)

    def gemm_table(self, table: GemmTable) -> Iterator[Reading]:
        """One rate per row; the load is not in such tables and stays unstated."""
        for row in table.rows:
            if row.dtype is None or row.m is None or row.n is None or row.k is None:
                continue
            recipe: dict[str, RecipeValue] = {"shape": f"{row.m}x{row.n}x{row.k}"}
            if row.statistic:
                recipe["statistic"] = row.statistic
            name = f"{row.host or _SOMEWHERE}/{row.device if row.device is not None else row.rank or 0}"
            quantity = f"gemm.{row.dtype}.rate"
            yield self._reading(quantity, Subject("gpu", name), row.rate_per_s, "FLOP/s", row.line, recipe)


#: nvbandwidth's testcases that are quantities: the copy engine moves the bytes, one way.
_NVBANDWIDTH: dict[str, tuple[str, dict[str, RecipeValue]]] = {
    "host_to_device_memcpy_ce": (
        "host_device.h2d.bandwidth",
        {"pinned": True, "statistic": "median", "load": "alone"},
    ),
    "device_to_host_memcpy_ce": (
        "host_device.d2h.bandwidth",
        {"pinned": True, "statistic": "median", "load": "alone"},
    ),
    "device_to_device_memcpy_read_ce": (
        "peer.bandwidth",
        {"span": "node", "transport": "copy engine, read", "statistic": "median"},
    ),
    "device_to_device_memcpy_write_ce": (
        "peer.bandwidth",
        {"span": "node", "transport": "copy engine, write", "statistic": "median"},
    ),
}


def _cells(case: Testcase, host: str) -> Iterator[tuple[Subject, float]]:
    """Subjects and values of a testcase's matrix: GPUs for host copies, links between GPUs otherwise."""
    if case.name not in _NVBANDWIDTH or case.unit not in ("B/s", None):
        return
    peers = case.name.startswith("device_to_device")
    for row_name, row in zip(case.row_names, case.matrix, strict=False):
        for column, value in zip(case.columns, row, strict=False):
            if value is not None:
                name = f"{host}/{row_name}>{host}/{column}" if peers else f"{host}/{column}"
                yield Subject("link" if peers else "gpu", name), value


def _both_placements(row: Row, name: str) -> float | None:
    field = {"busbw": "busbw_Bps", "algbw": "algbw_Bps", "time": "time_s"}[name]
    values = [getattr(p, field) for p in (row.out_of_place, row.in_place) if p is not None]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _spoiled(run: NcclTests) -> str | None:
    """Why nothing of a run counts: it says itself that its results were wrong."""
    if run.out_of_bounds:
        return f"nccl-tests found {run.out_of_bounds} values out of bounds"
    wrong = sum(p.wrong or 0 for row in run.rows for p in (row.out_of_place, row.in_place) if p)
    if wrong:
        return f"nccl-tests found {wrong} wrong elements"
    return f"nccl-tests reported: {run.errors[0]}" if run.errors else None


def _percentile(done: Direction | None, percent: float) -> float | None:
    latency = done and (done.clat or done.lat)
    return latency.percentile_s(percent) if latency else None
