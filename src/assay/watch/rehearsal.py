"""Made-up weeks of a cluster, from a seed: what healthy telemetry looks like, and how GPUs fail.

Healthy weeks have what sets false alarms off: days and nights in temperature and step time, cards that
differ, heavy-tailed noise, checkpoint pauses, restarts of jobs, idle nights, counters that grow a little,
exporters that skip a scrape. The watch is held against them in the tests and in `benchmarks/watch.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError
from assay.watch.signal import Item

DAY_S = 86400.0
_GPUS = 8
#: How a GPU fails, in the order in which failures of a rehearsal take their kinds.
FAILURES = ("off_bus", "ecc", "throttle", "slow", "decay", "nvlink", "lost", "remap", "narrow", "slow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One GPU fails in one way at a time, in seconds from the beginning."""

    gpu: int
    kind: str
    at_s: float

    def __post_init__(self) -> None:
        if self.kind not in FAILURES:
            raise InputError(f"no failure {self.kind!r}", fix=f"one of {', '.join(sorted(set(FAILURES)))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """`nodes` of 8 GPUs for `days`, one job over all of them; samples every `every_s`, a step in `step_s`."""

    nodes: int
    days: float
    seed: int
    every_s: float = 60.0
    step_s: float = 30.0
    failures: tuple[Failure, ...] = ()

    def items(self) -> Iterator[Item]:
        """Events and samples in order of time."""
        yield from _Cluster(self).run()


def some_failures(nodes: int, days: float, seed: int, count: int = 10) -> tuple[Failure, ...]:
    """`count` failures of different cards at times spread over the middle of the days."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice(nodes * _GPUS, size=count, replace=False)
    at_s = (0.15 + 0.75 * (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count) * days * DAY_S
    return tuple(
        Failure(gpu=int(g), kind=FAILURES[i % len(FAILURES)], at_s=float(t))
        for i, (g, t) in enumerate(zip(gpus, at_s, strict=True))
    )


class _Cluster:
    def __init__(self, plan: Rehearsal) -> None:
        self._plan = plan
        self._rng = np.random.default_rng(plan.seed)
        self._n = plan.nodes * _GPUS
        names = [f"n{i:04d}" for i in range(plan.nodes)]
        self._nodes = tuple(Subject("node", name) for name in names)
        self._gpus = tuple(Subject("gpu", f"{name}/{g}") for name in names for g in range(_GPUS))
        self._ports = tuple(Subject("port", f"{name}/mlx5_{g}[1]") for name in names for g in range(_GPUS))
        self._ranks = tuple(Subject("rank", str(i)) for i in range(self._n))
        self._names = names
        self._own = 1 + 0.006 * self._rng.standard_normal(self._n)
        # A card beyond this would throttle under load, and so not be healthy.
        self._cool = 52 + 4 * np.clip(self._rng.standard_normal(self._n), -2.5, 2.5)
        self._symbol = np.zeros(self._n)
        self._sent, self._wait = np.zeros(self._n), np.zeros(self._n)
        self._segments = np.zeros(plan.nodes)
        self._step = 0
        self._now_s = 0.0

    def run(self) -> Iterator[Item]:
        for rank, name in enumerate(name for name in self._names for _ in range(_GPUS)):
            yield Event(kind="rank_placed", time_s=0.0, subject=self._ranks[rank], details={"node": name})
        for begin_s, end_s in self._sessions():
            yield from self._until(begin_s, busy=False)
            yield Event(kind="job_started", time_s=begin_s, subject=CLUSTER)
            yield from self._session(begin_s, end_s)
            yield Event(kind="job_ended", time_s=max(end_s, self._now_s), subject=CLUSTER, details={"ok": 1})
        yield from self._until(self._plan.days * DAY_S, busy=False)

    def _sessions(self) -> list[tuple[float, float]]:
        """Runs of one to three days; every third ends in an idle night of six hours, others in a restart."""
        spans, now_s, end_s = [], 600.0, self._plan.days * DAY_S
        while now_s < end_s - 600:
            until_s = min(now_s + self._rng.uniform(1, 3) * DAY_S, end_s - 300)
            spans.append((now_s, until_s))
            now_s = until_s + (6 * 3600.0 if len(spans) % 3 == 0 else self._rng.uniform(120, 900))
        self._sampled_s = 0.0
        return spans

    def _until(self, end_s: float, *, busy: bool) -> Iterator[Item]:
        while self._sampled_s < end_s:
            yield from self._samples(self._sampled_s, busy=busy)
            self._sampled_s += self._plan.every_s

    def _session(self, begin_s: float, end_s: float) -> Iterator[Item]:
        now_s, saved_s = begin_s + 120.0, begin_s
        while now_s < end_s:
            busy = self._busy(now_s)
            now_s += float(busy.max()) * (1.05 if self._rng.random() > 0.002 else self._rng.uniform(2, 4))
            yield from self._until(now_s, busy=True)
            self._now_s = now_s
            self._step += 1
            loss = 2.0 + 8.0 / math.sqrt(1 + self._step / 50) + 0.02 * self._rng.standard_t(4)
            yield Event(
                kind="step", time_s=now_s, subject=CLUSTER, details={"step": self._step, "loss": loss}
            )
            yield Samples(metric="rank_busy_s", time_s=now_s, subjects=self._ranks, values=busy)
            if now_s - saved_s > 1800:
                yield Event(kind="checkpoint_started", time_s=now_s, subject=CLUSTER)
                now_s += self._rng.uniform(30, 60)
                saved_s = now_s
                yield from self._until(now_s, busy=True)
                yield Event(
                    kind="checkpoint_saved", time_s=now_s, subject=CLUSTER, details={"step": self._step}
                )

    def _busy(self, now_s: float) -> NDArray[np.float64]:
        """Seconds of one step per rank: the card, the time of day, noise with rare long tails."""
        day = 1 + 0.008 * math.sin(2 * math.pi * now_s / DAY_S)
        noise = 1 + 0.004 * self._rng.standard_t(5, self._n)
        tail = np.where(self._rng.random(self._n) < 2e-4, self._rng.uniform(1.1, 1.6, self._n), 1.0)
        busy: NDArray[np.float64] = self._plan.step_s * self._own * day * np.maximum(noise, 0.9) * tail
        for f in self._failed(now_s):
            if f.kind in ("throttle", "slow"):
                busy[f.gpu] *= 1.35
            elif f.kind == "decay":
                busy[f.gpu] *= 1 + min(0.08, 0.08 * (now_s - f.at_s) / (6 * 3600))
        return busy

    def _failed(self, now_s: float) -> list[Failure]:
        return [f for f in self._plan.failures if f.at_s <= now_s]

    def _samples(self, now_s: float, *, busy: bool) -> Iterator[Item]:
        rng, n = self._rng, self._n
        failed = self._failed(now_s)

        def batch(metric: str, subjects: tuple[Subject, ...], values: NDArray[np.float64]) -> Samples:
            return Samples(metric=metric, time_s=now_s, subjects=subjects, values=values)

        def flags(kind: str) -> NDArray[np.float64]:
            values = np.zeros(n)
            values[[f.gpu for f in failed if f.kind == kind]] = 1.0
            return values

        for f in failed:
            if f.kind == "off_bus" and f.at_s > now_s - self._plan.every_s:
                yield Event(
                    kind="xid", time_s=now_s, subject=self._gpus[f.gpu], details={"xid": 79}, text="Xid 79"
                )
        heat = (22 if busy else 0) + 3 * math.sin(2 * math.pi * now_s / DAY_S)
        celsius = self._cool + heat + 1.5 * rng.standard_normal(n)
        # A driver that cannot be read now and then.
        celsius[rng.random(n) < 1e-4] = np.nan
        celsius[[f.gpu for f in failed if f.kind == "throttle"]] = 96.0
        yield batch("gpu_temperature_degC", self._gpus, celsius)
        yield batch("gpu_throttled_thermal", self._gpus, flags("throttle"))
        yield batch("gpu_ecc_uncorrected_total", self._gpus, flags("ecc"))
        yield batch("gpu_nvlinks_down", self._gpus, flags("nvlink"))
        yield batch("gpu_lost", self._gpus, flags("lost"))
        yield batch("gpu_remap_pending", self._gpus, flags("remap"))
        yield batch("gpu_pcie_width_frac", self._gpus, 1 - 0.5 * flags("narrow"))
        self._symbol += rng.random(n) < 5e-4
        yield batch("port_symbol_errors_total", self._ports, self._symbol.copy())
        yield batch("port_up", self._ports, np.ones(n))
        sent = (2e10 if busy else 1e6) * self._plan.every_s
        self._sent += sent
        self._wait += rng.exponential(0.05, n) * sent / 4
        yield batch("port_xmit_wait_total", self._ports, self._wait.copy())
        yield batch("port_xmit_data_bytes_total", self._ports, self._sent.copy())
        m = len(self._nodes)
        self._segments += 1e5 * self._plan.every_s
        yield batch("node_tcp_retransmits_total", self._nodes, self._segments * 1e-5)
        yield batch("node_tcp_segments_total", self._nodes, self._segments.copy())
        yield batch("clock_offset_s", self._nodes, 2e-5 * rng.standard_t(4, m))
        yield batch("storage_latency_s", self._nodes, 0.004 * np.exp(0.8 * rng.standard_normal(m)))
        up = np.where(rng.random(m) < 1e-4, 0.0, 1.0)
        yield batch("node_up", self._nodes, up)
