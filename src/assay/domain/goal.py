"""What the predictor is to reach on each group of its validation: median and 90th percentile of the error."""

from __future__ import annotations

from dataclasses import dataclass

from assay.domain.score import GroupScore


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Largest median and 90th percentile of the absolute error."""

    median_frac: float
    p90_frac: float

    def misses(self, score: GroupScore) -> tuple[str, ...]:
        """`median`, `p90`: which of them the score misses, as printed to a tenth of a percent."""
        pairs = (
            ("median", score.median_abs_error_frac, self.median_frac),
            ("p90", score.p90_abs_error_frac, self.p90_frac),
        )
        return tuple(name for name, value, most in pairs if value is not None and round(value, 3) > most)

    def __str__(self) -> str:
        return f"{self.median_frac * 100:.0f}/{self.p90_frac * 100:.0f}"


_GOALS = {
    "selective-recompute table": (0.03, 0.07),
    "dense": (0.05, 0.12),
    "A100 multi-node table": (0.08, 0.15),
    "FSDP/ZeRO": (0.08, 0.18),
    "MoE": (0.12, 0.25),
    "Blackwell dense": (0.10, 0.20),
    "2,048 GPUs and more": (0.07, 0.15),
    "in a node": (0.08, 0.20),
    "across nodes, 64 MiB and more": (0.08, 0.20),
    "across nodes, all sizes": (0.20, 0.50),
}
_GEMM = Goal(median_frac=0.06, p90_frac=0.15)


def goal_of(group: str) -> Goal | None:
    """The goal of a group of the validation, or None where none was set."""
    if group.startswith("gemm "):
        return _GEMM
    known = _GOALS.get(group)
    return None if known is None else Goal(median_frac=known[0], p90_frac=known[1])
