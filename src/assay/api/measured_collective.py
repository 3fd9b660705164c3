"""A measured nccl-tests file, as what a prediction of the same collective is held against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from assay.api.predicting import text_lines
from assay.errors import InputError
from assay.formats.nccl_record import NcclTests, Row, with_collective
from assay.formats.recognise import load_plugins, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCollective:
    """Sizes and times of one collective, out of place where the file has it; `lines` are those of the file.

    None for what the file does not say: `nodes` and `per_node` need its list of devices, with host names.
    """

    file: str
    op: str
    bytes: tuple[int, ...]
    time_s: tuple[float, ...]
    lines: tuple[int, ...]
    nodes: int | None
    per_node: int | None
    nccl: str | None
    dtype: str
    one_process: bool


def read_measured(path: Path, op: str | None = None) -> MeasuredCollective:
    """The first run of the file; `op` where it names none. Raises `InputError` with file and line."""
    load_plugins()
    run = next((one for one in parse(text_lines(path), str(path)) if isinstance(one, NcclTests)), None)
    if run is None:
        raise InputError("no result of nccl-tests or rccl-tests is in this file", where=f"{path}:1")
    if op is not None:
        run = with_collective(run, op, str(path))
    if run.collective is None:
        raise InputError(
            "the file does not say which collective was run",
            where=f"{path}:{run.first_line}",
            fix="name it, for example --op all_reduce",
        )
    timed = [(row, time) for row in run.rows if row.bytes > 0 and (time := _time_s(row)) is not None]
    if not timed:
        raise InputError("no row of this file has a size and a time", where=f"{path}:{run.first_line}")
    nodes, per_node = _placed(run)
    version = re.search(r"\d+\.\d+", run.library_version or "")
    return MeasuredCollective(
        file=str(path),
        op=run.collective,
        bytes=tuple(row.bytes for row, _ in timed),
        time_s=tuple(time for _, time in timed),
        lines=tuple(row.line for row, _ in timed),
        nodes=nodes,
        per_node=per_node,
        nccl=version[0] if version else None,
        dtype=timed[0][0].dtype,
        one_process=run.settings is not None and run.settings.gpus * run.settings.threads > 1,
    )


def _time_s(row: Row) -> float | None:
    for placement in (row.out_of_place, row.in_place):
        if placement is not None and placement.time_s:
            return placement.time_s
    return None


def _placed(run: NcclTests) -> tuple[int | None, int | None]:
    """Nodes and ranks in each, from the hosts of the first communicator's devices."""
    if not run.devices:
        return None, None
    hosts = [one.host for one in run.devices if one.group == run.devices[0].group]
    nodes = len(set(hosts))
    each = {hosts.count(host) for host in set(hosts)}
    if len(each) > 1:
        raise InputError(
            f"{len(hosts)} ranks on {nodes} hosts, {min(each)} to {max(each)} on each: nodes must be equal",
            where=f"line {run.devices[0].line}",
            fix="run the same number of ranks on every host",
        )
    return nodes, each.pop()
