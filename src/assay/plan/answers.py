"""What each question about a plan answers: the records that reports show and programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.catalog.offers import Refusal
from assay.domain.cluster import Cluster
from assay.domain.offer import Offer
from assay.plan.compare import Flip, Platform, Terms
from assay.plan.growth import Stage
from assay.plan.guide import ClassCheck, Implied, Need
from assay.plan.money import Bill
from assay.plan.ranking import Candidate, Ranking
from assay.plan.risk import Risk
from assay.plan.storage import Checkpoint, InputNeed, Storage
from assay.plan.work import AnyJob, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Costed:
    """A candidate with its bill, or the reason why there is none."""

    candidate: Candidate
    bill: Bill | None
    why_not: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """The answer of `plan layout`; `offer` is what the bills are for."""

    ranking: Ranking
    costed: tuple[Costed, ...]
    offer: Offer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The answer of `plan compare`: platforms cheapest first, what was refused, and the guide's
    arithmetic."""

    need: Need
    terms: Terms
    platforms: tuple[Platform, ...]
    set_aside: tuple[tuple[Offer, str], ...]
    refused: tuple[Refusal, ...]
    flips: tuple[Flip, ...]
    stale: Mapping[str, int]
    promises: tuple[Implied, ...]
    promised_speedup: tuple[float, float]
    classes: tuple[ClassCheck, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskAnswer:
    """The answer of `plan risk`: the risk, and what storage makes of the checkpoint and the input."""

    cluster: Cluster
    job: AnyJob
    work: Work
    storage: Storage
    save: Checkpoint
    input: InputNeed | None
    risk: Risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The answer of `plan growth`: the stages of one system for one job."""

    cluster: Cluster
    job: AnyJob
    stages: tuple[Stage, ...]
