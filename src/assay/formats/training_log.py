"""Training logs: step, time, loss and rate, as Megatron, NeMo, torchtitan, DeepSpeed and others print."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Words without one of which no line is worth a closer look.
_TELLING = ("oss", "time", "timing", "SamplesPerSec", "skipped=")
_STEP = re.compile(r"(?i)\b(?:iter(?:ation)?|(?:global_?)?step)\s*[:=]?\s*(\d{1,9})\b")
_TIME = re.compile(
    r"(?i)(?:elapsed time per iteration \(ms\)\s*:\s*(?P<ms>[\d.]+)"
    r"|(?:step|iter|batch)_?(?: ?tim(?:e|ing))[ _a-z()]*[:=]?\s*"
    r"(?P<value>[\d.]+)\s*(?P<unit>ms|s)?)"
)
_LOSS = re.compile(
    r"(?i)\b(?:lm |train_?|reduced_train_)?loss[\x22']?\s*[:=]?\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
)
_BUSY = re.compile(r"(?i)\b(?:busy|compute)_?(?:time)?(?:_s)?\s*[:=]\s*(?P<value>[\d.]+)\s*(?P<unit>ms|s)?\b")
_TOKENS = re.compile(r"(?i)\b(?:tps|tokens(?:/s(?:ec)?(?:ond)?|_per_sec(?:ond)?))\s*[:=]\s*([\d.,]+)")
#: How the Hugging Face Trainer prints a step: a Python dict without the number of the step.
_TRAINER = re.compile(r"\{'loss': '?(?P<loss>[\d.eE+-]+|nan|inf)'?, .*'(?:epoch|learning_rate)':")
_RATE = re.compile(r"(?i)\b(?:learning[ _]rate|lr)\s*[:=]\s*(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One logged step; what the line does not say is None.

    `rate` is the learning rate, `busy_s` the step's time without waiting.
    """

    file: str
    line: int
    step: int
    step_s: float | None
    loss: float | None
    text: str = ""
    rate: float | None = None
    busy_s: float | None = None
    tokens_per_s: float | None = None


def read_line(line: str, number: int, file: str) -> Step | None:
    """The step that a line logs, or None."""
    if not any(word in line for word in _TELLING):
        return None
    step = _STEP.search(line[:600])
    if step is None:
        return None
    time, loss = _TIME.search(line[:600]), _LOSS.search(line[:600])
    if time is None and loss is None and not any(word in line for word in _TELLING[3:]):
        return None
    tokens = _TOKENS.search(line[:600])
    return Step(
        file=file,
        line=number,
        step=int(step[1]),
        step_s=_seconds(time),
        loss=_real(loss[1]) if loss else None,
        text=line.strip()[:300],
        rate=_real(rate[1]) if (rate := _RATE.search(line[:600])) else None,
        busy_s=_plain_seconds(_BUSY.search(line[:600])),
        tokens_per_s=_real(tokens[1].replace(",", "")) if tokens else None,
    )


def trainer_loss(line: str) -> float | None:
    """The loss of a line of the Hugging Face Trainer, which does not number its steps; else None."""
    found = _TRAINER.search(line[:600])
    return _real(found["loss"]) if found else None


def _seconds(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    if match["ms"]:
        value = _real(match["ms"])
        return None if value is None else value / 1e3
    return _plain_seconds(match)


def _plain_seconds(match: re.Match[str] | None) -> float | None:
    value = _real(match["value"]) if match else None
    return value / 1e3 if match and value is not None and match["unit"] == "ms" else value


def _real(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
