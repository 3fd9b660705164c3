"""Training processes of this machine: which rank each is, whether it is stopped, and whether it may run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from assay.probe.files import Roots, entries

_NS_PER_S = 1e9
RUNNING, STOPPED, ZOMBIE = 0, 1, 2
_STATES = {"T": STOPPED, "t": STOPPED, "Z": ZOMBIE}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """One rank. Seconds are totals since the process, or its control group, began; None where unknown."""

    rank: int
    pid: int
    state: int
    cpu_wait_s: float | None
    cpu_throttled_s: float | None


class Ranks:
    """Finds processes with RANK in their environment; a process is looked into once.

    `own_network` leaves out those of other network namespaces, which stand for other hosts on a test-bed.
    """

    def __init__(self, roots: Roots, *, own_network: bool = False) -> None:
        self._proc, self._cgroup = roots.proc, _groups(roots)
        self._network = _link(self._proc / "self/ns/net") if own_network else None
        self._rank_of: dict[int, int | None] = {}

    def read(self) -> tuple[RankProcess, ...]:
        """Every rank of now, in order; of several processes of one rank, the parent."""
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        self._rank_of = {pid: rank for pid, rank in self._rank_of.items() if pid in pids}
        for pid in sorted(pids - self._rank_of.keys()):
            self._rank_of[pid] = self._look(pid)
        found = {}
        for pid, rank in sorted(self._rank_of.items()):
            if rank is not None and rank not in found and (process := self._process(pid, rank)):
                found[rank] = process
        return tuple(found[rank] for rank in sorted(found))

    def _look(self, pid: int) -> int | None:
        try:
            environ = (self._proc / str(pid) / "environ").read_bytes()
        except OSError:
            return None
        if b"WORLD_SIZE=" not in environ:
            return None
        if self._network and _link(self._proc / str(pid) / "ns/net") != self._network:
            return None
        for entry in environ.split(b"\0"):
            if entry.startswith(b"RANK=") and entry[5:].isdigit():
                return int(entry[5:])
        return None

    def _process(self, pid: int, rank: int) -> RankProcess | None:
        top = self._proc / str(pid)
        try:
            state = (top / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return None
        return RankProcess(
            rank=rank,
            pid=pid,
            state=_STATES.get(state, RUNNING),
            cpu_wait_s=self._waited_s(top),
            cpu_throttled_s=self._throttled_s(top),
        )

    def _waited_s(self, top: Path) -> float | None:
        """The second number of schedstat: ready to run, without a processor."""
        try:
            return int((top / "schedstat").read_text(encoding="ascii").split()[1]) / _NS_PER_S
        except (OSError, ValueError, IndexError):
            return None

    def _throttled_s(self, top: Path) -> float | None:
        """From cpu.stat of the control group, in both versions: throttled_usec, or throttled_time in ns."""
        try:
            lines = (top / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            tree = self._cgroup / "cpu" if controllers else self._cgroup
            try:
                stat = (tree / path.lstrip("/") / "cpu.stat").read_text(encoding="ascii")
            except OSError:
                continue
            for entry in stat.splitlines():
                name, _, value = entry.partition(" ")
                if name == "throttled_usec":
                    return int(value) / 1e6
                if name == "throttled_time":
                    return int(value) / _NS_PER_S
        return None


def _groups(roots: Roots) -> Path:
    """Where control groups are mounted; with a /sys of our own, as in `ip netns exec`, that of pid 1."""
    own = roots.sys / "fs/cgroup"
    return own if entries(own) else roots.proc / "1/root/sys/fs/cgroup"


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
