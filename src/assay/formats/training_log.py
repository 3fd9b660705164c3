"""Training logs: step, time and loss, as Megatron, NeMo, torchtitan and plain scripts print them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"(?i)\b(?:iter(?:ation)?|(?:global_?)?step)\s*[:=]?\s*(\d{1,9})\b")
_TIME = re.compile(
    r"(?i)(?:elapsed time per iteration \(ms\)\s*:\s*(?P<ms>[\d.]+)"
    r"|(?:step|iter|batch)_?(?: ?time)[ _a-z()]*[:=]\s*"
    r"(?P<value>[\d.]+)\s*(?P<unit>ms|s)?)"
)
_LOSS = re.compile(
    r"(?i)\b(?:lm |train_?|reduced_train_)?loss[\x22']?\s*[:=]\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
)

_RATE = re.compile(r"(?i)\b(?:learning[ _]rate|lr)\s*[:=]\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One logged step; what the line does not say is None. `rate` is the learning rate."""

    file: str
    line: int
    step: int
    step_s: float | None
    loss: float | None
    text: str = ""
    rate: float | None = None


def read_line(line: str, number: int, file: str) -> Step | None:
    """The step that a line logs, or None."""
    if "oss" not in line and "time" not in line:
        return None
    step = _STEP.search(line[:600])
    if step is None:
        return None
    time, loss = _TIME.search(line[:600]), _LOSS.search(line[:600])
    if time is None and loss is None:
        return None
    return Step(
        file=file,
        line=number,
        step=int(step[1]),
        step_s=_seconds(time),
        loss=_real(loss[1]) if loss else None,
        text=line.strip()[:300],
        rate=_real(rate[1]) if (rate := _RATE.search(line[:600])) else None,
    )


def _seconds(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    if match["ms"]:
        value = _real(match["ms"])
        return None if value is None else value / 1e3
    value = _real(match["value"])
    return None if value is None else value / 1e3 if match["unit"] == "ms" else value


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
