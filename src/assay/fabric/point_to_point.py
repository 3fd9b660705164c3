"""Point to point: what one copy or one RDMA write reaches, link by link, and published rows of it.

time = start + bytes over rate; a bandwidth is a part of the link's datasheet rate. The parts are what public
measurements agree on (validation/collectives/p2p.csv), few enough to stand here with their rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.domain.cluster import PcieLink
from assay.domain.score import ScoredRow
from assay.errors import InputError

COLUMNS = (
    "id",
    "category",
    "system",
    "link",
    "direction",
    "memory",
    "message_bytes",
    "value",
    "unit",
    "kind",
)

#: Groups in the order of the report.
BANDWIDTH, LATENCY = "point to point, bandwidth", "point to point, latency"

#: Measured over predicted: what 80 % of the rows at hand lie between.
_RANGE = {BANDWIDTH: (0.9, 1.1), LATENCY: (0.65, 1.9)}

#: Part of the datasheet rate that a copy engine reaches. NVLink: 274.6 and 276.3 of 300, 376 and 396.4 of
#: 450, 746.7 of 900 GB/s (P007–P013). PCIe with the host: 55.4 and 55.1 of 63, 26.2 of 31.5 (P031–P035); both
#: ways at once 18.7 (P036). Between PCIe peers 56.6 of 63 (P037). C2C: 369 and 359 of 450 (P042, P043).
#: RDMA from the host 23.3 of 25 (P068–P070), from a GPU through UCX 15.4 of 25 (P112).
_REACHED = {"nvlink": 0.88, "pcie": 0.86, "pcie both ways": 0.6, "pcie peers": 0.88, "c2c": 0.81}
_REACHED |= {"rdma": 0.94, "rdma gpu": 0.62}

#: Seconds before the first byte arrives: RDMA write between hosts, and between GPUs (P056–P068, P084–P111);
#: a kernel's store over NVLink or PCIe with its launch (P020–P024).
_START_s = {"rdma": 1.4e-6, "rdma gpu": 2.3e-6, "nvlink": 2.6e-6, "pcie": 1.7e-6}

#: Beyond what a descriptor carries itself (220 B), the NIC first reads the message from memory; beyond one
#: packet of 4 KiB it waits for a second (P061–P065).
_FETCH_s = ((220, 0.9e-6), (4096, 0.9e-6))

#: A NIC takes this long for the descriptor and doorbell of one write; one queue adds it to every message.
_POST_s = 0.36e-6

#: GB/s of one link and direction by NVLink's generation, as the catalogue has them.
_NVLINK_Bps = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
_INFINIBAND_Bps = {"fdr": 56e9 / 8, "edr": 100e9 / 8, "hdr": 200e9 / 8, "ndr": 400e9 / 8, "xdr": 800e9 / 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link as its words say: nvlink, pcie, c2c or rdma, at datasheet rate one direction."""

    kind: str
    Bps: float


def link_of(words: str) -> Link | None:
    """`NVLink4 x18`, `PCIe5 x16`, `2x EDR IB`, `CX-8 400G`: kind and rate, None where they do not say."""
    said = words.lower()
    if "c2c" in said:
        return Link(kind="c2c", Bps=450e9)
    if "nvlink" in said:
        found = re.search(r"nvlink(\d).*?x(\d+)", said)
        generation, count = (int(found[1]), int(found[2])) if found else (3, 12)
        return Link(kind="nvlink", Bps=_NVLINK_Bps[generation] * count) if generation in _NVLINK_Bps else None
    if "pcie" in said:
        found = re.search(r"pcie ?(?:gen ?)?([1-6])\b(?:.*?x(\d+))?", said)
        return Link(kind="pcie", Bps=PcieLink(generation=int(found[1]) if found else 4).Bps)
    count = int(found[1]) if (found := re.search(r"(\d+)\s*x\s", said)) else 1
    for name, rate in _INFINIBAND_Bps.items():
        if re.search(rf"\b{name}", said):
            return Link(kind="rdma", Bps=count * rate)
    if found := re.search(r"(\d+)\s*g\b", said):
        return Link(kind="rdma", Bps=count * int(found[1]) * 1e9 / 8)
    return None


def bandwidth_Bps(link: Link, size: float | None, *, both_ways: bool, peers: bool) -> float:
    """What one stream reaches: the link's part, in messages of `size` bytes less the time to post them."""
    kind = "rdma gpu" if link.kind == "rdma" and peers else link.kind
    if kind == "pcie":
        kind = "pcie both ways" if both_ways else "pcie peers" if peers else "pcie"
    reached = _REACHED[kind] * link.Bps
    total = reached * 2 if both_ways and link.kind == "nvlink" else reached
    if size is None or link.kind != "rdma":
        return total
    return size / max(_POST_s + size / total, _POST_s)


def latency_s(link: Link, size: float, *, gpus: bool) -> float:
    """One message from end to end."""
    kind = f"{link.kind} gpu" if gpus and link.kind == "rdma" else link.kind
    fetched = sum(cost for least, cost in _FETCH_s if size > least) if link.kind == "rdma" else 0.0
    return _START_s[kind] + fetched + size / (_REACHED[kind] * link.Bps)


def expected(row: Mapping[str, str]) -> tuple[float, float] | str:
    """(predicted, measured) of a row of p2p.csv in SI units, or why it has none."""
    if not row["kind"].startswith("measured"):
        return f"{row['kind']}, not a measurement"
    link = link_of(row["link"]) or link_of(f"{row['link']} {row['system']}")
    number = re.match(r"\s*(\d+(?:\.\d+)?)", row["value"])
    scale = {"GB/s": 1e9, "MB/s": 1e6, "Gbit/s": 1e9 / 8, "us": 1e-6}.get(row["unit"])
    if link is None:
        return f"no rate is known for the link {row['link']!r}"
    if number is None or scale is None:
        return f"{row['value']!r} {row['unit']} is neither a bandwidth nor a time"
    if row["category"] == "alltoall-ep":
        return "an all-to-all, not a copy from point to point"
    size = float(row["message_bytes"]) if row["message_bytes"] else None
    gpus = row["memory"].startswith("gpu")
    if row["category"] == "osu":
        # UCX stripes a message over two ports from the host, and over one from a GPU.
        port = link_of(re.sub(r"\d+\s*x\s", "", row["link"])) or link
        ports, pairs = re.search(r"(\d+)\s*x\s", row["link"]), re.search(r"(\d+) pairs", row["system"])
        used = min(int(ports[1]), int(pairs[1])) if ports and pairs else 1 if gpus else 2
        link = Link(kind=port.kind, Bps=port.Bps * used)
    if row["unit"] == "us":
        return latency_s(link, size or 0.0, gpus=gpus), float(number[1]) * scale
    both = "bidir" in row["direction"]
    predicted = bandwidth_Bps(link, size, both_ways=both, peers=gpus and "host" not in row["memory"])
    return predicted, float(number[1]) * scale


def recognise(header: Sequence[str]) -> bool:
    """Whether a CSV file has the columns of point-to-point rows."""
    return all(column in header for column in COLUMNS)


def score_points(lines: Iterable[str], name: str) -> list[ScoredRow]:
    """Every row of a file scored, or skipped with its reason. Raises `InputError` with file:line."""
    reader = csv.DictReader(lines)
    return [_scored(row, name, reader.line_num) for row in reader]


def _scored(row: Mapping[str, str], name: str, line: int) -> ScoredRow:
    group = LATENCY if row["unit"] in ("us", "ns") else BANDWIDTH
    try:
        found = expected(row)
    except (ValueError, TypeError, AttributeError) as fault:
        raise InputError(f"cannot read this row: {fault}", where=f"{name}:{line}") from fault
    predicted, measured = (None, None) if isinstance(found, str) else found
    low, high = _RANGE[group]
    return ScoredRow(
        id=row["id"],
        file=name,
        line=line,
        groups=(group,),
        unit="s" if group == LATENCY else "B/s",
        measured=measured,
        predicted=predicted,
        low=None if predicted is None else predicted * low,
        high=None if predicted is None else predicted * high,
        skipped=found if isinstance(found, str) else None,
    )
