"""Job files: parameters, formulas and phases of a job that is not a language model."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import Field

from assay.codec.document import read_document
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.job import Job, Parameter, Phase, PublishedRun
from assay.errors import InputError
from assay.units import parse


class _ParameterText(FileModel):
    value: str | float | int
    unit: str = "count"
    about: str
    grows: float | int = 0.0


class _PhaseText(FileModel):
    name: str
    kind: str
    about: str = ""
    flop: str = ""
    dtype: str = "fp64"
    bytes: str = ""
    messages: str = "1"
    group: str = "ranks"
    stride: str = "1"
    local_frac: str = ""
    repeat: str = "1"
    overlaps: str = ""
    overlap_frac: str = "1"


class _PublishedText(FileModel):
    what: str
    system: str
    gpus: int = Field(ge=1)
    figure: str
    source: str
    cluster: str = ""
    set: str = ""
    step_time: str | None = None


class _JobText(FileModel):
    schema_: int = Field(alias="schema")
    id: str
    name: str
    about: str
    source: str
    parameters: dict[str, _ParameterText]
    derived: dict[str, str] = Field(default_factory=dict)
    phases: list[_PhaseText]
    memory: dict[str, str]
    library: str = "nccl"
    published: list[_PublishedText] = Field(default_factory=list)


def load_job(source: Path | str, name: str | None = None) -> Job:
    """Read a job file, or text that is shown as `name`. Raises `InputError` with file:line."""
    document = read_document(source, name)
    text = read_as(document, _JobText, kind="job")
    parameters = tuple(
        Parameter(
            name=key,
            value=parameter_value(one.value, one.unit, document.where("parameters", key)),
            unit=one.unit,
            about=one.about,
            grows=float(one.grows),
        )
        for key, one in text.parameters.items()
    )
    phases = []
    for at, phase in enumerate(text.phases):
        with placed(document.where("phases", at)):
            phases.append(Phase(**phase.model_dump()))
    published = []
    for at, row in enumerate(text.published):
        where = document.where("published", at)
        said = row.model_dump(exclude={"step_time"})
        step_s = None if row.step_time is None else parse(row.step_time, unit="s", where=where).value
        published.append(PublishedRun(**said, step_time_s=step_s))
    with placed(document.where()):
        return Job(
            id=text.id,
            name=text.name,
            about=text.about,
            source=text.source,
            parameters=parameters,
            derived=tuple(text.derived.items()),
            phases=tuple(phases),
            memory=tuple(text.memory.items()),
            published=tuple(published),
            library=text.library,
        )


def parameter_value(text: str | float | int, unit: str, where: str | None) -> float:
    """A parameter's number in its unit: bare numbers for counts, text with a unit for the others."""
    if unit != "count" and isinstance(text, str):
        return parse(text, unit=unit, where=where).value
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number", where=where, fix="for example 4096 or 1e9") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{text} is not a number from 0 up", where=where)
    return value
