"""Values that must stay on one side of a bound: temperatures, throttling, states, offsets, latencies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from assay.domain.samples import Samples
from assay.watch.detectors.rows import Rows
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """`metric` beyond the limit in `samples` batches in a row means `code`; as many within it end that.

    `below` turns the direction; `magnitude` compares the absolute value.
    """

    metric: str
    code: str
    because: str
    limit: Callable[[Settings], float]
    samples: int
    below: bool = False
    magnitude: bool = False


def _yes(settings: Settings) -> float:
    return 0.5


#: What a node, a GPU and a port must look like. States are 0 or 1.
BOUNDS = (
    Bound(metric="gpu_temperature_degC", code="GPU_THROTTLED_THERMAL", because="hot",
          limit=lambda s: s.hot_degC, samples=3),
    Bound(metric="gpu_throttled_thermal", code="GPU_THROTTLED_THERMAL", because="throttled",
          limit=_yes, samples=3),
    Bound(metric="gpu_throttled_power", code="GPU_THROTTLED_POWER", because="throttled",
          limit=_yes, samples=3),
    Bound(metric="gpu_lost", code="GPU_LOST", because="gpu_lost", limit=_yes, samples=1),
    Bound(metric="gpu_remap_failed", code="GPU_ROW_REMAP_FAILURE", because="remap_failed",
          limit=_yes, samples=1),
    Bound(metric="gpu_remap_pending", code="GPU_ROW_REMAP_PENDING", because="remap_pending",
          limit=_yes, samples=1),
    Bound(metric="gpu_remapped_rows", code="GPU_ECC", because="remap_budget",
          limit=lambda s: s.remapped_rows_most, samples=1),
    Bound(metric="gpu_nvlinks_down", code="NVLINK_DOWN", because="nvlinks_down", limit=_yes, samples=2),
    Bound(metric="gpu_pcie_width_frac", code="PCIE_DEGRADED", because="pcie_narrow",
          limit=lambda s: 0.99, samples=3, below=True),
    Bound(metric="port_up", code="IB_PORT_DOWN", because="port_down", limit=_yes, samples=2, below=True),
    Bound(metric="clock_offset_s", code="CLOCK_OFFSET", because="clock_offset",
          limit=lambda s: s.clock_offset_s, samples=2, magnitude=True),
    Bound(metric="clock_synchronized", code="TIME_NOT_SYNCED", because="clock_free",
          limit=_yes, samples=30, below=True),
    Bound(metric="storage_latency_s", code="STORAGE_STALL", because="storage",
          limit=lambda s: s.storage_s, samples=2),
)  # fmt: skip


@detector(
    "bounds",
    reads=[bound.metric for bound in BOUNDS],
    codes=sorted({bound.code for bound in BOUNDS}),
    false_alarms_per_subject_day=1e-3,
)
class Bounds:
    """Each bound of `BOUNDS` over all subjects of its metric.

    A reading beyond the bound of a healthy subject, by a glitch of the driver, is taken to have a chance of
    1e-4 or less, independently from batch to batch: two in a row at a batch in 15 s are 6e-5 a day. States
    that need one batch (a lost GPU, remapped rows) are counted by hardware and have no noise.
    """

    def __init__(self, settings: Settings) -> None:
        self._bounds: dict[str, list[tuple[Bound, float, Rows]]] = {}
        for bound in BOUNDS:
            rows = Rows(bad=0.0, good=0.0, on=0.0)
            self._bounds.setdefault(bound.metric, []).append((bound, bound.limit(settings), rows))

    def feed(self, item: Item) -> Iterator[Signal]:
        """A batch of one metric."""
        if isinstance(item, Samples):
            for bound, limit, rows in self._bounds[item.metric]:
                yield from self._hold(bound, limit, rows, item)

    def _hold(self, bound: Bound, limit: float, rows: Rows, item: Samples) -> Iterator[Signal]:
        rows.align(item.subjects)
        values = np.abs(item.values) if bound.magnitude else item.values
        # A NaN is neither good nor bad: that it is missing is told by the detector of silence.
        bad, good = (values < limit, values >= limit) if bound.below else (values > limit, values <= limit)
        if not bad.any() and not rows["bad"].any() and not rows["on"].any():
            return
        rows["bad"] = np.where(bad, rows["bad"] + 1, np.where(good, 0, rows["bad"]))
        rows["good"] = np.where(good, rows["good"] + 1, np.where(bad, 0, rows["good"]))
        for at in np.flatnonzero((rows["bad"] >= bound.samples) & (rows["on"] == 0)):
            rows["on"][at] = 1
            yield raised(
                bound.code, item.subjects[at], item.time_s, bound.because,
                value=float(item.values[at]), bound=limit, unit=_UNIT.get(bound.metric, "count"),
            )  # fmt: skip
        for at in np.flatnonzero((rows["good"] >= bound.samples) & (rows["on"] == 1)):
            rows["on"][at] = 0
            yield over(bound.code, item.subjects[at], item.time_s)


_UNIT = {"gpu_temperature_degC": "degC", "clock_offset_s": "s", "storage_latency_s": "s"}
