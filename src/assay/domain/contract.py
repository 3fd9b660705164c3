"""What a contract promises of a service, and what it gives back when it falls short."""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """Availability below `below_frac` gives `credit_frac` of the fee."""

    below_frac: float
    credit_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a contract promises. `basis` says which availability counts: `node` or `job`."""

    available_frac: float = 0.999
    basis: str = "node"
    tiers: tuple[Tier, ...] = ()
    fee: float | None = None
    currency: str = ""
    respond_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.available_frac <= 1:
            raise InputError(f"availability {self.available_frac} is not in 0 … 1")
        if self.basis not in ("node", "job"):
            raise InputError(f"basis {self.basis!r}", fix="'node' or 'job'")

    def credit_frac(self, available_frac: float) -> float:
        """The largest credit of all tiers that the availability falls below."""
        return max((t.credit_frac for t in self.tiers if available_frac < t.below_frac), default=0.0)
