"""Price lists of other programs: gpuhunt's catalogue (v2) and SkyPilot's (v8) → rows, with their traps named.

Both print prices of whole instances in USD; a row becomes a price per GPU-hour. What cannot be a price is a
fault with its line, never a silent row:

- SkyPilot's GCP files list a machine (`a2-highgpu-1g`) and its accelerator in rows of their own: the
  machine's row alone is a fifth of the price. The two are added; a machine without its other half is refused.
- some RunPod rows have SpotPrice equal to Price: no spot offer is made of them.
- TotalGpuMemoryInMiB is not read: it is per card in some files and in GB in others.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from assay.errors import InputError

GPUHUNT = ("instance_name", "location", "price", "gpu_count", "gpu_name", "spot")
SKYPILOT = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One price per GPU-hour in USD as text, with whose it is; `fault` says why it cannot be used."""

    line: int
    provider: str
    instance: str
    region: str
    gpu: str
    gpus: int
    memory_GB: float | None
    price: str
    spot: bool
    fault: str | None = None


def read_prices(lines: Iterable[str], name: str) -> list[PriceRow]:
    """Every row with a GPU; `name` is the file's, whose stem names the provider where no column does."""
    reader = csv.DictReader(lines)
    header = tuple(reader.fieldnames or ())
    if all(column in header for column in GPUHUNT):
        read = _gpuhunt
    elif all(column in header for column in SKYPILOT):
        read = _skypilot
    else:
        raise InputError(
            "this is neither gpuhunt's nor SkyPilot's catalogue",
            where=f"{name}:1",
            fix=f"columns {', '.join(GPUHUNT)}, or {', '.join(SKYPILOT)}",
        )
    rows: list[_Raw] = []
    for row in reader:
        try:
            found = read(row, reader.line_num, name)
        except (ValueError, TypeError, KeyError) as fault:
            raise InputError(f"cannot read this row: {fault}", where=f"{name}:{reader.line_num}") from fault
        if found:
            rows.append(found)
    return [made for raw in rows for made in _rows(raw, _attached(rows))]


def _provider(name: str) -> str:
    """The cloud that a file is about: SkyPilot's files are `<cloud>/vms.csv`, gpuhunt's `<provider>.csv`."""
    parts = name.replace("\\", "/").split("/")
    stem = parts[-1].partition(".")[0]
    return parts[-2] if stem == "vms" and len(parts) > 1 else stem


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """A row as it stands: prices are of the whole instance, or of the cards alone where `instance` is
    empty."""

    line: int
    provider: str
    instance: str
    region: str
    gpu: str
    gpus: int
    price: float
    spot_price: float = 0.0
    is_spot: bool = False
    memory_GB: float | None = None


def _gpuhunt(row: Mapping[str, str], line: int, name: str) -> _Raw | None:
    gpus = int(row["gpu_count"] or 0)
    if gpus < 1:
        return None
    return _Raw(
        line=line,
        provider=row.get("provider") or _provider(name),
        instance=row["instance_name"],
        region=row["location"],
        gpu=row["gpu_name"],
        gpus=gpus,
        price=float(row["price"]),
        is_spot=row["spot"].strip().lower() == "true",
        memory_GB=float(row["gpu_memory"]) if row.get("gpu_memory") else None,
    )


def _skypilot(row: Mapping[str, str], line: int, name: str) -> _Raw | None:
    gpus = float(row["AcceleratorCount"] or 0)
    if gpus < 1 or not row["AcceleratorName"]:
        return None
    return _Raw(
        line=line,
        provider=_provider(name),
        instance=row["InstanceType"],
        region=row["Region"],
        gpu=row["AcceleratorName"],
        gpus=int(gpus),
        price=float(row["Price"] or 0),
        spot_price=float(row["SpotPrice"] or 0),
    )


_Cards = Mapping[tuple[str, int, str], "_Raw"]


def _attached(rows: Iterable[_Raw]) -> _Cards:
    """Prices of cards alone, by card, count and region."""
    return {(raw.gpu, raw.gpus, raw.region): raw for raw in rows if not raw.instance}


def _rows(raw: _Raw, cards: _Cards) -> list[PriceRow]:
    """A row's on-demand price, and its spot price where it has one of its own."""
    if not raw.instance:
        return [] if raw.provider == "gcp" else [_row(raw, raw.price, raw.is_spot, "no instance is named")]
    price, spot, fault = raw.price, raw.spot_price, None
    if raw.provider == "gcp" and raw.instance.startswith(("a2-", "g2-", "n1-")):
        card = cards.get((raw.gpu, raw.gpus, raw.region))
        if card is None:
            fault = f"{raw.instance} without its accelerator's own row: {raw.price:g} USD is only a part"
        else:
            price, spot = price + card.price, spot + card.spot_price if spot and card.spot_price else 0.0
    if price <= 0:
        fault = f"a price of {price:g}"
    made = [_row(raw, price, raw.is_spot, fault)]
    if fault is None and 0 < spot < price:
        made.append(_row(raw, spot, True, None))
    return made


def _row(raw: _Raw, price: float, spot: bool, fault: str | None) -> PriceRow:
    return PriceRow(
        line=raw.line,
        provider=raw.provider,
        instance=raw.instance,
        region=raw.region,
        gpu=raw.gpu,
        gpus=raw.gpus,
        memory_GB=raw.memory_GB,
        price=f"{price / raw.gpus:.6f}".rstrip("0").rstrip("."),
        spot=spot,
        fault=fault,
    )
