"""Faults to plant in an invented cluster: which subject, which quantity, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from assay.domain.fact import Fact
from assay.domain.subject import Subject
from assay.errors import InputError, did_you_mean
from assay.store.invented import FLUCTUATION, Series
from assay.units import parse

#: A name that stands for the share of a CPU that a subject gets while any of its values is measured.
CPU_SHARE = "cpu_share"
_PERCENT = re.compile(r"[+-]\d+(?:\.\d+)?\s*%")
_RANGE = re.compile(r"(\d+)-(\d+)")
_NUMBER = re.compile(r"\d+$")
_FORM = "SUBJECT:QUANTITY:EFFECT, for example gpu:node01/3:gemm.bf16.rate:-5%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """Written `SUBJECT:QUANTITY:EFFECT`; `*` in subject and quantity stands for anything.

    `node:NAME` also means everything on that node, and `nodes:16-31` everything on nodes node16 … node31,
    as a leaf switch or a firmware has them. Effects: `-5%` or `+20%` of the value, `+5 ms` added
    to it, `missing` (not measured), and for a fact `=text`.
    """

    subject: str
    quantity: str
    effect: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Plant:
        """Read the written form."""
        parts = text.rsplit(":", 2)
        if len(parts) != 3 or not all(parts):
            raise InputError(f"cannot read {text!r} as a fault to plant", fix=f"write {_FORM}")
        plant = cls(subject=parts[0], quantity=parts[1], effect=parts[2], text=text)
        if not (parts[2] == "missing" or parts[2][0] in "+-="):
            raise InputError(
                f"unknown effect {parts[2]!r} in {text!r}", fix="one of -5%, '+5 ms', missing, =text"
            )
        if _PERCENT.fullmatch(parts[2]):
            if plant.factor <= 0:
                raise InputError(
                    f"{text!r} leaves nothing of the value", fix="use 'missing', or less than -100%"
                )
        elif parts[2][0] in "+-":
            parse(parts[2])
        return plant

    @property
    def factor(self) -> float:
        """What an effect in percent multiplies the value by."""
        return 1 + float(self.effect.rstrip("% ")) / 100

    def hits(self, subject: Subject) -> bool:
        """Whether this is about `subject`, or about the node that it lies on."""
        written = str(subject)
        if self.subject in (written, "*") or ("*" in self.subject and fnmatchcase(written, self.subject)):
            return True
        kind, _, node = self.subject.partition(":")
        if kind == "nodes":
            return any(_is_among(end.partition("/")[0], node) for end in subject.ends)
        return kind == "node" and any(end.partition("/")[0] == node for end in subject.ends)


def _is_among(node: str, numbers: str) -> bool:
    """Whether the number at the end of a node's name lies in a range like `16-31`."""
    asked, own = _RANGE.fullmatch(numbers), _NUMBER.search(node)
    return bool(asked and own and int(asked[1]) <= int(own[0]) <= int(asked[2]))


def plant_in_series(plants: Sequence[Plant], series: Sequence[Series]) -> set[Plant]:
    """Change the series in place, and return the plants that found something to change."""
    found: set[Plant] = set()
    for plant in plants:
        for one in series:
            names = {y.quantity for y in one.yields}
            if plant.quantity != CPU_SHARE and not any(fnmatchcase(n, plant.quantity) for n in names):
                continue
            for at, subject in enumerate(one.subjects):
                if plant.hits(subject):
                    _apply(plant, one, at)
                    found.add(plant)
    return found


def plant_in_facts(plants: Sequence[Plant], facts: Sequence[Fact]) -> tuple[list[Fact], set[Plant]]:
    """The facts with faults, and the plants that found one to change."""
    found: set[Plant] = set()
    changed = list(facts)
    for plant in plants:
        for at, fact in enumerate(changed):
            if not (fnmatchcase(fact.key, plant.quantity) and plant.hits(fact.subject)):
                continue
            if plant.effect == "missing":
                changed[at] = replace(fact, value=None, reason="planted: could not be read")
            elif plant.effect.startswith("="):
                value = plant.effect[1:]
                changed[at] = replace(
                    fact, value=value if fact.unit == "text" else parse(value, unit=fact.unit).value
                )
            else:
                raise InputError(f"{plant.text!r}: a fact takes '=value' or 'missing'")
            found.add(plant)
    return changed, found


def refuse_unplanted(
    plants: Iterable[Plant], found: set[Plant], series: Sequence[Series], facts: Sequence[Fact]
) -> None:
    """A fault that nothing was changed for would make a generated run a false witness."""
    for plant in plants:
        if plant in found:
            continue
        quantities = {y.quantity for one in series for y in one.yields} | {fact.key for fact in facts}
        if not any(fnmatchcase(name, plant.quantity) for name in quantities | {CPU_SHARE}):
            raise InputError(
                f"{plant.text!r}: no {plant.quantity!r} in this run",
                fix=did_you_mean(plant.quantity, quantities),
            )
        subjects = {
            str(subject)
            for one in series
            if plant.quantity == CPU_SHARE or any(fnmatchcase(y.quantity, plant.quantity) for y in one.yields)
            for subject in one.subjects
        } | {str(fact.subject) for fact in facts if fnmatchcase(fact.key, plant.quantity)}
        raise InputError(
            f"{plant.text!r}: no {plant.subject!r} has {plant.quantity!r}",
            fix=did_you_mean(plant.subject, subjects),
        )


def _apply(plant: Plant, series: Series, at: int) -> None:
    if plant.effect == "missing":
        series.missing[at] = True
    elif _PERCENT.fullmatch(plant.effect):
        factor = plant.factor
        if plant.quantity == CPU_SHARE:
            series.share[at] *= factor
            return
        told = [y for y in series.yields if fnmatchcase(y.quantity, plant.quantity)]
        if all(y.statistic == FLUCTUATION for y in told):
            series.unrest[at] *= factor
            return
        # Samples of times change the other way when the fault is told as one of a bandwidth.
        series.base[at] *= factor if any(y.over is None for y in told) else 1 / factor
    elif plant.effect.startswith("="):
        raise InputError(f"{plant.text!r}: '=' is for facts; use a percentage or an amount")
    else:
        series.extra[at] += parse(plant.effect, unit=series.unit).value
