"""Offers from a user's file: YAML or TOML of our own, or the CSV catalogues of gpuhunt and SkyPilot."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from assay.catalog.devices import gpu
from assay.codec.text_file import read_lines
from assay.domain.offer import Offer
from assay.errors import InputError, UnknownNameError
from assay.formats.offer_csv import PriceRow, read_prices

#: Names of cards in other catalogues that ours does not list as aliases.
_CARDS = {
    "h100": "h100-sxm",
    "h100-mega": "h100-sxm",
    "h200": "h200-sxm",
    "a100": "a100-sxm-40gb",
    "a100-80gb": "a100-sxm-80gb",
    "a100-80gb-sxm": "a100-sxm-80gb",
    "v100": "v100-sxm2-16gb",
    "v100-32gb": "v100-sxm2-32gb",
    "rtx4090": "rtx-4090",
    "rtx5090": "rtx-5090",
}


def import_offers(path: Path, *, read: Callable[[Path], tuple[Offer, ...]]) -> tuple[Offer, ...]:
    """The offers of a file of either kind; of a CSV every row for a card that the catalogue knows.

    Raises `InputError` where no row can be used, with the first fault and its line.
    """
    if path.suffix.lower() != ".csv":
        return read(path)
    day = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat() if path.is_file() else ""
    rows = read_prices(read_lines(path), str(path))
    found: dict[str, Offer] = {}
    faults = [(row, row.fault) for row in rows if row.fault]
    for row in rows:
        card = _card(row)
        if row.fault or card is None:
            continue
        one = _offer(row, card, day, str(path))
        held = found.get(one.id)
        if held is None or (one.price or 0) < (held.price or 0):
            found[one.id] = one
    if not found:
        line = f":{faults[0][0].line}" if faults else ""
        raise InputError(
            faults[0][1] if faults else "no row is for a card of the catalogue",
            where=f"{path}{line}",
            fix="assay catalog devices lists the cards that are known",
        )
    return tuple(found.values())


def _card(row: PriceRow) -> str | None:
    name = row.gpu.lower().replace("nvidia", "").strip(" -_").replace("_", "-").replace(" ", "-")
    if name == "a100" and row.memory_GB is not None and row.memory_GB >= 79:
        name = "a100-80gb"
    try:
        return gpu(_CARDS.get(name, name)).id
    except UnknownNameError:
        return None


def _offer(row: PriceRow, card: str, day: str, file: str) -> Offer:
    words = (row.provider, row.instance, row.region, "spot" if row.spot else "")
    return Offer(
        id="-".join(re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words if word),
        provider=row.provider,
        region=row.region,
        gpu=card,
        gpus_per_node=row.gpus,
        term="spot" if row.spot else "on-demand",
        currency="USD",
        price=Decimal(row.price),
        network="not named in the catalogue",
        source=f"imported from {file}",
        date=day,
        confidence="A",
        where=f"{file}:{row.line}",
    )
