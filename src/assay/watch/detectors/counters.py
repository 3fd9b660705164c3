"""Counters: what they grew by within an hour, whatever resets them, and those that can count no further."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from assay.domain.finding import Severity
from assay.domain.samples import Samples
from assay.domain.subject import CLUSTER, Subject
from assay.watch.detectors.rows import Floats, Rows
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, over, raised

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """`metric` growing by more than `limit` within about an hour means `code`.

    `full` is the value at which the hardware stops counting, so that the truth is higher.
    """

    metric: str
    code: str
    because: str
    limit: Callable[[Settings], float]
    full: int | None = None


def _any(settings: Settings) -> float:
    return 0.5


#: Widths of the port counters: InfiniBand Architecture Specification, PortCounters.
COUNTS = (
    Count(metric="gpu_ecc_uncorrected_total", code="GPU_ECC_UNCORRECTABLE", because="ecc_uncorrected",
          limit=_any),
    Count(metric="gpu_ecc_corrected_total", code="GPU_ECC", because="counted",
          limit=lambda s: s.corrected_ecc_per_h),
    Count(metric="gpu_pcie_replays_total", code="PCIE_DEGRADED", because="counted",
          limit=lambda s: s.pcie_replays_per_h),
    Count(metric="port_symbol_errors_total", code="IB_LINK_ERRORS", because="counted",
          limit=lambda s: s.symbol_errors_per_h, full=2**16 - 1),
    Count(metric="port_link_errors_total", code="IB_LINK_ERRORS", because="counted",
          limit=lambda s: s.link_errors_per_h, full=2**8 - 1),
    Count(metric="port_link_downed_total", code="IB_LINK_FLAP", because="flapped",
          limit=lambda s: s.flaps_most - 0.5, full=2**8 - 1),
    Count(metric="port_discards_total", code="IB_CONGESTION", because="counted",
          limit=lambda s: 1000.0, full=2**16 - 1),
    Count(metric="port_out_of_sequence_total", code="ROCE_LOSSY", because="counted",
          limit=lambda s: 1000.0),
)  # fmt: skip


def growth(rows: Rows, values: Floats) -> Floats:
    """By how much counters grew since the last batch; nothing for the first, or after a reset."""
    with np.errstate(invalid="ignore"):
        delta = values - rows["last"]
    rows["last"] = np.where(np.isnan(values), rows["last"], values)
    return np.where(np.isnan(delta) | (delta < 0), 0.0, delta)


@detector(
    "counters",
    reads=[count.metric for count in COUNTS],
    codes=sorted({count.code for count in COUNTS} | {"IB_COUNTER_SATURATED"}),
    false_alarms_per_subject_day=1e-4,
)
class Counters:
    """Each counter of `COUNTS`, as a sum that forgets with a time constant of one hour.

    A counter that falls was reset: the step down is no growth. One that stands at its largest value tells
    only "at least", which is a finding of its own. Healthy links have a bit error rate of 1e-12 to 1e-15,
    so that 120 symbol errors an hour are beyond chance; the bound holds while healthy hardware counts less
    than a tenth of the limit.
    """

    def __init__(self, settings: Settings) -> None:
        self._counts = {
            count.metric: (count, count.limit(settings), Rows(last=np.nan, sum=0.0, on=0.0, full=0.0))
            for count in COUNTS
        }
        self._last_s: dict[str, float] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """A batch of one counter."""
        if not isinstance(item, Samples):
            return
        count, limit, rows = self._counts[item.metric]
        rows.align(item.subjects)
        passed_s = item.time_s - self._last_s.get(item.metric, item.time_s)
        self._last_s[item.metric] = item.time_s
        delta = growth(rows, item.values)
        if count.full is not None:
            yield from self._full(count, rows, item)
        rows["sum"] = rows["sum"] * np.exp(-max(passed_s, 0.0) / _HOUR_S) + delta
        for at in np.flatnonzero((rows["sum"] > limit) & (rows["on"] == 0)):
            rows["on"][at] = 1
            yield raised(
                count.code, item.subjects[at], item.time_s, count.because,
                counter=count.metric.removesuffix("_total"), count=float(rows["sum"][at]),
            )  # fmt: skip
        for at in np.flatnonzero((rows["sum"] < limit / 2) & (rows["on"] == 1)):
            rows["on"][at] = 0
            yield over(count.code, item.subjects[at], item.time_s)

    def _full(self, count: Count, rows: Rows, item: Samples) -> Iterator[Signal]:
        full = item.values == count.full
        for at in np.flatnonzero(full != (rows["full"] == 1)):
            rows["full"][at] = full[at]
            subject = item.subjects[at]
            if full[at]:
                yield raised(
                    "IB_COUNTER_SATURATED", subject, item.time_s, "saturated",
                    severity=Severity.LOW,
                    counter=count.metric.removesuffix("_total"), count=float(count.full or 0),
                )  # fmt: skip
            else:
                yield over("IB_COUNTER_SATURATED", subject, item.time_s)


#: Batches in a row, so that the burst of one checkpoint is no finding.
_HELD = 6


@detector(
    "congestion",
    reads=("port_xmit_wait_total", "port_xmit_data_bytes_total"),
    codes=("IB_CONGESTION",),
    false_alarms_per_subject_day=1e-3,
)
class Congestion:
    """Ticks that a port waited for credits relative to the words that it sent: wait / (wait + words).

    Waiting alone is no fault; above `wait_frac` in 6 batches in a row the port sends a good part of its
    time nothing. Assumes that a healthy port crosses that with a chance of 5 % or less per batch.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.wait_frac
        self._wait = Rows(last=np.nan, delta=0.0)
        self._data = Rows(last=np.nan, bad=0.0, on=0.0)

    def feed(self, item: Item) -> Iterator[Signal]:
        """The wait ticks of all ports, then their bytes."""
        if not isinstance(item, Samples):
            return
        if item.metric == "port_xmit_wait_total":
            self._wait.align(item.subjects)
            self._wait["delta"] = growth(self._wait, item.values)
            return
        rows = self._data
        rows.align(item.subjects)
        words = growth(rows, item.values) / 4
        self._wait.align(item.subjects)
        wait = self._wait["delta"]
        frac = wait / np.maximum(wait + words, 1.0)
        bad = (frac > self._limit) & (words > 0)
        rows["bad"] = np.where(bad, rows["bad"] + 1, 0)
        for at in np.flatnonzero((rows["bad"] >= _HELD) & (rows["on"] == 0)):
            rows["on"][at] = 1
            yield raised("IB_CONGESTION", item.subjects[at], item.time_s, "waits", wait_frac=float(frac[at]))
        for at in np.flatnonzero((rows["bad"] == 0) & (rows["on"] == 1)):
            rows["on"][at] = 0
            yield over("IB_CONGESTION", item.subjects[at], item.time_s)


#: Fewer segments say nothing about a link; a node stands out when it has so many times the next one's share.
_SEGMENTS_LEAST, _STANDS_OUT = 1000.0, 3.0


@detector(
    "retransmits",
    reads=("node_tcp_retransmits_total", "node_tcp_segments_total"),
    codes=("LINK_LOSS",),
    false_alarms_per_subject_day=1e-3,
)
class Retransmits:
    """The share of TCP segments that were sent again, above `retransmit_frac` in two batches in a row.

    Both ends of a lossy link send again, so the node is named only where it stands out by three times;
    else the loss is told of the cluster, and the pair probes name the link. Clean networks lose less than
    1e-4; the bound holds while bursts above 1 % come less than once in 1,000 batches of a node.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.retransmit_frac
        self._again = Rows(last=np.nan, delta=0.0)
        self._sent = Rows(last=np.nan, bad=0.0)
        self._on: Subject | None = None

    def feed(self, item: Item) -> Iterator[Signal]:
        """The segments sent again of all nodes, then all segments."""
        if not isinstance(item, Samples):
            return
        if item.metric == "node_tcp_retransmits_total":
            self._again.align(item.subjects)
            self._again["delta"] = growth(self._again, item.values)
            return
        rows = self._sent
        rows.align(item.subjects)
        sent = growth(rows, item.values)
        self._again.align(item.subjects)
        frac = np.where(sent >= _SEGMENTS_LEAST, self._again["delta"] / np.maximum(sent, 1.0), 0.0)
        rows["bad"] = np.where(frac > self._limit, rows["bad"] + 1, 0)
        if self._on is None and (rows["bad"] >= 2).any():
            order = np.argsort(frac)
            alone = len(frac) > 1 and frac[order[-1]] > _STANDS_OUT * frac[order[-2]]
            worst = item.subjects[order[-1]]
            self._on = Subject("link", f"{worst.name}>*") if alone else CLUSTER
            yield raised(
                "LINK_LOSS", self._on, item.time_s, "retransmits",
                node=worst.name, lost_frac=float(frac[order[-1]]), sure=0.7,
            )  # fmt: skip
        elif self._on is not None and not rows["bad"].any():
            yield over("LINK_LOSS", self._on, item.time_s)
            self._on = None


@detector("port-rate", reads=("port_rate_Bps",), codes=("IB_LINK_RATE_LOW",), false_alarms_per_subject_day=0)
class PortRate:
    """A port below the highest rate that it has had: it trained down. A negotiated rate has no noise."""

    def __init__(self, settings: Settings) -> None:
        self._rows = Rows(best=0.0, on=0.0)

    def feed(self, item: Item) -> Iterator[Signal]:
        """The rates of all ports."""
        if not isinstance(item, Samples):
            return
        rows = self._rows
        rows.align(item.subjects)
        rows["best"] = np.fmax(rows["best"], item.values)
        low = (item.values > 0) & (item.values < 0.99 * rows["best"])
        for at in np.flatnonzero(low != (rows["on"] == 1)):
            rows["on"][at] = low[at]
            if low[at]:
                yield raised(
                    "IB_LINK_RATE_LOW", item.subjects[at], item.time_s, "rate_low",
                    rate_Bps=float(item.values[at]), best_Bps=float(rows["best"][at]),
                )  # fmt: skip
            else:
                yield over("IB_LINK_RATE_LOW", item.subjects[at], item.time_s)
