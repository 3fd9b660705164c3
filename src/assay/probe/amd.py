"""AMD GPUs as the amdgpu driver shows them in /sys/class/drm, as far as it does."""

from __future__ import annotations

import re
from pathlib import Path

from assay.probe.fact import Fact, missing
from assay.probe.files import Roots, entries, file_fact, read, scaled, whole
from assay.probe.pcie import read_link

_VENDOR = "0x1002"
_CARD = re.compile(r"card\d+")


def amd_cards(roots: Roots) -> list[Path]:
    """The device directories of AMD cards that have memory of their own."""
    cards = [card / "device" for card in entries(roots.sys / "class/drm") if _CARD.fullmatch(card.name)]
    return [card for card in cards if read(card / "vendor").text == _VENDOR]


def read_amd_card(subject: str, card: Path) -> tuple[Fact, ...]:
    """Name, ids, memory, partition, power, temperature and PCIe link of one card."""
    return (
        file_fact(subject, "gpu.name", card / "product_name"),
        file_fact(subject, "gpu.uuid", card / "unique_id"),
        file_fact(subject, "gpu.serial", card / "serial_number"),
        file_fact(subject, "gpu.vbios", card / "vbios_version"),
        file_fact(subject, "gpu.memory_total", card / "mem_info_vram_total", unit="B", parse=whole),
        file_fact(subject, "gpu.memory_used", card / "mem_info_vram_used", unit="B", parse=whole),
        file_fact(subject, "gpu.partition", card / "current_compute_partition"),
        _sensor(subject, "gpu.power", card, ("power1_average", "power1_input"), "W", 1e-6),
        _sensor(subject, "gpu.power_limit", card, ("power1_cap",), "W", 1e-6),
        _sensor(subject, "gpu.temperature", card, ("temp1_input",), "degC", 1e-3),
        *read_link(subject, card),
    )


def _sensor(subject: str, key: str, card: Path, names: tuple[str, ...], unit: str, factor: float) -> Fact:
    """The first of `names` that the card's hwmon directory has."""
    for hwmon in entries(card / "hwmon"):
        for name in names:
            fact = file_fact(subject, key, hwmon / name, unit=unit, parse=scaled(factor))
            if fact.value is not None:
                return fact
    source = f"{card}/hwmon/*/{names[0]}"
    return missing(subject, key, unit, f"no {source} on this host", source)
