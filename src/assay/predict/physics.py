"""The few numbers that are fitted on measured steps, each with its meaning and its range.

They multiply terms whose shape the formulas give. None belongs to a row, a source or a model. The defaults
are what is known before any step is measured; `FITTED` is the fit on the rows of `validation/training`, of
which the selective-recompute table is left out. `assay validate training --cross source` fits them again
without the source that it scores.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Numbers that are one thing on several generations, and how much of the prior's variance they share.
_KINDS = ("traffic_", "cast_")
_SHARED_FRAC = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """Multipliers (1: as the formula and the kernel tables say) and a few plain quantities."""

    #: GEMM time in a running step over that of the table's kernel, by generation and precision class.
    gemm_ampere: float = 1.0
    gemm_hopper: float = 1.0
    gemm_hopper_fp8: float = 1.0
    gemm_blackwell: float = 1.0
    gemm_blackwell_fp8: float = 1.0
    gemm_fp4: float = 1.0
    #: Exponent of power: a card limited to fewer watts than its generation's reference slows by (ref/W)^this.
    power: float = 0.6
    #: Fused attention's time over the table's (forward), and FlashAttention-2 class kernels over fused ones.
    attention: float = 1.0
    attention_blackwell: float = 0.9
    flash_ampere: float = 0.8
    flash_hopper: float = 1.6
    flash1_ampere: float = 1.1
    flash1_hopper: float = 2.4
    #: Backward attention over forward attention, fused kernels and FlashAttention.
    attention_backward: float = 2.9
    flash_backward: float = 2.9
    flash1_backward: float = 3.3
    #: Separate-kernel attention: fraction of its traffic's ideal time.
    unfused: float = 1.0
    #: Time of memory-bound kernels over traffic / datasheet bandwidth, by generation.
    traffic_ampere: float = 1.2
    traffic_hopper: float = 1.25
    traffic_blackwell: float = 1.3
    #: Quantisation to fp8 and below, the same.
    cast_hopper: float = 1.25
    cast_blackwell: float = 1.25
    #: What host launches cost over the stack's own figure, and what the device idles between two kernels.
    host: float = 1.0
    kernel_gap_us: float = 1.5
    #: Tensor-parallel, data-parallel, pipeline and expert traffic over the network model's time.
    tp_ampere: float = 1.0
    tp_later: float = 1.0
    dp: float = 1.0
    pp: float = 1.0
    ep: float = 1.0
    cp: float = 1.0
    #: Exposed fraction of traffic that a stack says is overlapped (tails, contention).
    tail: float = 0.1
    #: What permuting and gathering tokens for experts costs over its least traffic.
    permute: float = 2.0
    #: Optimizer traffic over its ideal time.
    optimizer: float = 1.2
    #: Standard deviation of one rank's micro-step, for the expected maximum over ranks.
    jitter_frac: float = 0.004
    #: Host work once a step over the stack's own figure.
    step: float = 1.0

    @classmethod
    def widths(cls) -> Floats:
        """Standard deviation, in log, of what is known of each number before any step is measured.

        GEMMs were measured alone and links are known from data sheets, so these may move little.
        """
        narrow = {
            "gemm": 0.07,
            "tp_": 0.12,
            "dp": 0.15,
            "pp": 0.15,
            "cp": 0.15,
            "attention": 0.15,
            "flash": 0.15,
        }
        narrow |= {"gemm_blackwell": 0.12, "gemm_fp4": 0.15, "power": 0.5, "kernel_gap": 0.25}
        found = []
        for name in cls.names():
            keys = [key for key in narrow if name.startswith(key)]
            found.append(narrow[max(keys, key=len)] if keys else 0.35)
        return np.array(found)

    @classmethod
    def covariance(cls) -> Floats:
        """Prior covariance of the logs: numbers of one kind on different generations share most of it.

        A kind of kernel that falls short of the datasheet on one generation does so on the next one too.
        """
        widths = cls.widths()
        kinds = [next((k for k in _KINDS if name.startswith(k)), name) for name in cls.names()]
        alike = np.array([[_SHARED_FRAC * (a == b) for b in kinds] for a in kinds])
        np.fill_diagonal(alike, 1.0)
        return alike * np.outer(widths, widths)

    def vector(self) -> Floats:
        """The numbers in field order."""
        return np.array([getattr(self, entry.name) for entry in fields(self)], float)

    @classmethod
    def of(cls, vector: Floats) -> Physics:
        """The record of a vector in field order."""
        return cls(**{entry.name: float(value) for entry, value in zip(fields(cls), vector, strict=True)})

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The fields' names in order."""
        return tuple(entry.name for entry in fields(cls))


#: The fit that predictions use.
FITTED = Physics(
    gemm_ampere=1.08,
    gemm_hopper=0.987,
    gemm_hopper_fp8=1.06,
    gemm_blackwell=1.13,
    gemm_blackwell_fp8=1.04,
    gemm_fp4=1.02,
    power=0.778,
    attention=1.09,
    attention_blackwell=0.841,
    flash_ampere=0.8,
    flash_hopper=1.6,
    flash1_ampere=1.13,
    flash1_hopper=2.52,
    attention_backward=2.83,
    flash_backward=2.9,
    flash1_backward=3.43,
    unfused=0.865,
    traffic_ampere=1.44,
    traffic_hopper=1.65,
    traffic_blackwell=1.64,
    cast_hopper=1.49,
    cast_blackwell=1.26,
    host=1.09,
    kernel_gap_us=1.64,
    tp_ampere=1.05,
    tp_later=1.3,
    dp=1.18,
    pp=1.04,
    ep=1.97,
    cp=1,
    tail=0.172,
    permute=1.61,
    optimizer=0.973,
    jitter_frac=0.0051,
    step=1.15,
)
