"""Over ssh: the command that a user gives starts one agent on each host of a file, and talks through it."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.codec.text_file import read_lines
from assay.errors import EnvironmentLackError, InputError
from assay.measure.channel import Channel, Inbox, Message
from assay.measure.crew import Absence
from assay.measure.remote import RemoteCrew, members_of

#: `BatchMode` asks no questions: a host that wants a password is one that does not answer.
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}"
#: What runs on each host; its standard input and output are the channel.
_REMOTE = "{python} -m assay.api.host_agent {address} {ranks}"

#: How long agents may take to end once the run is over.
_PARTING_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A line of a hosts file: how ssh calls the host, where the others reach it, the leaf switch above it."""

    name: str
    address: str
    leaf: str = ""


def read_hosts(path: Path) -> tuple[Host, ...]:
    """The hosts of a file, one a line, `name [address [leaf]]`; `#` begins a comment; none may come twice."""
    hosts: dict[str, Host] = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) > 3:
            raise InputError(
                f"{line.strip()!r} has {len(words)} words",
                where=where,
                fix="write a host, its address where ssh has another name, and the leaf switch above it: "
                "node07 10.0.0.7 leaf3",
            )
        if words[0] in hosts:
            raise InputError(f"host {words[0]} is given twice", where=where, fix="give each host once")
        hosts[words[0]] = Host(name=words[0], address=words[:2][-1], leaf=words[2] if words[2:] else "")
    if not hosts:
        raise InputError("no host is given", where=str(path), fix="write one host a line")
    return tuple(hosts.values())


class HostsReception:
    """Starts an agent on every host and gathers them; `python` is the interpreter there."""

    def __init__(
        self, hosts: Sequence[Host], *, ssh: str = SSH, python: str = sys.executable, ranks: int | None = None
    ) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        self._hosts = hosts
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._channels: dict[Channel, str] = {}
        self._hellos: list[tuple[Channel, Message]] = []
        for host in hosts:
            remote = _REMOTE.format(python=shlex.quote(python), address=host.address, ranks=ranks or 0)
            self._start(host, [*(word.replace("{host}", host.name) for word in shlex.split(ssh)), remote])

    def _start(self, host: Host, words: list[str]) -> None:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as fault:
            raise EnvironmentLackError(f"{words[0]} does not start: {fault.strerror}") from None
        if process.stdin is None or process.stdout is None:
            raise EnvironmentLackError(f"{words[0]} has no pipes")
        channel = Channel(process.stdout, process.stdin, process.stdin.close)
        self._processes[host.name] = process
        self._channels[channel] = host.name
        channel.listen(self.inbox)

    def gather(self, *, version: str, wait_s: float) -> RemoteCrew:
        """Wait until every host has answered, has failed, or `wait_s` has passed, and make them a crew.

        The run goes on without hosts that do not answer; their ranks count as lost.
        """
        end = time.monotonic() + wait_s
        waiting = set(self._channels)
        while waiting and (left_s := end - time.monotonic()) > 0:
            try:
                channel, message = self.inbox.get(timeout=min(left_s, 0.5))
            except queue.Empty:
                for known in self._channels:
                    known.send({"type": "beat"})
                continue
            if message is None:
                waiting.discard(channel)
            elif message["type"] == "hello":
                waiting.discard(channel)
                self._admit(channel, message, version)
        came = {channel for channel, _ in self._hellos}
        absent = [name for channel, name in self._channels.items() if channel not in came]
        if not came:
            raise EnvironmentLackError(
                f"none of {len(self._hosts)} hosts answered: {', '.join(absent)}",
                fix="see whether the ssh command works by hand, and whether assay is installed there",
            )
        return self._crew(absent, wait_s)

    def refuse(self, reason: str) -> None:
        """Send everyone away who has come."""
        for channel, _ in self._hellos:
            channel.send({"type": "refused", "refused": reason})

    def _admit(self, channel: Channel, hello: Message, version: str) -> None:
        name = self._channels[channel]
        if hello["assay"] != version:
            raise InputError(
                f"{name} runs assay {hello['assay']}, but this is {version}",
                fix="install one version everywhere",
            )
        for other, known in self._hellos:
            if known["identity"] == hello["identity"]:
                raise InputError(
                    f"{self._channels[other]} and {name} are one machine ({hello['host']})",
                    fix="give each machine once",
                )
        self._hellos.append((channel, hello))

    def _crew(self, absent: Sequence[str], wait_s: float) -> RemoteCrew:
        """Ranks are numbered in the order of the file; a host that is absent gets those after the others."""
        order = [host.name for host in self._hosts]
        joined, number = [], 0
        for channel, hello in sorted(self._hellos, key=lambda item: order.index(self._channels[item[0]])):
            ranks = list(range(number, number + hello["count"]))
            joined.append((channel, {**hello, "ranks": ranks}))
            number += len(ranks)
        most = max(hello["count"] for _, hello in self._hellos)
        missing = {
            number + i: Absence(
                kind="rank_lost", text=f"host {absent[i // most]} did not answer within {wait_s:g} s"
            )
            for i in range(most * len(absent))
        }
        return RemoteCrew(members_of(joined), inbox=self.inbox, missing=missing)

    def close(self) -> None:
        """End the agents' connections; they end with them, and what does not is killed."""
        for process in self._processes.values():
            if process.stdin:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        end = time.monotonic() + _PARTING_S
        for process in self._processes.values():
            try:
                process.wait(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                # With all that it started: whoever holds the other end of the pipe would hold up its reader.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout:
                process.stdout.close()
