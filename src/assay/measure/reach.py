"""Whether the machines of a run can reach each other where workers will meet: on any free TCP port.

The lead asks one agent of each machine to listen, then each to connect to the first machine, and that one to
each of them. A firewall that lets only the agents' own ports through is found so in seconds, before anything
is measured; workers behind it would wait for one another until every deadline.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from assay.errors import EnvironmentLackError
from assay.measure.channel import Channel, Inbox, Message

#: A connection inside a cluster takes milliseconds; a firewall that drops packets never answers.
_CONNECT_S = 5.0
#: How long agents may take to answer.
_ANSWER_S = 10.0
_AT_ONCE = 64
_TOLD_MOST = 3
_FIX = "let the machines reach each other on all TCP ports: workers meet on free ones, as in any training job"


class Reachable(Protocol):
    """An agent that joined: its channel, and the name and address of its machine."""

    @property
    def channel(self) -> Channel:
        """The way to it."""

    @property
    def host(self) -> str:
        """What its machine is called."""

    @property
    def address(self) -> str:
        """Where other machines reach it."""


class Listener:
    """The agent's side: a port that it listens on, and its attempts to reach others."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._socket: socket.socket | None = None

    def hear(self, message: Message) -> None:
        """Do what a message of the lead asks for; others are left alone."""
        if message["type"] == "listen":
            self._socket = socket.create_server(("", 0), backlog=1024)
            self._channel.send({"type": "listening", "port": self._socket.getsockname()[1]})
        elif message["type"] == "reach":
            # Beside the agent's loop, which must go on beating.
            threading.Thread(target=self._reach, args=(message["targets"],), daemon=True).start()

    def _reach(self, targets: Sequence[tuple[str, int]]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            faults = list(pool.map(_fault, targets))
        self._channel.send({"type": "reached", "faults": faults})

    def close(self) -> None:
        """No longer listen."""
        if self._socket:
            self._socket.close()


def _fault(target: tuple[str, int]) -> str:
    """Why the address and port cannot be reached; empty where they can."""
    address, port = target
    try:
        socket.create_connection((address, port), timeout=_CONNECT_S).close()
    except TimeoutError:
        return f"no answer from {address} port {port} within {_CONNECT_S:g} s"
    except OSError as fault:
        return f"{address} port {port}: {fault.strerror or fault}"
    return ""


def unreachable(members: Sequence[Reachable], inbox: Inbox) -> Mapping[str, str]:
    """Machines that cannot reach the first one, or cannot be reached from it -> why.

    Raises `EnvironmentLackError` where that is so of all of them: then it is the first that is shut off.
    """
    machines = list({member.host: member for member in members}.values())
    if len(machines) < 2:
        return {}
    ports = _ask({m.channel: {"type": "listen"} for m in machines}, "listening", inbox)
    present = [m for m in machines if m.channel in ports]
    if len(present) < 2:
        return {}  # who does not answer is missed elsewhere
    first, *others = present
    targets = {m.channel: [(m.address, ports[m.channel]["port"])] for m in (first, *others)}
    asked = {m.channel: {"type": "reach", "targets": targets[first.channel]} for m in others}
    asked[first.channel] = {"type": "reach", "targets": [targets[m.channel][0] for m in others]}
    answers = _ask(asked, "reached", inbox)
    nothing = {"faults": [""] * len(others)}
    back = answers.get(first.channel, nothing)["faults"]
    faults = {}
    for member, from_first in zip(others, back, strict=True):
        (to_first,) = answers.get(member.channel, {"faults": [""]})["faults"]
        if to_first or from_first:
            near, far = (member, first) if to_first else (first, member)
            faults[member.host] = f"{near.host} cannot reach {far.host}: {to_first or from_first}"
    if len(faults) == len(others):
        told = "; ".join(list(faults.values())[:_TOLD_MOST])
        raise EnvironmentLackError(
            f"no machine can reach {first.host} and be reached by it: {told}", fix=_FIX
        )
    return {host: f"{fault} ({_FIX})" for host, fault in faults.items()}


def _ask(asked: Mapping[Channel, Message], kind: str, inbox: Inbox) -> dict[Channel, Message]:
    """Send each its message and wait for the answers of a kind; what else arrives stays in the inbox."""
    for channel, question in asked.items():
        channel.send(question)
    answers: dict[Channel, Message] = {}
    others: list[tuple[Channel, Message | None]] = []
    gone: set[Channel] = set()
    end = time.monotonic() + _ANSWER_S
    while asked.keys() - answers.keys() - gone and time.monotonic() < end:
        try:
            channel, message = inbox.get(timeout=0.1)
        except queue.Empty:
            continue
        if message is not None and message["type"] == kind:
            answers[channel] = message
        elif message is None or message["type"] != "beat":
            others.append((channel, message))
            gone |= {channel} if message is None else set()
    for other in others:
        inbox.put(other)
    return answers
