"""Readings of this node as (metric, subject, value): GPUs, ports, TCP, clock, storage, ranks, peers."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.errors import EnvironmentLackError
from assay.probe import Device, Fact, Nvml, NvmlError, Roots
from assay.probe.clocks import kernel_clock_facts, read_clocks
from assay.probe.counters import PortCounters, tcp_segments
from assay.probe.ranks import Ranks
from assay.watch.sources.clock_log import ClockLog
from assay.watch.sources.kernel import KernelMessages
from assay.watch.sources.logs import LogReader
from assay.watch.sources.peers import Peers

Value = tuple[str, Subject, float]
#: Slow readings (ECC, links, clock programs) are taken so often, and told again in between.
SLOW_S = 10.0
_THERMAL = frozenset({"hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown"})
_POWER = frozenset({"hw_power_brake"})


class NodeReader:
    """Reads what the node tells of itself; a part that is not there is left out, not zero."""

    def __init__(
        self,
        host: str,
        *,
        roots: Roots | None = None,
        nvml_library: str | None = None,
        storage: Path | None = None,
        peers: Peers | None = None,
        own_network: bool = False,
        kernel: KernelMessages | None = None,
        clock_log: ClockLog | None = None,
    ) -> None:
        self.host = host
        self._node = Subject("node", host)
        self._roots = roots or Roots.under("/")
        self._ports = PortCounters(self._roots)
        self._port_subjects: dict[str, Subject] = {}
        self._gpus = _Gpus(host, nvml_library)
        self._kernel, self._xids = kernel, dict[Subject, int]()
        self._log = LogReader(host=host)
        self._ranks = Ranks(self._roots, own_network=own_network)
        self._rank_subjects: dict[int, Subject] = {}
        self._storage = StorageProbe(storage) if storage else None
        self._peers = peers
        self._clock = _Every(SLOW_S, self._read_clock)
        self._clock_log = clock_log

    def read(self, now_s: float) -> Iterator[Value]:
        """Every value of now."""
        yield from self._gpus.read(now_s)
        yield from self._read_kernel(now_s)
        for port, metric, value in self._ports.read():
            subject = self._port_subjects.get(port)
            if subject is None:
                subject = self._port_subjects[port] = Subject("port", f"{self.host}/{port}")
            yield metric, subject, value
        segments = tcp_segments(self._roots)
        if segments is not None:
            yield "node_tcp_retransmits_total", self._node, float(segments[1])
            yield "node_tcp_segments_total", self._node, float(segments[0])
        yield from self._clock_values(now_s)
        if self._storage:
            yield "storage_latency_s", self._node, self._storage.latency_s()
        yield from self._read_ranks()
        if self._peers:
            yield from self._peers.values()

    def samples(self, now_s: float) -> list[Samples]:
        """The same as batches."""
        by_metric: dict[str, list[tuple[Subject, float]]] = defaultdict(list)
        for metric, subject, value in self.read(now_s):
            by_metric[metric].append((subject, value))
        return [
            Samples(
                metric=metric,
                time_s=now_s,
                subjects=tuple(subject for subject, _ in rows),
                values=np.array([value for _, value in rows]),
                source=self.host,
            )
            for metric, rows in by_metric.items()
        ]

    def close(self) -> None:
        """Let go of files and threads."""
        self._ports.close()
        self._gpus.close()
        if self._kernel:
            self._kernel.close()
        if self._storage:
            self._storage.close()
        if self._clock_log:
            self._clock_log.close()

    def _clock_values(self, now_s: float) -> Iterator[Value]:
        """What ptp4l has written goes before what a program says now and then."""
        logged_s = self._clock_log.offset_s(now_s) if self._clock_log else None
        for value in self._clock.values(now_s):
            if logged_s is None or value[0] != "clock_offset_s":
                yield value
        if logged_s is not None:
            yield "clock_offset_s", self._node, logged_s

    def _read_kernel(self, now_s: float) -> Iterator[Value]:
        """The last Xid of each GPU, by its bus id, as long as the exporter runs."""
        for number, text in self._kernel.lines() if self._kernel else ():
            for event in self._log.read(text, file="kmsg", number=number, now_s=now_s):
                if event.kind == "xid":
                    self._xids[event.subject] = int(event.details["xid"] or 0)
        for subject, xid in self._xids.items():
            yield "gpu_last_xid", subject, float(xid)

    def _read_ranks(self) -> Iterator[Value]:
        for process in self._ranks.read():
            subject = self._rank_subjects.setdefault(process.rank, Subject("rank", str(process.rank)))
            yield "rank_state", subject, float(process.state)
            if process.cpu_wait_s is not None:
                yield "rank_cpu_wait_s_total", subject, process.cpu_wait_s
            if process.cpu_throttled_s is not None:
                yield "rank_cpu_throttled_s_total", subject, process.cpu_throttled_s

    def _read_clock(self) -> Iterator[Value]:
        facts: dict[str, Fact] = {}
        for fact in (
            *kernel_clock_facts(str(self._node)),
            *read_clocks(str(self._node), self._roots, os.environ),
        ):
            facts.setdefault(fact.key, fact)
        state = facts.get("clock.kernel_synchronized")
        if state is not None and state.value is not None:
            yield "clock_synchronized", self._node, float(state.value == "yes")
        for key in ("clock.ptp_offset", "clock.chrony_offset"):
            offset = facts.get(key)
            if offset is not None and isinstance(offset.value, float | int):
                yield "clock_offset_s", self._node, float(offset.value)
                return


class _Every:
    """A reading that is taken now and then and told each time."""

    def __init__(self, every_s: float, read: Callable[[], Iterator[Value]]) -> None:
        self._every_s, self._read = every_s, read
        self._next_s = -math.inf
        self._last: list[Value] = []

    def values(self, now_s: float) -> list[Value]:
        if now_s >= self._next_s:
            self._next_s = now_s + self._every_s
            self._last = list(self._read())
        return self._last


class _Gpus:
    """NVIDIA GPUs through NVML; none where the library is not there."""

    def __init__(self, host: str, library: str | None) -> None:
        self._nvml: Nvml | None = None
        self._devices: list[tuple[Subject, Device]] = []
        try:
            self._nvml = Nvml(library)
            for index in range(self._nvml.device_count()):
                self._devices.append((Subject("gpu", f"{host}/{index}"), self._nvml.device(index)))
        except (NvmlError, EnvironmentLackError):
            return
        self._slow = _Every(SLOW_S, self._read_slow)

    def read(self, now_s: float) -> Iterator[Value]:
        if not self._devices:
            return
        for subject, device in self._devices:
            lost = 0.0
            try:
                yield "gpu_temperature_degC", subject, float(device.uint("nvmlDeviceGetTemperature", 0))
                yield "gpu_sm_clock_Hz", subject, device.uint("nvmlDeviceGetClockInfo", 1) * 1e6
                yield "gpu_power_W", subject, device.uint("nvmlDeviceGetPowerUsage") * 1e-3
                reasons = set(device.throttle_reasons())
                yield "gpu_throttled_thermal", subject, float(bool(reasons & _THERMAL))
                yield "gpu_throttled_power", subject, float(bool(reasons & _POWER))
            except NvmlError as error:
                lost = float(error.is_lost)
            yield "gpu_lost", subject, lost
        yield from self._slow.values(now_s)

    def close(self) -> None:
        if self._nvml:
            self._nvml.close()

    def _read_slow(self) -> Iterator[Value]:
        readings: Mapping[str, Callable[[Device], float]] = {
            "gpu_ecc_uncorrected_total": lambda d: d.ecc_errors(corrected=False),
            "gpu_ecc_corrected_total": lambda d: d.ecc_errors(corrected=True),
            "gpu_remapped_rows": lambda d: d.uints("nvmlDeviceGetRemappedRows", 4)[1],
            "gpu_remap_pending": lambda d: d.uints("nvmlDeviceGetRemappedRows", 4)[2],
            "gpu_remap_failed": lambda d: d.uints("nvmlDeviceGetRemappedRows", 4)[3],
            "gpu_nvlinks_down": lambda d: sum(not up for up in d.nvlinks()),
            "gpu_pcie_width_frac": lambda d: (
                d.uint("nvmlDeviceGetCurrPcieLinkWidth") / max(d.uint("nvmlDeviceGetMaxPcieLinkWidth"), 1)
            ),
            "gpu_pcie_replays_total": lambda d: d.uint("nvmlDeviceGetPcieReplayCounter"),
        }
        for subject, device in self._devices:
            for metric, reading in readings.items():
                try:
                    yield metric, subject, float(reading(device))
                except NvmlError:
                    continue


class StorageProbe:
    """Writes and syncs 4 KiB in a folder every few seconds, in a thread of its own, as it may block."""

    def __init__(self, folder: Path, *, every_s: float = 2.0) -> None:
        self._path = folder / f".assay-probe-{os.uname().nodename}-{os.getpid()}"
        self._every_s = every_s
        self._last_s = math.nan
        self._since_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storage probe", daemon=True)
        self._thread.start()

    def latency_s(self) -> float:
        """Seconds of the last write, or of the one that is still under way where that is longer."""
        since_s = self._since_s
        running_s = time.monotonic() - since_s if since_s is not None else 0.0
        return running_s if math.isnan(self._last_s) and running_s else max(self._last_s, running_s)

    def close(self) -> None:
        """Stop; a write that blocks is left to itself."""
        self._stop.set()
        self._thread.join(timeout=0.5)
        if not self._thread.is_alive():
            self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            begin_s = self._since_s = time.monotonic()
            try:
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.write(fd, bytes(4096))
                    os.fsync(fd)
                finally:
                    os.close(fd)
                self._last_s = time.monotonic() - begin_s
            except OSError:
                self._last_s = math.nan
            self._since_s = None
            self._stop.wait(self._every_s)
