"""Every threshold of the watch, in one place; `bounds:` of assay-watch.yaml sets them by the same names."""

from __future__ import annotations

from dataclasses import dataclass, fields

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Thresholds. Shares are of the usual value: `straggler_frac` 0.1 is 10 % above the siblings."""

    # Steps of a job.
    straggler_frac: float = 0.10
    straggler_steps: int = 5
    job_slow_frac: float = 0.25
    job_slow_steps: int = 5
    drift_frac: float = 0.05
    spike_ratio: float = 2.0
    hang_steps: float = 8.0
    hang_least_s: float = 6.0
    pause_s: float = 1800.0
    checkpoint_overdue_ratio: float = 3.0
    # Loss.
    loss_spike_sigmas: float = 8.0
    loss_spike_frac: float = 0.15
    loss_cool_down_steps: int = 50
    loss_diverged_frac: float = 0.10
    # GPUs.
    hot_degC: float = 92.0
    corrected_ecc_per_h: float = 1000.0
    remapped_rows_most: float = 8.0
    pcie_replays_per_h: float = 100.0
    # Network.
    symbol_errors_per_h: float = 120.0
    link_errors_per_h: float = 60.0
    flaps_most: float = 1.0
    wait_frac: float = 0.3
    retransmit_frac: float = 0.01
    pair_ratio: float = 4.0
    pair_least_s: float = 0.001
    pair_loss_frac: float = 0.004
    # Clocks, storage, ranks.
    clock_offset_s: float = 0.001
    storage_s: float = 2.0
    cpu_wait_frac: float = 0.4
    cpu_throttled_frac: float = 0.10
    # Silence.
    silent_ratio: float = 5.0
    silent_least_s: float = 10.0
    down_s: float = 4.0
    # Incidents.
    join_s: float = 120.0
    close_s: float = 300.0
    escalate_s: float = 1800.0
    late_s: float = 30.0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not value > 0:
                raise InputError(f"{entry.name} = {value} is not above 0")
