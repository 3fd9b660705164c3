"""The shipped jobs that are not language models: weather, spectral, Monte Carlo, rendering, CT."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING

from assay.catalog.tables import shipped_text
from assay.errors import unknown_name

if TYPE_CHECKING:
    from assay.domain.job import Job

_FOLDER = "workloads"


@functools.cache
def job_ids() -> tuple[str, ...]:
    """The ids of the shipped jobs, in alphabetical order."""
    folder = resources.files("assay.catalog").joinpath("data", _FOLDER)
    return tuple(
        sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    )


@functools.cache
def job(name: str) -> Job:
    """The shipped job with this id; raises `UnknownNameError` with the nearest names."""
    # Whether a name is a job's is asked for every prediction; reading one loads much more.
    from assay.codec.job import load_job

    said = name.strip().lower()
    if said not in job_ids():
        raise unknown_name("job", name, job_ids())
    return load_job(shipped_text(f"{_FOLDER}/{said}.toml"), f"{said}.toml")
