"""What carried a benchmark's messages: the library as loaded, and the bytes that network devices counted.

A rate says nothing of a fabric unless its bytes crossed that fabric. Each node therefore compares what had to
leave it, at the least, with what its RDMA ports and its other network devices say that they sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.measure.context import Context

QUANTITY = "network.counted_share"
#: Less than this proves nothing: other programs send as well.
_LEAST_BYTES = 16 << 20
#: InfiniBand counts words of four bytes; some devices have a count of bytes of their own.
_RDMA_COUNTERS = (("counters/port_xmit_data", 4), ("hw_counters/tx_bytes", 1))
_LIBRARIES = {
    "transport.library": r"lib(?:nccl|rccl)\.so[^ /]*|libtorch_cpu\.so",
    "transport.plugin": r"lib(?:nccl|rccl)-net[^ /]*\.so[^ /]*",
}
_NETWORK = re.compile(r"Using network (\S+)")
_DIRECT = re.compile(r"via NET/\S+?/(?P<direct>GDRDMA|DMABUF)")


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

    def record(self) -> None:
        """The library of this rank as facts; by a node's first rank, what was counted of what had to go."""
        context = self._context
        for key, value, source in facts_of(context) if context.replicate == 0 else ():
            reason = None if value else "nothing of the kind is loaded, or the log does not tell"
            context.fact(key, f"rank:{context.number}", value, "text", reason=reason, source=source)
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


def facts_of(context: Context) -> Iterator[tuple[str, str | None, str]]:
    """Key, value and source of each thing that is known of the transport."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    loaded = {line.split(maxsplit=5)[5] for line in maps if line.count("/")}
    for key, pattern in _LIBRARIES.items():
        yield key, _named(loaded, pattern), "/proc/self/maps"
    try:
        log = Path("/proc/self/fd/1").read_text(encoding="utf-8", errors="replace")
    except OSError:
        log = ""
    yield from told_by_log(log)


def told_by_log(log: str) -> Iterator[tuple[str, str | None, str]]:
    """What NCCL's log at INFO tells: the network in use, and whether it reads card memory directly."""
    network, direct = _NETWORK.search(log), _DIRECT.search(log)
    yield "transport.network", network[1] if network else None, "NCCL_DEBUG=INFO"
    yield "transport.registration", direct["direct"] if direct else None, "NCCL_DEBUG=INFO"


def _named(paths: Iterable[str], pattern: str) -> str | None:
    return next((path for path in sorted(paths) if re.fullmatch(pattern, Path(path).name)), None)
