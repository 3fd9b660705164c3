"""The crew of a run over many machines: agents that joined, and what they report of their workers."""

from __future__ import annotations

import base64
import queue
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.errors import MeasurementError
from assay.measure.attend import TOKEN, machine_of
from assay.measure.channel import BEAT_S, SILENCE_S, Channel, Inbox, Message
from assay.measure.crew import Absence, Fate, Machine, Seat, World, world_of
from assay.measure.reach import unreachable

#: How long an agent may take to kill its workers and to send the rest of what they wrote.
_STOP_S = 10.0
#: After an interruption the verdict must be written soon.
_STOP_HURRIED_S = 3.0


@dataclass(slots=True)
class Member:
    """An agent that joined: the ranks it holds and what it told of itself."""

    channel: Channel
    hello: Message
    host: str
    shared: bool = True
    stopped: bool = True
    absence: Absence | None = None
    leaving: bool = False
    fates: dict[int, Fate] = field(default_factory=dict)
    torn: dict[int, int] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of its ranks."""
        return tuple(self.hello["ranks"])

    @property
    def address(self) -> str:
        """Where other machines reach it."""
        return str(self.hello["address"])

    @property
    def machine(self) -> Machine:
        """Its machine, under the name that this run gives it."""
        hello = {**self.hello, "host": self.host}
        return machine_of(hello)


def members_of(joined: Sequence[tuple[Channel, Message]]) -> list[Member]:
    """The agents in the order of their ranks; machines of one name are told apart by their addresses."""
    identities: dict[str, set[str]] = {}
    for _, hello in joined:
        identities.setdefault(hello["host"], set()).add(hello["identity"])
    return sorted(
        (
            Member(
                channel=channel,
                hello=hello,
                host=hello["host"]
                if len(identities[hello["host"]]) == 1
                else f"{hello['host']}-{hello['address']}",
            )
            for channel, hello in joined
        ),
        key=lambda member: member.ranks,
    )


def crew_of(
    members: Sequence[Member], *, inbox: Inbox, missing: Mapping[int, Absence], lead_ranks: Sequence[int] = ()
) -> RemoteCrew:
    """The crew of those whose machines can reach each other; the others are sent away, and are missing."""
    shut_off = unreachable(members, inbox)
    missing = dict(missing)
    for member in members:
        if fault := shut_off.get(member.host):
            member.channel.send({"type": "refused", "refused": fault})
            missing |= {rank: Absence(kind="rank_lost", text=fault) for rank in member.ranks}
    reachable = [member for member in members if member.host not in shut_off]
    return RemoteCrew(reachable, inbox=inbox, missing=missing, lead_ranks=lead_ranks)


class RemoteCrew:
    """Workers on the machines of the agents that joined.

    `missing` are ranks that were expected and did not come, `lead_ranks` those of this process itself.
    A rank whose agent is gone or silent is out of reach from then on, and later tasks go on without it.
    """

    def __init__(
        self,
        members: Sequence[Member],
        *,
        inbox: Inbox,
        missing: Mapping[int, Absence],
        lead_ranks: Sequence[int] = (),
    ) -> None:
        self._members = list(members)
        self._inbox = inbox
        self._missing = dict(missing)
        self._lead_ranks = lead_ranks
        self._of = {member.channel: member for member in self._members}
        self._world = world_of([(m.ranks, _with_cores(m, self._members)) for m in self._members])
        self._folder = Path()
        self._hurried = False
        self._over = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def world(self) -> World:
        """Every rank of the run that joined."""
        return self._world

    def welcome(self, folder: Path, run: str, manifest: Mapping[str, Any], *, wait_s: float = 60.0) -> None:
        """Tell every agent of the run and where its folder is, and wait until all are ready."""
        self._folder = folder
        token = secrets.token_hex(8)
        (folder / TOKEN).write_text(token, encoding="utf-8")
        for member in self._members:
            member.stopped = False
            member.channel.send(
                {
                    "type": "welcome",
                    "run": run,
                    "folder": str(folder),
                    "manifest": dict(manifest),
                    "token": token,
                    "host": member.host,
                    "ranks": list(member.ranks),
                    "lead_ranks": list(self._lead_ranks),
                    "sizes": self._sizes(member),
                }
            )
        self._wait_until_stopped(wait_s)
        (folder / TOKEN).unlink(missing_ok=True)

    def _sizes(self, member: Member) -> dict[str, int]:
        """How much of the member's files is here already, from an earlier part of the run."""
        forms = ("rank-{:04d}.jsonl", "samples/rank-{:04d}.f64")
        paths = [self._folder / form.format(rank) for rank in member.ranks for form in forms]
        return {str(p.relative_to(self._folder)): p.stat().st_size for p in paths if p.exists()}

    def present(self) -> tuple[Seat, ...]:
        """The ranks whose agents answer."""
        self._take_in()
        absent = self.absences()
        return tuple(seat for seat in self._world.seats if seat.rank not in absent)

    def absences(self) -> Mapping[int, Absence]:
        """Ranks that never came, and ranks whose agents are gone."""
        gone = {rank: m.absence for m in self._members if m.absence for rank in m.ranks}
        return self._missing | gone

    def start(self, spec: Mapping[str, Any]) -> None:
        """Give each agent its part of a task; the first member's machine hosts the rendezvous."""
        members = set(spec["members"])
        if not members:
            raise MeasurementError("no rank is left to measure with")
        at = spec["addresses"][0]
        rendezvous = {"rendezvous": f"tcp://{at}:{_free_port()}"}
        for member in self._members:
            member.fates, member.torn = {}, {}
            if member.absence or not members.intersection(member.ranks):
                continue
            member.stopped = False
            member.fates = {rank: Fate() for rank in member.ranks}
            member.channel.send({"type": "start", "spec": {**spec, **rendezvous}})

    def fates(self) -> Mapping[int, Fate]:
        """What the agents have told so far."""
        self._take_in()
        return {
            rank: Fate(gone=m.absence.text) if m.absence and not fate.ended else fate
            for m in self._members
            for rank, fate in m.fates.items()
        }

    def hurry(self) -> None:
        """From now on wait only shortly for agents: the run was told to stop."""
        self._hurried = True

    def stop(self) -> Mapping[int, int]:
        """Let every agent kill what still runs, and wait until their files are here."""
        for member in self._members:
            if not member.stopped:
                member.channel.send({"type": "stop"})
        self._wait_until_stopped(_STOP_HURRIED_S if self._hurried else _STOP_S)
        return {rank: cut for member in self._members for rank, cut in member.torn.items()}

    def judging(self) -> None:
        """Tell every agent that this process is about to judge: it may not beat for a while."""
        for member in self._members:
            member.channel.send({"type": "judging"})

    def end(self) -> None:
        """Tell every agent that the run is over, with a verdict or without."""
        self._over.set()
        for member in self._members:
            member.channel.send({"type": "end"})

    def _wait_until_stopped(self, wait_s: float) -> None:
        end = time.monotonic() + wait_s
        while time.monotonic() < end and any(not m.stopped and not m.absence for m in self._members):
            self._take_in(0.05)

    def _take_in(self, wait_s: float = 0.0) -> None:
        """Deal with every message that has arrived, after waiting a moment for a first one."""
        try:
            while True:
                channel, message = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
                wait_s = 0.0
                if member := self._of.get(channel):
                    self._hear(member, message)
        except queue.Empty:
            pass
        for member in self._members:
            if member.absence is None and member.channel.silent_s > SILENCE_S:
                text = f"its agent on {member.host} was silent for {SILENCE_S:g} s"
                member.absence = Absence(kind="rank_late", text=text)
                member.channel.close()

    def _hear(self, member: Member, message: Message | None) -> None:
        if message is None:
            if member.absence is None:
                how = "was told to stop" if member.leaving else "was killed or lost its connection"
                member.absence = Absence(kind="rank_lost", text=f"its agent on {member.host} {how}")
            return
        match message["type"]:
            case "fates":
                for rank, (code, stopped) in message["fates"].items():
                    member.fates[int(rank)] = Fate(code=code, stopped=stopped)
            case "grown":
                self._grow(message)
            case "ready":
                member.shared, member.stopped = message["shared"], True
            case "stopped":
                member.torn = {int(rank): cut for rank, cut in message["torn"].items()}
                member.stopped = True
            case "leaving":
                member.leaving = True

    def _grow(self, message: Message) -> None:
        """Append what grew on an agent's own disk to the copy here."""
        path = self._folder / message["file"]
        path.parent.mkdir(exist_ok=True)
        with open(path, "ab") as file:
            if file.tell() == message["offset"]:
                file.write(base64.b64decode(message["data"]))

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            for member in self._members:
                if not member.absence:
                    member.channel.send({"type": "beat"})


def _with_cores(member: Member, members: Sequence[Member]) -> Machine:
    """The member's machine with the cores of all its agents together: a launcher may bind each to its own."""
    same = [m.hello for m in members if m.host == member.host]
    cpus = {cpu for hello in same for cpu in hello["cpus"]}
    bound = all(hello["cores"] == len(hello["cpus"]) for hello in same)
    cores = float(len(cpus)) if bound else max(hello["cores"] for hello in same)
    return replace(member.machine, cores=cores)


def _free_port() -> int:
    """A port that is free here now; on the first member's machine it nearly always is as well."""
    with socket.create_server(("", 0)) as listener:
        return int(listener.getsockname()[1])
