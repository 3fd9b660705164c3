"""An agent: does on its machine what the lead of a run asks for, and sends back what its workers find.

It outlives its workers. Where the lead writes to a disk of its own, the agent writes a run folder here and
sends every line and sample on as it grows.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.measure.agent import open_agent_lines
from assay.measure.channel import BEAT_S, JUDGING_S, SILENCE_S, Channel, Inbox, Message
from assay.measure.crew import WORKER, Fate, LocalCrew, Machine, world_of
from assay.measure.reach import Listener

_POLL_S = 0.02
_SHIP_S = 0.25
_CHUNK_BYTES = 1 << 20
#: How long an agent that was told to stop waits for the lead's last word: launchers kill after 30 s.
_PARTING_S = 25.0
#: The lead leaves a word in this file of its run folder; an agent that finds it there shares the folder.
TOKEN = ".lead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """How the run ended for an agent: its folder, and whether the lead went away before it said so."""

    folder: Path | None
    shared: bool = False
    lead_lost: bool = False
    refused: str | None = None


def attend(
    channel: Channel,
    *,
    machine: Machine,
    folder_for: Callable[[Message], Path],
    worker: tuple[str, ...] = WORKER,
) -> Attended:
    """Serve the lead at the other end until it says `end`, is gone, or this process is told to stop.

    `folder_for` gives the folder to write to, made if need be, for the lead's welcome.
    """
    inbox: Inbox = queue.SimpleQueue()
    _take_signals(channel, inbox)
    channel.listen(inbox)
    welcome = _first_word(channel, inbox)
    if welcome is None:
        return Attended(folder=None, lead_lost=True)
    if "refused" in welcome:
        return Attended(folder=None, refused=str(welcome["refused"]))
    folder, ranks = folder_for(welcome), welcome["ranks"]
    shared = _token_of(folder) == welcome["token"]
    named = [(ranks, _renamed(machine, welcome))]
    crew = LocalCrew(folder, world_of(named), worker=worker)
    shipper = None if shared else _Shipper(folder, ranks, welcome["sizes"], channel)
    if not shared:
        _say(folder, welcome["run"], "agent_joined", ranks, f"agent of {welcome['host']}")
    channel.send({"type": "ready", "shared": shared})
    agent = _Agent(channel, inbox, crew, shipper)
    ended = agent.serve()
    if not ended:
        silent = channel.silent_s > SILENCE_S
        how = f"was silent for {SILENCE_S:g} s" if silent else "was killed or lost its connection"
        kind = "rank_late" if silent else "rank_lost"
        lead = welcome["lead_ranks"]
        _say(
            folder, welcome["run"], kind if lead else "lead_lost", lead or ranks, f"the lead of the run {how}"
        )
    return Attended(folder=folder, shared=shared, lead_lost=not ended)


def _first_word(channel: Channel, inbox: Inbox) -> Message | None:
    """The welcome; the lead may take long to gather all, but it beats meanwhile."""
    listener = Listener(channel)
    try:
        while channel.silent_s < SILENCE_S:
            message: Message | None = {"type": "beat"}
            with contextlib.suppress(queue.Empty):
                _, message = inbox.get(timeout=BEAT_S)
            if message is None or message["type"] in ("welcome", "refused"):
                return message
            if message["type"] == "leave":
                return None
            listener.hear(message)
            channel.send({"type": "beat"})
        return None
    finally:
        listener.close()


def _take_signals(channel: Channel, inbox: Inbox) -> None:
    """Ctrl-C and SIGTERM become messages: they must not break off what comes after the work."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: inbox.put((channel, {"type": "leave"})))


def _renamed(machine: Machine, welcome: Message) -> Machine:
    """The machine under the name that the lead gave it, which tells it from others of its own name."""
    return dataclasses.replace(machine, host=welcome["host"])


def _token_of(folder: Path) -> str:
    try:
        return (folder / TOKEN).read_text(encoding="utf-8")
    except OSError:
        return ""


def _say(folder: Path, run: str, kind: str, ranks: Sequence[int], text: str) -> None:
    lines = open_agent_lines(folder, run)
    for rank in ranks:
        lines.append(
            {
                "type": "event",
                "kind": kind,
                "time_s": round(time.time(), 3),
                "subject": f"rank:{rank}",
                "text": text,
                "details": {},
            }
        )
    lines.close()


class _Agent:
    """The loop of an agent once it has been welcomed."""

    def __init__(self, channel: Channel, inbox: Inbox, crew: LocalCrew, shipper: _Shipper | None) -> None:
        self._channel, self._inbox = channel, inbox
        self._crew, self._shipper = crew, shipper
        self._told: dict[int, Fate] = {}
        self._busy = False
        self._patience_s = SILENCE_S

    def serve(self) -> bool:
        """Whether the lead said that the run has ended; when told to leave, wait a little for that word."""
        end_at: float | None = None
        beat_at = ship_at = 0.0
        try:
            while end_at is None or time.monotonic() < end_at:
                message = self._next()
                if message is None or self._channel.silent_s > self._patience_s:
                    return False
                if message["type"] == "end":
                    return True
                if message["type"] == "leave" and end_at is None:
                    end_at = time.monotonic() + _PARTING_S
                self._obey(message)
                now = time.monotonic()
                if self._busy:
                    self._report()
                if self._shipper and now > ship_at:
                    self._shipper.ship()
                    ship_at = now + _SHIP_S
                if now > beat_at:
                    self._channel.send({"type": "beat"})
                    beat_at = now + BEAT_S
            return False
        finally:
            self._stop()
            self._crew.close()
            self._channel.close()

    def _next(self) -> Message | None:
        """The next message, or after a moment a beat of our own."""
        with contextlib.suppress(queue.Empty):
            return self._inbox.get(timeout=_POLL_S if self._busy else BEAT_S / 4)[1]
        return {"type": "beat"}

    def _obey(self, message: Message) -> None:
        if message["type"] == "start":
            self._told, self._busy, self._patience_s = {}, True, SILENCE_S
            self._crew.start(message["spec"])
        elif message["type"] == "stop":
            torn = self._stop()
            self._channel.send({"type": "stopped", "torn": {str(r): n for r, n in torn.items()}})
        elif message["type"] == "judging":
            self._patience_s = JUDGING_S
        elif message["type"] == "leave":
            self._stop()
            self._channel.send({"type": "leaving"})

    def _report(self) -> None:
        """Tell the lead of every fate that has changed."""
        fates = dict(self._crew.fates())
        changed = {rank: fate for rank, fate in fates.items() if fate != self._told.get(rank, Fate())}
        if changed:
            told = {str(rank): [fate.code, fate.stopped] for rank, fate in changed.items()}
            self._channel.send({"type": "fates", "fates": told})
        self._told = fates

    def _stop(self) -> dict[int, int]:
        torn = dict(self._crew.stop()) if self._busy else {}
        self._busy = False
        if self._shipper:
            self._shipper.ship()
        return torn


class _Shipper:
    """Sends what grows in a folder of this machine's own, whole lines and whole samples only."""

    def __init__(self, folder: Path, ranks: Sequence[int], sizes: dict[str, int], channel: Channel) -> None:
        self._folder, self._channel = folder, channel
        names = [
            form.format(rank) for rank in ranks for form in ("rank-{:04d}.jsonl", "samples/rank-{:04d}.f64")
        ]
        self._sent = {name: sizes.get(name, 0) for name in names}

    def ship(self) -> None:
        """Send the growth since the last time; samples go before the lines that refer to them."""
        for name in sorted(self._sent, reverse=True):
            while data := self._growth(name):
                offset = self._sent[name]
                text = base64.b64encode(data).decode()
                if not self._channel.send({"type": "grown", "file": name, "offset": offset, "data": text}):
                    return
                self._sent[name] += len(data)

    def _growth(self, name: str) -> bytes:
        try:
            with open(self._folder / name, "rb") as file:
                file.seek(self._sent[name])
                data = file.read(_CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        if name.endswith(".f64"):
            return data[: len(data) - len(data) % 8]
        return data[: data.rfind(b"\n") + 1]


def hello_of(ranks: Sequence[int], machine: Machine, *, version: str, token: str) -> Message:
    """How an agent introduces itself."""
    return {
        "type": "hello",
        "token": token,
        "ranks": list(ranks),
        "host": machine.host,
        "identity": _identity(),
        "cores": machine.cores,
        "cpus": sorted(os.sched_getaffinity(0)),
        "devices": list(machine.devices),
        "backend": machine.backend,
        "first_local_rank": machine.first_local_rank,
        "address": machine.address,
        "assay": version,
        "torch": _torch_version(),
    }


def machine_of(hello: Message) -> Machine:
    """The machine that an agent introduced."""
    return Machine(
        host=hello["host"],
        ranks=len(hello["ranks"]),
        cores=hello["cores"],
        devices=tuple(hello["devices"]),
        backend=hello["backend"],
        first_local_rank=hello["first_local_rank"],
        address=hello["address"],
    )


def _identity() -> str:
    """What tells machines of one name apart: the boot, and the network namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"


def _torch_version() -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""
