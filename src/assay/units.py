"""SI units: reading "400 Gbit/s", and printing a float so that people read it at a glance.

Inside the program every quantity is a float in the base unit of its dimension. Text units exist only
in files, flags and reports. Bits and bytes, and decimal and binary multiples, are never guessed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from assay.errors import UnitError, did_you_mean

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_TIME = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "days": 86400.0,
}

#: Every base unit that a record may carry, with what it measures.
BASE_UNITS: dict[str, str] = {
    "s": "time",
    "B": "bytes",
    "B/s": "bandwidth, one direction",
    "FLOP": "floating-point operations",
    "FLOP/s": "floating-point rate, dense",
    "OP/s": "integer operation rate, dense",
    "W": "power",
    "Hz": "frequency",
    "degC": "temperature",
    "1/s": "rate of events",
    "1": "fraction or ratio",
    "count": "number of things",
    "USD/h": "price per hour",
    "CNY/h": "price per hour",
    "text": "a name, version or state",
}


#: Ending of a name -> the base unit of its value (house style); longer endings first.
_UNIT_OF_ENDING = {
    "_flop_per_s": "FLOP/s",
    "_op_per_s": "OP/s",
    "_per_s": "1/s",
    "_bytes": "B",
    "_flop": "FLOP",
    "_frac": "1",
    "_degC": "degC",
    "_Bps": "B/s",
    "_Hz": "Hz",
    "_W": "W",
    "_s": "s",
}


def unit_of_name(name: str) -> str | None:
    """The base unit that a name's ending tells: `step_time_s` is in s; None where it tells none."""
    return next((unit for ending, unit in _UNIT_OF_ENDING.items() if name.endswith(ending)), None)


def _table() -> dict[str, tuple[float, str]]:
    table: dict[str, tuple[float, str]] = {}
    for prefix, factor in (_DECIMAL | _BINARY).items():
        table[f"{prefix}B"] = (factor, "B")
        table[f"{prefix}B/s"] = (factor, "B/s")
        table[f"{prefix}bit"] = (factor / 8, "B")
        for bits in ("bit/s", "b/s", "bps"):
            table[f"{prefix}{bits}"] = (factor / 8, "B/s")
    for prefix, factor in _DECIMAL.items():
        for flops in ("FLOP/s", "FLOPS", "flop/s"):
            table[f"{prefix}{flops}"] = (factor, "FLOP/s")
        table[f"{prefix}FLOP"] = (factor, "FLOP")
        for ops in ("OP/s", "OPS"):
            table[f"{prefix}{ops}"] = (factor, "OP/s")
        table[f"{prefix}Hz"] = (factor, "Hz")
        table[f"{prefix}W"] = (factor, "W")
        table[f"{prefix}IOPS"] = (factor, "1/s")
        table[f"{prefix}token/s"] = (factor, "1/s")
    for name, factor in _TIME.items():
        table[name] = (factor, "s")
    table |= {
        "%": (0.01, "1"),
        "ppm": (1e-6, "1"),
        "1": (1.0, "1"),
        "1/s": (1.0, "1/s"),
        "count": (1.0, "count"),
        "degC": (1.0, "degC"),
        "°C": (1.0, "degC"),
    }
    for currency in ("USD", "CNY"):
        table[f"{currency}/h"] = (1.0, f"{currency}/h")
    return table


_UNITS = _table()
#: A prefix and bits or bytes, in size or a second, however they are written.
_SIZE = re.compile(r"(|[kmgtp]i?)(b|bit|byte)s?(/s|/sec|ps)?", re.IGNORECASE)
_NUMBER_UNIT = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A value in the base unit `unit`."""

    value: float
    unit: str


def parse(text: str | float, *, unit: str | None = None, where: str | None = None) -> Measure:
    """Read "400 Gbit/s", "1.5 h", "3 %" into its base unit.

    `unit` is the base unit that the value must have; a bare number is taken only where it is "1" or
    "count", because elsewhere the unit would be a guess. Raises `UnitError` with the fix.
    """
    if isinstance(text, bool):
        raise UnitError(f"{text} is not a quantity", where=where)
    if isinstance(text, int | float):
        if unit in ("1", "count"):
            return Measure(value=float(text), unit=unit)
        raise UnitError(
            f"{text!r} has no unit" + (f", {BASE_UNITS[unit]} is wanted" if unit in BASE_UNITS else ""),
            where=where,
            fix=f"write the unit, for example '{_example(unit)}'",
        )
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None:
        raise UnitError(
            f"cannot read {text!r} as a number with a unit",
            where=where,
            fix=f"for example '{_example(unit)}'",
        )
    number, name = float(match[1].replace("_", "")), match[2]
    if not name:
        return parse(number, unit=unit, where=where)
    if name not in _UNITS:
        raise UnitError(f"unknown unit {name!r} in {text!r}", where=where, fix=_suggest(name))
    factor, base = _UNITS[name]
    if unit is not None and base != unit and not (base == "1" and unit == "count"):
        raise UnitError(
            f"{text!r} is {BASE_UNITS[base]}, but {BASE_UNITS.get(unit, unit)} is wanted",
            where=where,
            fix=f"for example '{_example(unit)}'",
        )
    if not math.isfinite(number):
        raise UnitError(f"{text!r} is not a finite number", where=where)
    return Measure(value=number * factor, unit=unit or base)


def parse_bytes(text: str | int, *, where: str | None = None) -> int:
    """Read a size: a bare whole number is bytes; "16Mi" and "16MiB" are binary, "16MB" decimal."""
    if isinstance(text, int) or text.strip().isdigit():
        return int(text)
    bare = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti)\s*", text)
    return round(parse(f"{bare[1]} {bare[2]}B" if bare else text, unit="B", where=where).value)


def _suggest(name: str) -> str:
    """The unit that was meant; both where it may be bits or bytes, which nobody should guess."""
    size = _SIZE.fullmatch(name)
    if size is None:
        return did_you_mean(name, [unit for unit in _UNITS if unit.lower() == name.lower()] or _UNITS)
    prefix = size[1].capitalize() if size[1].lower() != "k" else "k"
    kinds = {"bit": ("bit",), "byte": ("B",)}.get(size[2].lower(), ("B", "bit"))
    meant = [f"{prefix}{kind}{'/s' if size[3] else ''}" for kind in kinds]
    if len(meant) == 1:
        return f"write {meant[0]!r}"
    return f"{name!r} could be {meant[0]!r} or {meant[1]!r}: bytes (B) and bits differ by 8"


def _example(unit: str | None) -> str:
    examples = {
        "s": "250 ms",
        "B": "16 MiB",
        "B/s": "400 Gbit/s",
        "FLOP/s": "312 TFLOP/s",
        "1/s": "1000 kIOPS",
        "1": "3 %",
        "Hz": "1.98 GHz",
        "CNY/h": "20 CNY/h",
        "USD/h": "2.5 USD/h",
    }
    return examples.get(unit or "B/s", f"1 {unit}")


_SCALED = {"B/s", "FLOP/s", "FLOP", "OP/s", "W", "Hz"}
_STEPS = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]


def show(value: float | str | None, unit: str, *, digits: int = 3) -> str:
    """Print a base-unit value the way people say it: `312 TFLOP/s`, `8.4 µs`, `98.2 %`, `16 MiB`."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return str(value)
    if unit == "B":
        return show_bytes(value)
    if unit == "1":
        return f"{_round(value * 100, digits)} %"
    if unit in ("count", "text"):
        return f"{value:,.0f}" if float(value).is_integer() else _round(value, digits)
    if unit == "s":
        return _show_time(value, digits)
    if unit == "degC":
        return f"{_round(value, digits)} °C"
    if unit == "1/s":
        for factor, prefix in ((1e6, "M"), (1e4, "k")):
            if abs(value) >= factor:
                return f"{_round(value / (1e3 if prefix == 'k' else factor), digits)} {prefix}/s"
        return f"{_round(value, digits)} /s"
    if unit in _SCALED:
        for factor, prefix in _STEPS:
            if abs(value) >= factor or factor == 1.0:
                return f"{_round(value / factor, digits)} {prefix}{unit}"
    return f"{_round(value, digits)} {unit}"


def percent(value: float | None, *, sign: bool = False) -> str:
    """A fraction as people read an error or a share, to a tenth of a percent: 4.7%, +4.7%."""
    if value is None:
        return "–"
    return f"{value:+.1%}" if sign else f"{value:.1%}"


def show_bytes(value: float) -> str:
    """Whole binary multiples as such (16 MiB), anything else decimal (640 GB)."""
    for factor, prefix in ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki")):
        if factor <= value < factor * 10_000 and value % factor == 0:
            return f"{value / factor:.0f} {prefix}B"
    for factor, prefix in _STEPS:
        if abs(value) >= factor:
            return f"{_round(value / factor, 3)} {prefix}B"
    return f"{value:g} B"


def _show_time(value: float, digits: int) -> str:
    magnitude = abs(value)
    if magnitude >= 172800:
        return f"{_round(value / 86400, digits)} d"
    if magnitude >= 7200:
        return f"{_round(value / 3600, digits)} h"
    if magnitude >= 120:
        return f"{_round(value / 60, digits)} min"
    for factor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if magnitude >= factor:
            return f"{_round(value / factor, digits)} {name}"
    return f"{_round(value / 1e-9, digits)} ns" if value else "0 s"


def _round(value: float, digits: int) -> str:
    """`digits` significant digits without an exponent; large whole numbers keep all their digits."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    return f"{rounded:,.{max(places, 0)}f}".rstrip("0").rstrip(".") if places > 0 else f"{rounded:,.0f}"
