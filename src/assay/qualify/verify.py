"""Whether a run is whole, which hardware it came from, and whether it was made as an annex asks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from assay.catalog.quantities import quantity
from assay.domain.criterion import Criterion
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.domain.verdict import Verdict
from assay.qualify.annex import Terms

#: What names one piece of hardware and no other.
IDENTITIES = (
    "gpu.uuid",
    "gpu.serial",
    "nic.node_guid",
    "host.serial",
    "host.machine_id",
    "torch.device_uuid",
)


class Followed(str, Enum):
    """How a run stands to one clause of an annex."""

    YES = "yes"
    TOO_FEW_RESTARTS = "too_few_restarts"
    OTHER_RECIPE = "other_recipe"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseCheck:
    """One clause: `restarts` of the subject with fewest, those `asked` for, and the difference."""

    criterion: Criterion
    followed: Followed
    restarts: int
    asked: int
    difference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnexCheck:
    """A run against an annex. `changed` are lines of the document that are not as they were signed.

    `recorded` is the digest of the annex that the run says it was made under, where it says so.
    """

    digest: str
    profile: str
    clauses: tuple[ClauseCheck, ...]
    changed: tuple[str, ...] = ()
    recorded: str | None = None

    @property
    def is_another(self) -> bool:
        """Whether the run was made under another annex than this one."""
        return self.recorded is not None and self.recorded != self.digest

    @property
    def verdict(self) -> Verdict:
        """Fail where something was done otherwise than signed, open where a required clause has no value."""
        required = [c for c in self.clauses if c.criterion.required]
        if self.changed or self.is_another or any(c.followed in _AGAINST for c in required):
            return Verdict.FAIL
        open_ones = any(c.followed is Followed.NOT_MEASURED for c in required)
        return Verdict.NOT_MEASURED if open_ones else Verdict.PASS


#: What judging works out from the run folder itself, whoever made it.
_OF_THE_RUN = "run."
_AGAINST = (Followed.TOO_FEW_RESTARTS, Followed.OTHER_RECIPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A number that names one piece of hardware, or why it could not be read."""

    subject: Subject
    key: str
    value: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What `assay verify` says. `fault` is why the run is not whole; `sealed` that it ended at all.

    `recorded_annex` is the digest of the annex that the run was made under, where it was.
    """

    run: str
    run_hash: str | None
    sealed: bool
    fault: str | None
    hosts: tuple[str, ...]
    identities: tuple[Identity, ...]
    annex: AnnexCheck | None = None
    recorded_annex: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Fail where the run was changed or the annex not followed; undecided where it never ended."""
        if self.fault is not None:
            return Verdict.FAIL
        if self.annex is not None and self.annex.verdict is Verdict.FAIL:
            return Verdict.FAIL
        if not self.sealed:
            return Verdict.UNDECIDED
        return Verdict.PASS if self.annex is None else self.annex.verdict


def identities(facts: Iterable[Fact]) -> tuple[Identity, ...]:
    """The hardware that a run came from, by subject."""
    found = {
        (fact.subject, fact.key): Identity(
            subject=fact.subject,
            key=fact.key,
            value=None if fact.value is None else str(fact.value),
            reason=fact.reason,
        )
        for fact in facts
        if fact.key in IDENTITIES
    }
    return tuple(identity for _, identity in sorted(found.items()))


def check_annex(
    terms: Terms, readings: Iterable[Reading], changed: Sequence[str] = (), *, recorded: str | None = None
) -> AnnexCheck:
    """Whether what was measured has the recipes and restarts that the terms ask for."""
    by_quantity: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.origin is Origin.MEASURED and reading.value is not None:
            by_quantity[reading.quantity].append(reading)
    return AnnexCheck(
        digest=terms.digest,
        profile=terms.profile.name,
        clauses=tuple(_clause(c, terms.restarts_of(c), by_quantity) for c in terms.profile.criteria),
        changed=tuple(changed),
        recorded=recorded,
    )


def _clause(c: Criterion, asked: int, by_quantity: dict[str, list[Reading]]) -> ClauseCheck:
    known = quantity(c.quantity)
    if c.quantity.startswith(_OF_THE_RUN):
        return ClauseCheck(criterion=c, followed=Followed.YES, restarts=1, asked=asked)
    about = [r for name, readings in by_quantity.items() if known.describes(name) for r in readings]
    recipes = {r.recipe for r in about}
    fitting = {recipe for recipe in recipes if not recipe.lacks(c.recipe)}
    if not fitting:
        nearest = min(recipes, key=lambda recipe: (len(recipe.lacks(c.recipe)), str(recipe)), default=None)
        return ClauseCheck(
            criterion=c,
            followed=Followed.NOT_MEASURED if nearest is None else Followed.OTHER_RECIPE,
            restarts=0,
            asked=asked,
            difference="" if nearest is None else "; ".join(map(str, nearest.lacks(c.recipe))),
        )
    restarts: dict[tuple[str, Subject, Recipe], set[int]] = defaultdict(set)
    for r in about:
        if r.recipe in fitting:
            restarts[r.quantity, r.subject, r.recipe].add(r.replicate or 0)
    fewest = min(map(len, restarts.values()))
    followed = Followed.YES if fewest >= asked else Followed.TOO_FEW_RESTARTS
    return ClauseCheck(criterion=c, followed=followed, restarts=fewest, asked=asked)
