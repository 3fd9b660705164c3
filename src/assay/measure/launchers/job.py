"""Inside a job: every process that torchrun, srun or mpirun started finds the one of rank 0.

Rank 0 listens on the first free port after the job's own; the others try these ports until one of them
answers for their job. Nothing but the standard library is needed.
"""

from __future__ import annotations

import hashlib
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assay.errors import EnvironmentLackError, InputError
from assay.measure.channel import Channel, Inbox, Message
from assay.measure.crew import Absence
from assay.measure.remote import Member, RemoteCrew, crew_of, members_of

#: Ports after the job's own that rank 0 may listen on.
_PORTS = 16
_DEFAULT_PORT = 29400
_ANSWER_S = 3.0
_RETRY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """This process's place in a job, where rank 0 is to be found, and a word that only this job knows."""

    launcher: str
    rank: int
    world: int
    local_rank: int
    addresses: tuple[str, ...]
    port: int
    token: str


def job_of(env: Mapping[str, str]) -> Job | None:
    """The job that the environment tells of, or None where there is no launcher."""
    if "RANK" in env and "WORLD_SIZE" in env:
        launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in env else "environment"
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    elif "SLURM_PROCID" in env and "SLURM_STEP_ID" in env and "SLURM_STEP_NUM_TASKS" in env:
        launcher, names = "srun", ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
    elif "OMPI_COMM_WORLD_RANK" in env:
        launcher = "mpirun"
        names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
    else:
        return None
    rank, world, local_rank = (_whole(env, name) for name in names)
    addresses, port = _addresses(env, launcher), _port(env)
    if not 0 <= rank < world:
        raise InputError(
            f"{names[0]} is {rank}, but {names[1]} is {world}", fix="start it with torchrun or srun"
        )
    about = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID")
    words = [str(world), str(port), *addresses, *(env.get(name, "") for name in about)]
    return Job(
        launcher=launcher,
        rank=rank,
        world=world,
        local_rank=local_rank,
        addresses=addresses,
        port=port,
        token=hashlib.sha256("\n".join(words).encode()).hexdigest()[:16],
    )


def _whole(env: Mapping[str, str], name: str) -> int:
    text = env.get(name, "0")
    if not text.isdigit():
        raise InputError(f"the environment's {name} is {text!r}, not a whole number")
    return int(text)


def _port(env: Mapping[str, str]) -> int:
    if "MASTER_PORT" in env:
        return _whole(env, "MASTER_PORT")
    return _DEFAULT_PORT + 32 * (_whole(env, "SLURM_JOB_ID") % 512)


def _addresses(env: Mapping[str, str], launcher: str) -> tuple[str, ...]:
    """Where rank 0 may be: told by MASTER_ADDR, else Slurm's first node, else where srun was started."""
    if address := env.get("MASTER_ADDR"):
        return (address,)
    if launcher != "srun":
        raise InputError(
            f"{launcher} started this process, but MASTER_ADDR does not say where rank 0 is",
            fix="export MASTER_ADDR=<host of rank 0> MASTER_PORT=29500",
        )
    first = first_host(env.get("SLURM_STEP_NODELIST", env.get("SLURM_NODELIST", "")))
    found = (first, env.get("SLURM_LAUNCH_NODE_IPADDR", ""), env.get("SLURM_SRUN_COMM_HOST", ""))
    return tuple(dict.fromkeys(address for address in found if address))


def first_host(nodelist: str) -> str:
    """The first host of Slurm's list: `n03` of `n[03-07,12],m1`."""
    match = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodelist)
    return "".join(part or "" for part in match.groups()) if match else ""


class Reception:
    """Where rank 0 listens for the agents of its job; make it, then `gather`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.inbox: Inbox = queue.SimpleQueue()
        self._arrivals: queue.SimpleQueue[tuple[Channel, Message]] = queue.SimpleQueue()
        self._arrived: dict[int, tuple[Channel, Message]] = {}
        self._listener = _listen(job.port)
        threading.Thread(target=self._accept, daemon=True).start()

    def gather(self, *, version: str, wait_s: float) -> RemoteCrew:
        """Wait until every rank of the job is here, or until `wait_s` has passed, and make them a crew."""
        end = time.monotonic() + wait_s
        while len(self._arrived) < self._job.world and (left_s := end - time.monotonic()) > 0:
            try:
                channel, hello = self._arrivals.get(timeout=min(left_s, 0.5))
                self._admit(channel, hello, version)
            except queue.Empty:
                for waiting, _ in self._arrived.values():
                    waiting.send({"type": "beat"})
        self._listener.close()
        if 0 not in self._arrived:
            raise EnvironmentLackError(
                f"rank 0 did not reach itself at {', '.join(self._job.addresses)}",
                fix="let MASTER_ADDR be an address of the machine of rank 0",
            )
        missing = {
            rank: Absence(kind="rank_lost", text=f"did not start: no word from it within {wait_s:g} s")
            for rank in range(self._job.world)
            if rank not in self._arrived
        }
        members: list[Member] = members_of(list(self._arrived.values()))
        return crew_of(members, inbox=self.inbox, missing=missing, lead_ranks=[0])

    def refuse(self, reason: str) -> None:
        """Send everyone away who has come."""
        for channel, _ in self._arrived.values():
            channel.send({"type": "refused", "refused": reason})

    def close(self) -> None:
        """Nothing is left to end: the processes are the launcher's."""

    def _admit(self, channel: Channel, hello: Message, version: str) -> None:
        (rank,) = hello["ranks"]
        if hello["assay"] != version:
            raise InputError(
                f"rank {rank} on {hello['host']} runs assay {hello['assay']}, but rank 0 runs {version}",
                fix="install one version everywhere",
            )
        if rank in self._arrived:
            other = self._arrived[rank][1]["host"]
            raise InputError(
                f"two processes say that they are rank {rank}: on {other} and on {hello['host']}",
                fix="give each its own RANK, or start them with torchrun or srun",
            )
        self._arrived[rank] = channel, hello
        channel.listen(self.inbox)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(connection,), daemon=True).start()

    def _meet(self, connection: socket.socket) -> None:
        connection.settimeout(_ANSWER_S)
        channel = Channel.over(connection)
        hello = channel.receive()
        if hello is None or hello.get("token") != self._job.token:
            channel.close()
            return
        connection.settimeout(None)
        channel.send({"type": "beat"})
        self._arrivals.put((channel, hello))


def _listen(port: int) -> socket.socket:
    for number in range(port + 1, port + 1 + _PORTS):
        try:
            return socket.create_server(("", number), backlog=1024)
        except OSError:
            continue
    raise EnvironmentLackError(
        f"no port from {port + 1} to {port + _PORTS} is free for rank 0 to listen on",
        fix="choose another MASTER_PORT",
    )


def connect(job: Job, hello: Callable[[str], Message], *, wait_s: float) -> tuple[Channel, str]:
    """A channel to rank 0 on which `hello` (given this end's address) was heard, and that address."""
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        for address in job.addresses:
            for port in range(job.port + 1, job.port + 1 + _PORTS):
                if found := _try(address, port, hello):
                    return found
        time.sleep(_RETRY_S)
    raise EnvironmentLackError(
        f"rank {job.rank} found no rank 0 at {', '.join(job.addresses)}, ports {job.port + 1} to "
        f"{job.port + _PORTS}, within {wait_s:g} s",
        fix="see whether rank 0 started, and whether a firewall lets these ports through",
    )


def _try(address: str, port: int, hello: Callable[[str], Message]) -> tuple[Channel, str] | None:
    try:
        connection = socket.create_connection((address, port), timeout=_ANSWER_S)
    except OSError:
        return None
    channel = Channel.over(connection)
    here = str(connection.getsockname()[0])
    channel.send(hello(here))
    if channel.receive() is None:
        channel.close()
        return None
    connection.settimeout(None)
    return channel, here
