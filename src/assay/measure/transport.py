"""What carried a benchmark's messages: the library as loaded, and the bytes that network devices counted.

A rate says nothing of a fabric unless its bytes crossed that fabric. Each node therefore compares what had to
leave it, at the least, with what its RDMA ports and its other network devices say that they sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.measure.context import Context
from assay.measure.gpu_sampler import device_of
from assay.measure.nccl_environment import LOG_FILE, nccl_log
from assay.probe.nvml import Nvml, NvmlError

QUANTITY = "network.counted_share"
#: Less than this proves nothing: other programs send as well.
_LEAST_BYTES = 16 << 20
#: InfiniBand counts words of four bytes; some devices have a count of bytes of their own.
_RDMA_COUNTERS = (("counters/port_xmit_data", 4), ("hw_counters/tx_bytes", 1))
_LIBRARIES = {
    "transport.library": r"lib(?:nccl|rccl)\.so[^ /]*|libtorch_cpu\.so",
    "transport.plugin": r"lib(?:nccl|rccl)-net[^ /]*\.so[^ /]*",
}
#: Key -> what to say where the log lacks it.
_BY_LOG = {
    "transport.version": "the log does not tell the version",
    "transport.network": "the log names no network",
    "transport.network_plugin": "the log names no plugin for the network",
    "transport.registration": "the log shows no channel over a network",
}
#: Fact of the log -> key, and the part of the line that is its value.
_FACTS = {
    "nccl.version": ("transport.version", "version"),
    "rccl.version": ("transport.version", "version"),
    "nccl.network": ("transport.network", "network"),
    "nccl.plugin": ("transport.network_plugin", "name"),
}


@dataclass(frozen=True)
class Sent:
    """Bytes sent so far by RDMA ports and by all other devices but the loopback; None where none counts."""

    rdma: int | None
    netdev: int | None

    @classmethod
    def now(cls, sys: Path = Path("/sys/class"), proc: Path = Path("/proc/self")) -> Sent:
        """As the kernel tells it in this network namespace."""
        ports = [_first(port) for port in sys.glob("infiniband/*/ports/*")]
        counted = [count for count in ports if count is not None]
        return cls(rdma=sum(counted) if counted else None, netdev=_netdev(proc / "net/dev"))


def _first(port: Path) -> int | None:
    """What an active port has sent; one that is down is no way for anything."""
    try:
        if "ACTIVE" not in (port / "state").read_text(encoding="ascii"):
            return None
    except OSError:
        return None
    for name, factor in _RDMA_COUNTERS:
        try:
            return int((port / name).read_text(encoding="ascii")) * factor
        except (OSError, ValueError):
            continue
    return None


def _netdev(file: Path) -> int | None:
    try:
        lines = file.read_text(encoding="ascii").splitlines()[2:]
    except OSError:
        return None
    split = [line.partition(":")[::2] for line in lines]
    return sum(int(fields.split()[8]) for name, fields in split if name.strip() != "lo")


class Witness:
    """Counters of one task of several nodes, from its start to its end."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._speaks = context.hosts.index(context.host) == context.rank
        self._before = Sent.now()
        self._nvlink_before = nvlink_sent(context) if context.on_gpu else 0

    def record(self) -> None:
        """The library of this rank as facts; by a node's first rank, what was counted of what had to go."""
        context = self._context
        for key, value, source, lacking in facts_of(context) if context.replicate == 0 else ():
            reason = None if value else lacking
            context.fact(key, f"rank:{context.number}", value, "text", reason=reason, source=source)
        if context.on_gpu and context.replicate == 0:
            self._record_nvlink()
        if not self._speaks or context.must_leave_bytes < _LEAST_BYTES:
            return
        after = Sent.now()
        for over, before, now in (
            ("rdma", self._before.rdma, after.rdma),
            ("netdev", self._before.netdev, after.netdev),
        ):
            recipe = {"benchmark": context.benchmark, "over": over, "transport": context.transport}
            node = f"node:{context.host}"
            if before is None or now is None:
                context.missing(QUANTITY, "1", f"no {over} device counts bytes", recipe=recipe, subject=node)
                continue
            share = max(0, now - before) / context.must_leave_bytes
            context.record(QUANTITY, share, "1", recipe=recipe, subject=node, absolute=False)

    def _record_nvlink(self) -> None:
        """Bytes that this rank's GPU has sent over NVLink meanwhile."""
        context, before, after = self._context, self._nvlink_before, nvlink_sent(self._context)
        sent = float(after - before) if isinstance(before, int) and isinstance(after, int) else None
        reason = next((told for told in (before, after) if isinstance(told, str)), None)
        subject, source = f"rank:{context.number}", "NVML field 138"
        context.fact("transport.nvlink_sent", subject, sent, "B", reason=reason, source=source)


def nvlink_sent(context: Context) -> int | str:
    """Bytes that this rank's GPU has sent over NVLink so far; or why that is not known."""
    try:
        with Nvml() as nvml:
            return device_of(nvml, context).nvlink_sent_bytes()
    except NvmlError as error:
        return error.what


def facts_of(context: Context) -> Iterator[tuple[str, str | None, str, str]]:
    """Key, value, source of each thing that is known of the transport; and why, where it is not known."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    loaded = {line.split(maxsplit=5)[5] for line in maps if line.count("/")}
    for key, pattern in _LIBRARIES.items():
        yield key, _named(loaded, pattern), "/proc/self/maps", "no library of that name is loaded"
    if context.backend == "gloo":
        for key in _BY_LOG:
            yield key, None, "gloo", "Gloo keeps no log of its transport"
        return
    log = nccl_log(os.environ)
    told = told_by_log(log or ())
    for key, lacking in _BY_LOG.items():
        reason = lacking if log is not None else "NCCL wrote no log that this rank could read"
        yield key, told.get(key), LOG_FILE, reason


def told_by_log(log: Iterable[str]) -> dict[str, str]:
    """What NCCL's log at INFO tells: version, network, plugin, and how the network reaches card memory."""
    # The worker starts without the formats.
    from assay.formats.nccl_log import VOCABULARY, Channel, read_line

    told: dict[str, str] = {}
    ways: set[str] = set()
    for number, line in enumerate(log, 1):
        found = read_line(line, number, LOG_FILE)
        if found is None:  # the version stands in a line without a head
            facts = VOCABULARY.find(line)
        else:
            said = list(found)
            ways |= {_way(c.gdr) for c in said if isinstance(c, Channel) and c.transport.startswith("NET/")}
            facts = [(f.fact, f.fields) for f in said if not isinstance(f, Channel)]
        for fact, fields in facts:
            if fact in _FACTS:
                key, part = _FACTS[fact]
                told.setdefault(key, fields[part])
    return told | ({"transport.registration": " + ".join(sorted(ways))} if ways else {})


def _way(gdr: bool) -> str:
    return "GPUDirect RDMA" if gdr else "host memory"


def _named(paths: Iterable[str], pattern: str) -> str | None:
    return next((path for path in sorted(paths) if re.fullmatch(pattern, Path(path).name)), None)
