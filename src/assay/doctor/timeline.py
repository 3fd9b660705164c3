"""The story of a job, merged from all files: what happened, when, and to whom.

Clocks of nodes may differ, and many lines have no time. Lines with a date are put in order of it; those
without one follow the line before them in their own file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from assay.doctor.facts import Facts
from assay.formats.sentences import Said

#: Facts that say what there is, not what happened.
_STATE = (
    "nccl.env",
    "nccl.bootstrap",
    "nccl.ib_",
    "nccl.socket_",
    "nccl.qp",
    "nccl.gdr_",
    "nccl.plugin",
    "nccl.version",
    "nccl.affinity",
    "nccl.pattern",
    "nccl.network",
    "nccl.last_call",
    "sw.",
    "host.",
    "limit.",
    "module.",
    "shm.mount",
    "shm.file",
    "gpu.listed",
    "gpu.csv",
    "gpu.row",
    "clock.refid",
    "clock.servo",
    "conf.",
    "cfg.",
    "ib.netdev",
    "net.address",
    "net.mtu",
    "rocm.",
    "rccl.version",
)
_TORCH = re.compile(r"\[[EWIF](?P<month>\d\d?)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)")
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%a %b %d %H:%M:%S %Y", "%Y %b %d %H:%M:%S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One line of the story; `at` is the time as printed, empty where the line has none."""

    at: str
    who: str
    fact: str
    file: str
    line: int
    text: str


def timeline(facts: Facts, *, most: int = 200) -> tuple[Moment, ...]:
    """The first `most` events, in order as far as their times tell."""
    happened = [s for kept in facts.said.values() for s in kept if not s.fact.startswith(_STATE)]
    happened.sort(key=lambda s: (s.file, s.line))
    order: list[tuple[float, int, Said]] = []
    last: dict[str, float] = {}
    for index, said in enumerate(happened):
        time = _seconds(said)
        last[said.file] = time if time is not None else last.get(said.file, float("-inf"))
        order.append((last[said.file], index, said))
    order.sort(key=lambda item: item[:2])
    return tuple(
        Moment(at=_printed(s), who=_who(s), fact=s.fact, file=s.file, line=s.line, text=s.text)
        for _, _, s in order[:most]
    )


def _who(said: Said) -> str:
    parts = [said.host or "", f"rank {said.rank}" if said.rank is not None else ""]
    return " ".join(part for part in parts if part)


def _printed(said: Said) -> str:
    match = _TORCH.search(said.text)
    return f"{int(match['month']):02}-{match['day']} {match['time']}" if match else said.time or ""


def _seconds(said: Said) -> float | None:
    """Seconds within the year, or since boot for kernel logs; None without a time."""
    if match := _TORCH.search(said.text):
        hours, minutes, seconds = match["time"].split(":")
        days = int(match["month"]) * 31 + int(match["day"])
        return ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)
    text = (said.time or "").replace("T", " ").replace(",", ".").strip()
    if re.fullmatch(r"\d+\.\d+", text):
        return float(text) - 1e9
    if re.match(r"[A-Z][a-z]{2} [ \d]\d \d", text):
        text = f"2000 {text}"  # journals leave the year away
    if re.match(r"[A-Z][a-z]{2} [ \d]\d \d", text):
        text = f"2000 {text}"  # journals leave the year away
    for form in _FORMS:
        try:
            found = datetime.strptime(text, form)
        except ValueError:
            continue
        clock = found.hour * 3600 + found.minute * 60 + found.second + found.microsecond / 1e6
        return (found.month * 31 + found.day) * 86400 + clock
    return None
