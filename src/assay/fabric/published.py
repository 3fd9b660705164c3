"""Rows of published collective measurements: nccl-tests curves and AIConfigurator's tables, as questions.

Two sets of columns are read: those of `measured.csv` (one row a size of a curve, with words for the hardware)
and those of `single_node.csv` (gpu, nccl, dtype, collective, gpus, bytes, time_us).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.domain.cluster import Cluster
from assay.errors import AssayError, InputError
from assay.fabric.collective import Options, is_added_in_switches
from assay.fabric.operations import busbw_factor, operation
from assay.fabric.systems import described_cluster

CURVE_COLUMNS = ("curve_id", "gpu_model", "nodes", "gpus_per_node", "collective", "bytes")
TABLE_COLUMNS = ("gpu", "nccl", "dtype", "collective", "gpus", "bytes", "time_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One measured size of one collective. `why_not` says why it cannot be predicted."""

    id: str
    file: str
    line: int
    source: str
    op: str
    bytes: float
    nodes: int
    per_node: int
    measured_s: float | None
    health: str
    cluster: Cluster | None = None
    options: Options = field(default_factory=Options)
    why_not: str | None = None


def read_published(lines: Iterable[str], name: str) -> list[PublishedRow]:
    """Every row of a CSV file; none is left out. Raises `InputError` for columns that are not known."""
    reader = csv.DictReader(lines)
    header = tuple(reader.fieldnames or ())
    if all(column in header for column in TABLE_COLUMNS):
        read = _table_row
    elif all(column in header for column in CURVE_COLUMNS):
        read = _curve_row
    else:
        missing = [column for column in CURVE_COLUMNS if column not in header]
        raise InputError(
            f"these are no collective measurements: {', '.join(missing)} missing",
            where=f"{name}:1",
            fix=f"columns {', '.join(CURVE_COLUMNS)}, or {', '.join(TABLE_COLUMNS)}",
        )
    rows: list[PublishedRow] = []
    for row in reader:
        try:
            rows.append(read(row, name, reader.line_num))
        except (ValueError, TypeError) as fault:
            raise InputError(f"cannot read this row: {fault}", where=f"{name}:{reader.line_num}") from fault
    return rows


def _table_row(row: Mapping[str, str], name: str, line: int) -> PublishedRow:
    in_switch = is_added_in_switches(row["dtype"])
    options = Options(nccl=_version(row["nccl"]), reduces_in_switch=in_switch)
    return _placed(
        row_id=":".join(row[c] for c in ("gpu", "dtype", "collective", "gpus", "bytes")),
        name=name,
        line=line,
        source=f"{row['gpu']} table",
        op=row["collective"],
        size=float(row["bytes"]),
        nodes=1,
        per_node=int(row["gpus"]),
        measured_s=float(row["time_us"]) * 1e-6,
        health="healthy",
        options=options,
        words=(row["gpu"], "", ""),
    )


def _curve_row(row: Mapping[str, str], name: str, line: int) -> PublishedRow:
    op, size = operation(row["collective"], where=f"{name}:{line}"), float(row["bytes"])
    nodes, per_node = int(row["nodes"]), int(row["gpus_per_node"])
    return _placed(
        row_id=f"{row['curve_id']}:{row['bytes']}",
        name=name,
        line=line,
        source=row.get("source", "") or row["curve_id"],
        op=op,
        size=size,
        nodes=nodes,
        per_node=per_node,
        measured_s=_measured_s(row, op, size, nodes * per_node),
        health="healthy" if row.get("trusted_healthy", "yes") == "yes" else row["trusted_healthy"],
        options=_options(row),
        words=(row["gpu_model"], row.get("intra", ""), row.get("inter", "")),
    )


def _placed(
    *,
    row_id: str,
    name: str,
    line: int,
    source: str,
    op: str,
    size: float,
    nodes: int,
    per_node: int,
    measured_s: float | None,
    health: str,
    options: Options,
    words: tuple[str, str, str],
) -> PublishedRow:
    cluster, why = None, None
    gpu, intra, inter = words
    try:
        cluster = described_cluster(gpu, nodes, per_node, intra, inter)
    except AssayError as fault:
        why = fault.what
    if measured_s is None:
        why = why or "the row has neither a time nor a bandwidth"
    if cluster is not None and cluster.node.gpu is not None and cluster.node.gpu.vendor == "AMD":
        options = Options(library="rccl", nccl=options.nccl)
    return PublishedRow(
        id=row_id,
        file=name,
        line=line,
        source=source,
        op=operation(op, where=f"{name}:{line}"),
        bytes=size,
        nodes=nodes,
        per_node=per_node,
        measured_s=measured_s,
        health=health,
        cluster=cluster,
        options=options,
        why_not=why,
    )


def _measured_s(row: Mapping[str, str], op: str, size: float, ranks: int) -> float | None:
    """The printed time, else the size over the printed bandwidth."""
    time = float(row.get("time_us") or 0)
    if time > 0:
        return time * 1e-6
    bus = float(row.get("busbw_GBps") or 0)
    return size * float(busbw_factor(op, ranks)) / (bus * 1e9) if bus > 0 else None


def _options(row: Mapping[str, str]) -> Options:
    notes, said = row.get("notes", "").lower(), row.get("algorithm", "").upper()
    off = "NVLS_ENABLE=0" in said or "NVLS OFF" in said
    launcher = "thread" if "single process" in notes else "torch" if "torch bench" in notes else "graph"
    return Options(
        nccl=_version(row.get("nccl_version", "")),
        nvls=False if off else None,
        sharp=True if "SHARP" in said else None,
        reduces_in_switch=is_added_in_switches(_datatype(notes)),
        algorithm=_forced(said),
        launcher=launcher,
    )


def _datatype(notes: str) -> str:
    found = re.search(r"datatype (\w+)", notes)
    return found[1] if found else ""


def _forced(said: str) -> str | None:
    """The algorithm that the environment forced, where the row says so."""
    if "DEFAULT" in said or not said:
        return None
    words = said.replace("_", "")
    for word, algorithm in (("NVLSTREE", "NVLS_TREE"), ("NVLS", "NVLS"), ("TREE", "TREE"), ("RING", "RING")):
        if words.startswith(word) and ("NVLS" not in word or "OFF" not in words):
            return algorithm
    return None


def _version(text: str) -> tuple[int, int]:
    found = re.search(r"\b2\.(\d+)", text or "")
    return (2, int(found[1])) if found else (2, 27)
