"""Rows of published collective measurements: nccl-tests curves and AIConfigurator's tables, as questions.

Two sets of columns are read: those of `measured.csv` (one row a size of a curve, with words for the hardware)
and those of `single_node.csv` (gpu, nccl, dtype, collective, gpus, bytes, time_us).
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.domain.cluster import Cluster
from assay.errors import AssayError, InputError
from assay.fabric.collective import Options, is_added_in_switches
from assay.fabric.operations import busbw_factor, operation
from assay.fabric.systems import described_cluster
from assay.units import parse_bytes

CURVE_COLUMNS = ("curve_id", "gpu_model", "nodes", "gpus_per_node", "collective", "bytes")
#: When NCCL's minor versions came out (github.com/NVIDIA/nccl, release tags), as a year and its part.
_RELEASED = (
    (2019.05, 4), (2019.9, 5), (2020.2, 6), (2020.45, 7), (2020.9, 8), (2021.3, 9), (2021.5, 10),
    (2021.7, 11), (2022.2, 12), (2022.6, 14), (2022.8, 15), (2023.0, 16), (2023.2, 17), (2023.35, 18),
    (2023.85, 19), (2024.1, 20), (2024.3, 21), (2024.45, 22), (2024.7, 23), (2024.9, 24), (2025.05, 25),
    (2025.2, 26), (2025.45, 27), (2025.7, 28), (2025.95, 29), (2026.2, 30),
)  # fmt: skip
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
    notes: list[str] = []
    for row in reader:
        try:
            rows.append(read(row, name, reader.line_num))
            notes.append(row.get("notes") or "")
        except (ValueError, TypeError) as fault:
            raise InputError(f"cannot read this row: {fault}", where=f"{name}:{reader.line_num}") from fault
    return _marked(rows, notes)


def _table_row(row: Mapping[str, str], name: str, line: int) -> PublishedRow:
    in_switch = is_added_in_switches(row["dtype"])
    options = Options(nccl=_version(row["nccl"], ""), reduces_in_switch=in_switch)
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
        nccl=_version(row.get("nccl_version", ""), row.get("date", "")),
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


def _version(text: str, date: str) -> tuple[int, int]:
    """NCCL's version as printed, else the one that was half a year old at the row's date, else 2.27."""
    found = re.search(r"\b2\.(\d+)", text or "")
    if found:
        return (2, int(found[1]))
    half_a_year_before = _year(date) - 0.5
    known = [minor for since, minor in _RELEASED if since <= half_a_year_before]
    return (2, max(known, default=_RELEASED[0][1])) if _year(date) else (2, 27)


def _year(date: str) -> float:
    """A date as a year and its part: "2021-12" in the middle of December, "2019-20" between the years."""
    found = re.match(r"(20\d\d)(?:-(\d\d))?", date)
    if found is None:
        return 0.0
    year, second = int(found[1]), int(found[2] or 0)
    if not second:
        return year + 0.5
    return year + (second - 0.5) / 12 if second <= 12 else (year + 2000 + second + 1) / 2


def _marked(rows: list[PublishedRow], notes: Sequence[str]) -> list[PublishedRow]:
    """Rows that their own notes call cold or outliers, set apart by their health.

    "outlier at 256 KiB" names its size. "first rows cold" does not say how many: it is the ones before the
    curve's fastest that took over twice as long as that, as a smaller message has no reason to.
    """
    curves: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        curves[row.id.rpartition(":")[0]].append(at)
    for places in curves.values():
        said = notes[places[0]]
        found = re.search(r"outlier at ([\d.]+ ?[KMG]?i?B)\b", said)
        size = parse_bytes(found[1]) if found else None
        times = [rows[at].measured_s or 0.0 for at in places]
        fastest = times.index(min(times)) if "cold" in said else 0
        for at, place in enumerate(places):
            if at < fastest and times[at] > 2 * times[fastest]:
                rows[place] = replace(rows[place], health="cold")
            elif rows[place].bytes == size:
                rows[place] = replace(rows[place], health="outlier")
    return rows
