"""How many GPUs of which kind meet a deadline and a budget: the fewest nodes of each platform that do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from assay.domain.cluster import Cluster
from assay.domain.offer import Offer
from assay.errors import InputError
from assay.plan.compare import Platform, Terms, platform

#: Nodes are found to within this part of their number: a layout's degrees decide more than one node does.
_STEP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A platform at one size, and whether it meets what was asked (None: nothing was asked, or not known)."""

    platform: Platform
    meets_deadline: bool | None
    meets_budget: bool | None

    @property
    def meets(self) -> bool:
        """Whether nothing that was asked is missed."""
        return (
            self.platform.days is not None
            and self.meets_deadline is not False
            and self.meets_budget is not False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """All options tried, those that meet everything first and the cheapest of them before; then by days."""

    options: tuple[Option, ...]
    deadline_days: float | None
    budget: Decimal | None

    @property
    def best(self) -> Option | None:
        """The cheapest option that meets everything."""
        return self.options[0] if self.options and self.options[0].meets else None


def size(
    offers: list[tuple[Offer, Cluster | None]],
    terms: Terms,
    *,
    deadline_days: float | None = None,
    budget: Decimal | None = None,
    most_gpus: int = 16384,
    progress: Callable[[int, int], None] | None = None,
) -> Sized:
    """For each offer the sizes from the smallest that fits in doublings, and the fewest nodes in time.

    Raises `InputError` for a deadline or a budget that is not above zero.
    """
    if deadline_days is not None and deadline_days <= 0:
        raise InputError(
            f"a deadline {-deadline_days:.3g} days in the past", fix="give a date to come, or 21d"
        )
    if budget is not None and budget <= 0:
        raise InputError(f"a budget of {budget}", fix="give an amount above zero")
    found: list[Option] = []
    for done, (offer, cluster) in enumerate(offers):
        for one in _sizes(offer, cluster, terms, deadline_days, most_gpus):
            found.append(
                Option(
                    platform=one,
                    meets_deadline=None
                    if deadline_days is None or one.days is None
                    else one.days <= deadline_days,
                    meets_budget=None if budget is None or one.bill is None else one.bill.total <= budget,
                )
            )
        if progress:
            progress(done + 1, len(offers))
    return Sized(options=tuple(sorted(found, key=_order)), deadline_days=deadline_days, budget=budget)


def _order(one: Option) -> tuple[bool, bool, Decimal, float, str]:
    bill, days = one.platform.bill, one.platform.days
    return (
        not one.meets,
        bill is None,
        bill.total if bill else Decimal(0),
        days if days is not None else 0.0,
        f"{one.platform.offer.id} {one.platform.nodes:9d}",
    )


def _sizes(
    offer: Offer, cluster: Cluster | None, terms: Terms, deadline_days: float | None, most_gpus: int
) -> Iterator[Platform]:
    """Doublings from the first that fits to the first in time, and the fewest nodes between the last two."""

    def at(nodes: int) -> Platform:
        return platform(offer, cluster, replace(terms, gpus=nodes * offer.gpus_per_node))

    nodes, late, last = 1, None, None
    while nodes * offer.gpus_per_node <= most_gpus:
        one = at(nodes)
        if one.days is not None:
            last = one
            yield one
            if deadline_days is not None and one.days <= deadline_days:
                if late is not None:
                    yield from _between(late, one, at, deadline_days)
                return
            late = one
        nodes *= 2
    if last is None:
        # What fits at no size is an answer too: the largest says why.
        yield at(max(1, nodes // 2))


def _between(
    late: Platform, early: Platform, at: Callable[[int], Platform], deadline_days: float
) -> Iterator[Platform]:
    """Bisection between a size that is late and one in time; times need not fall evenly, so each is tried."""
    low, high = late.nodes, early.nodes
    step = max(1, early.nodes // _STEP)
    while high - low > step:
        middle = low + max(step, (high - low) // 2 // step * step)
        if middle >= high:
            return
        one = at(middle)
        if one.days is not None:
            yield one
        if one.days is not None and one.days <= deadline_days:
            high = middle
        else:
            low = middle
