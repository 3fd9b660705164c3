"""The driver's Xids: what each means and what it asks for."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from assay.catalog.tables import shipped_text


class Action(str, Enum):
    """What an Xid asks for, hardest first."""

    ISOLATE = "isolate"
    REBOOT = "reboot"
    RESET = "reset"
    RESTART = "restart"
    CONTACT = "contact"
    MONITOR = "monitor"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One number, the action of NVIDIA's catalogue, and the finding code that speaks of it."""

    number: int
    action: Action
    code: str
    meaning: str


@cache
def xids() -> Mapping[int, Xid]:
    """Every Xid of the catalogue, by number."""
    table = tomllib.loads(shipped_text("xids.toml"))["xid"]
    return {
        int(number): Xid(
            number=int(number), action=Action(row["action"]), code=row["code"], meaning=row["meaning"]
        )
        for number, row in table.items()
    }


def xid(number: int) -> Xid:
    """An Xid by number; one that is not in the catalogue is to be monitored."""
    unknown = Xid(
        number=number, action=Action.MONITOR, code="GPU_FAULTY_DEVICE", meaning="not in the catalogue"
    )
    return xids().get(number, unknown)
