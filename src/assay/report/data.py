"""Everything that a report shows, as one record; the terminal and the page read the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.catalog.messages import Texts
from assay.domain.attestation import Attested
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.domain.verdict import Assessment
from assay.errors import InputError
from assay.judge.claims import Shortfall
from assay.judge.transport_results import attestation_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What was asked of the run. `created_s` is seconds since the epoch; `ranks` is the world size.

    `folder` is where the run lies; `versions` are (name, version) pairs.
    """

    run: str
    created_s: float
    command: str
    suite: str
    ranks: int
    hosts: tuple[str, ...]
    backend: str
    restarts: int
    assay_version: str
    folder: str = ""
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Raw samples of one quantity and recipe, in the order in which they were taken.

    `samples` has shape (count,) in the base unit `unit`.
    """

    quantity: str
    subject: Subject
    recipe: Recipe
    unit: str
    samples: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.samples.ndim != 1:
            raise InputError(
                f"samples of {self.quantity} have shape {self.samples.shape}, but (count,) is wanted"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData:
    """One judged run.

    `readings` are aggregated: one for each quantity, recipe, subject and origin, with the interval over
    restarts and `n` restarts. `replicates` are the values of the restarts themselves. `shortfalls` hold
    each claim against what was measured, the most overstated first. `attested` are the transports of results
    by their ids; `attestation_of` gives that of a quantity by a recipe. `run_hash` is the
    SHA-256 over the run folder, empty where it has not been sealed. `repeat_command` measures again.
    """

    assessment: Assessment
    readings: tuple[Reading, ...]
    info: RunInfo
    texts: Texts
    replicates: tuple[Reading, ...] = ()
    facts: tuple[Fact, ...] = ()
    attested: Mapping[str, Attested] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    series: tuple[Series, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    run_hash: str = ""
    repeat_command: str = ""
    report_path: str = ""

    def attestation_of(self, quantity: str, recipe: Recipe) -> Attested | None:
        """The transport of what was measured by a recipe; None where nothing is told of one."""
        return self.attested.get(attestation_id(quantity, recipe) or "")
