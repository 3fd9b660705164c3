"""The ranks of a run: where each sits, and the worker processes that do one task on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from assay.measure.nccl_environment import CHOICES, log_environment
from assay.measure.nursery import Nursery
from assay.store.append import set_aside_torn_tail, torn_tail

#: The command that starts a worker; it gets the path of its spec and its place in the task.
WORKER = (sys.executable, "-m", "assay.measure.worker")
#: What a launcher tells its processes; workers make a group of their own and must not follow it.
_OF_LAUNCHERS = ("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI", "MASTER_", "GROUP_", "ROLE_")
#: Where in the network Slurm has this node, which is no part of the group.
_OF_PLACE = ("SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN")
_OF_LAUNCHERS_WHOLE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Ranks on one machine and what they run on; `first_local_rank` is the number of the first there.

    `address` is where ranks on other machines reach it; empty on a machine of its own.
    """

    host: str
    ranks: int
    cores: float
    devices: tuple[str, ...]
    backend: str
    first_local_rank: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where one rank of a run sits, and the CPU threads it gets there."""

    rank: int
    host: str
    local_rank: int
    device: str
    threads: int
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Every rank of a run. `crowded` says why absolute rates and scaling mean nothing here, or is None."""

    seats: tuple[Seat, ...]
    backend: str
    crowded: str | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts in the order of their ranks."""
        return tuple(dict.fromkeys(seat.host for seat in self.seats))


def world_of(members: Sequence[tuple[Sequence[int], Machine]]) -> World:
    """The world of machines with the ranks they hold; several members may share a host."""
    ranks_on: dict[str, int] = {}
    cores_of: dict[str, float] = {}
    for ranks, machine in members:
        ranks_on[machine.host] = ranks_on.get(machine.host, 0) + len(ranks)
        cores_of[machine.host] = max(cores_of.get(machine.host, 0.0), machine.cores)
    seats = [
        Seat(
            rank=rank,
            host=machine.host,
            local_rank=machine.first_local_rank + i,
            device=machine.devices[i],
            threads=max(1, int(cores_of[machine.host]) // ranks_on[machine.host]),
            address=machine.address,
        )
        for ranks, machine in members
        for i, rank in enumerate(ranks)
    ]
    backend = members[0][1].backend
    reasons = (_crowded(seats, host, ranks_on[host], cores_of[host], backend) for host in ranks_on)
    return World(
        seats=tuple(sorted(seats, key=lambda seat: seat.rank)),
        backend=backend,
        crowded=next((reason for reason in reasons if reason), None),
    )


def _crowded(seats: Iterable[Seat], host: str, ranks: int, cores: float, backend: str) -> str | None:
    if backend == "gloo":
        return f"{ranks} ranks share {cores:g} cores" if ranks > cores else None
    devices = {seat.device for seat in seats if seat.host == host}
    return f"{ranks} ranks share {len(devices)} GPUs" if len(devices) < ranks else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What is known of a rank's worker: its exit code (None while it runs) and whether it is stopped.

    `gone` says in words why the rank is out of reach, where it is; `code` is then None for ever.
    """

    code: int | None = None
    stopped: bool = False
    gone: str | None = None

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.code is not None or self.gone is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A rank that is out of reach for the rest of the run: the kind of event and the words for it."""

    kind: str
    text: str


class Crew(Protocol):
    """Starts, watches and stops the workers of one task at a time, on one machine or on many."""

    @property
    def world(self) -> World:
        """Every rank of the run."""

    def present(self) -> tuple[Seat, ...]:
        """The ranks that can be given work now."""

    def absences(self) -> Mapping[int, Absence]:
        """The ranks that are out of reach."""

    def start(self, spec: Mapping[str, Any]) -> None:
        """Start a worker for each of the spec's `members`."""

    def fates(self) -> Mapping[int, Fate]:
        """What became of each member's worker so far."""

    def hurry(self) -> None:
        """The run was told to stop: from now on wait only shortly for anything."""

    def stop(self) -> Mapping[int, int]:
        """Kill what still runs. Bytes of half lines that were set aside, by rank."""


class Process(Protocol):
    """A worker process that leads a process group of its own."""

    @property
    def pid(self) -> int | None:
        """Its number; None while it is not there yet."""

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""

    def kill(self) -> None:
        """End it, and its children."""

    def wait(self) -> object:
        """Until it has ended."""


class _Executed:
    """A worker that was started as a program."""

    def __init__(self, words: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )
        self.pid, self.poll, self.wait = self._popen.pid, self._popen.poll, self._popen.wait

    def kill(self) -> None:
        """End it, and its children."""
        os.killpg(self.pid, signal.SIGKILL)


class LocalCrew:
    """The workers of one machine, as processes of this one.

    They are forked from a process that has loaded torch, unless `worker` is another command or the task
    asks for a start from nothing.
    """

    def __init__(self, folder: Path, world: World, *, worker: tuple[str, ...] = WORKER) -> None:
        self._folder = folder
        self._world = world
        self._worker = worker
        self._nursery = Nursery() if worker == WORKER else None
        self._processes: dict[int, Process] = {}
        self._logs: list[Path] = []
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        for name in ("samples", "logs"):
            (folder / name).mkdir(exist_ok=True)
        if self._nursery:
            first = world.seats[0]
            self._nursery.warm(worker_environment(first.address, first.threads))

    @property
    def world(self) -> World:
        """Every rank of the run."""
        return self._world

    def present(self) -> tuple[Seat, ...]:
        """All ranks: they are never out of reach."""
        return self._world.seats

    def absences(self) -> Mapping[int, Absence]:
        """None."""
        return {}

    def start(self, spec: Mapping[str, Any]) -> None:
        """Start the workers of those members of the spec that sit here."""
        self._scratch = tempfile.TemporaryDirectory(prefix="assay-")
        scratch = self._scratch.name
        own = {
            "folder": str(self._folder),
            "scratch": scratch,
            "agent_pid": os.getpid(),
            "launched_s": time.time(),
            "deadline_s": time.monotonic() + spec["seconds"],
        }
        path = Path(scratch) / "spec.json"
        path.write_text(
            json.dumps({"rendezvous": f"file://{scratch}/rendezvous"} | dict(spec) | own), encoding="utf-8"
        )
        here = {seat.rank: seat for seat in self._world.seats}
        self._processes, self._logs = {}, []
        for place, rank in enumerate(spec["members"]):
            if rank in here:
                log = self._folder / "logs" / f"{spec['benchmark']}-{spec['replicate']}-rank-{rank:04d}.log"
                self._logs.append(log)
                env = worker_environment(here[rank].address, spec["threads"][place])
                if spec["backend"] == "nccl":
                    told = log.with_suffix(".nccl")
                    self._logs.append(told)
                    env |= log_environment(os.environ, told, every_call=spec["benchmark"] == CHOICES)
                if self._nursery and not spec["from_nothing"]:
                    self._processes[rank] = self._nursery.start(path, place, log, env)
                else:
                    self._processes[rank] = _Executed([*self._worker, str(path), str(place)], log, env)

    def fates(self) -> Mapping[int, Fate]:
        """Exit codes, and which processes the kernel shows as stopped."""
        return {
            rank: Fate(code=code, stopped=code is None and _is_stopped(process.pid))
            for rank, process in self._processes.items()
            for code in [process.poll()]
        }

    def hurry(self) -> None:
        """Nothing here takes long."""

    def stop(self) -> Mapping[int, int]:
        """Kill what still runs, and its children, by the process group that each worker leads; tidy up."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
        sound = all(process.poll() == 0 for process in self._processes.values())
        for log in self._logs:
            # What NCCL logs of a task that ended well has been read; of another it may tell why.
            if log.exists() and (log.stat().st_size == 0 or (sound and log.suffix == ".nccl")):
                log.unlink()
        shutil.rmtree(self._folder / "scratch", ignore_errors=True)
        if self._scratch:
            self._scratch.cleanup()
        return {rank: cut for rank in self._processes if (cut := self._mend(rank))}

    def close(self) -> None:
        """No more work is to come."""
        self.stop()
        if self._nursery:
            self._nursery.close()

    def _mend(self, rank: int) -> int:
        """Set aside the half line of a worker that was killed while it wrote; how many bytes that was."""
        path = self._folder / f"rank-{rank:04d}.jsonl"
        if not (path.exists() and torn_tail(path)):
            return 0
        return set_aside_torn_tail(path, self._folder / "torn" / path.name)


def _is_stopped(pid: int | None) -> bool:
    """Whether the kernel shows the process as stopped by a signal."""
    if pid is None:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    # The name in parentheses may hold spaces; the state follows it.
    return stat.rpartition(")")[2].split()[0] == "T"


def worker_environment(address: str, threads: int) -> dict[str, str]:
    """A worker's environment: its threads, the interface for Gloo, and nothing of the launcher's group."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _OF_PLACE or not (name in _OF_LAUNCHERS_WHOLE or name.startswith(_OF_LAUNCHERS))
    }
    env["OMP_NUM_THREADS"] = str(threads)
    env["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2]), *filter(None, [env.get("PYTHONPATH")])]
    )
    env.setdefault("GLOO_SOCKET_IFNAME", interface_of(address))
    env.setdefault("NCCL_DEBUG", "WARN")
    return env


def interface_of(address: str) -> str:
    """The network interface that has an IPv4 address; the loopback where none has, or none is given."""
    import fcntl
    import socket
    import struct

    siocgifaddr = 0x8915
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex() if address else ():
            request = struct.pack("256s", name.encode()[:15])
            try:
                found = fcntl.ioctl(probe.fileno(), siocgifaddr, request)
            except OSError:  # an interface without an IPv4 address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return "lo"
