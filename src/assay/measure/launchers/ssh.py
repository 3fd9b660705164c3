"""Over ssh: the command that a user gives starts one agent on each host of a file, and talks through it."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
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

#: How long agents may take to end once the run is over, and how long a closed channel's process.
_PARTING_S = 5.0
_ENDING_S = 1.0
#: So many hosts that do not answer are told one by one.
_TOLD_MOST = 5
#: What ssh, a shell or Python says -> what helps. `{host}` and `{python}` are filled in.
_HELP = (
    ("Permission denied", "let your key in: ssh-copy-id {host}, or ssh-add where it has a passphrase"),
    ("Host key verification failed", "accept its key once by hand: ssh {host}"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "find out why its key is another than before"),
    ("Could not resolve hostname", "write a name that ssh knows into the hosts file"),
    ("Connection refused", "see whether sshd runs there"),
    ("timed out", "see whether it is up, and whether a firewall lets ssh through"),
    ("No route to host", "see whether it is up, and its address"),
    ("No module named", "install assay there, in the environment of {python}"),
    ("{python}", "install Python and assay there as they are here, at {python}"),
)


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


class _Remote:
    """The process that runs an agent on a host. What it prints is passed on under the host's name."""

    def __init__(self, host: Host, words: Sequence[str]) -> None:
        self.host, self.program = host, words[0]
        self._said = ""
        try:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as fault:
            raise EnvironmentLackError(
                f"{self.program} does not start: {fault.strerror}",
                fix="install an ssh client, or give with --ssh what runs a command on {host}",
            ) from None
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # closed under our hands at the end
            for line in self.process.stderr or ():
                text = line.decode(errors="replace").rstrip()
                if text:
                    self._said = text
                    print(f"{self.host.name}: {text}", file=sys.stderr)  # noqa: T201 - it is ssh's own

    def silence(self, wait_s: float, python: str) -> str:
        """Why it did not answer, as far as can be told, and what helps."""
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(timeout=0 if self.process.poll() is None else _ENDING_S)
            self._reader.join(_ENDING_S)
        how = f" within {wait_s:g} s" if code is None else f": {self.program} ended with code {code}"
        said = f": {self._said}" if self._said else ""
        known = (help_ for words, help_ in _HELP if words.format(python=python) in self._said)
        fix = next(known, "").format(host=self.host.name, python=python)
        return f"did not answer{how}{said}{f' ({fix})' if fix else ''}"

    def end(self, before_s: float) -> None:
        """Wait until it has ended, and kill it where it does not before `before_s` of the monotonic clock."""
        try:
            self.process.wait(timeout=max(0.1, before_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            # With all that it started: whoever holds the other end of the pipe would hold up its reader.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(_ENDING_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


class HostsReception:
    """Starts an agent on every host and gathers them; `python` is the interpreter there."""

    def __init__(
        self, hosts: Sequence[Host], *, ssh: str = SSH, python: str = sys.executable, ranks: int | None = None
    ) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        self._python = python
        self._remotes: dict[Channel, _Remote] = {}
        self._hellos: dict[Channel, Message] = {}
        for host in hosts:
            agent = _REMOTE.format(python=shlex.quote(python), address=host.address, ranks=ranks or 0)
            remote = _Remote(host, [*(word.replace("{host}", host.name) for word in shlex.split(ssh)), agent])
            if remote.process.stdin is None or remote.process.stdout is None:
                raise EnvironmentLackError(f"{remote.program} has no pipes")
            channel = Channel(remote.process.stdout, remote.process.stdin, remote.process.stdin.close)
            self._remotes[channel] = remote
            channel.listen(self.inbox)

    def gather(self, *, version: str, wait_s: float) -> RemoteCrew:
        """Wait until every host has answered, has failed, or `wait_s` has passed, and make them a crew.

        The run goes on without hosts that do not answer; their ranks count as lost.
        """
        end = time.monotonic() + wait_s
        waiting = set(self._remotes)
        while waiting and (left_s := end - time.monotonic()) > 0:
            try:
                channel, message = self.inbox.get(timeout=min(left_s, 0.5))
            except queue.Empty:
                for known in self._remotes:
                    known.send({"type": "beat"})
                continue
            if message is None:
                waiting.discard(channel)
            elif message["type"] == "hello":
                waiting.discard(channel)
                self._admit(channel, message, version)
        silent = {
            channel: remote.silence(wait_s, self._python)
            for channel, remote in self._remotes.items()
            if channel not in self._hellos
        }
        if not self._hellos:
            told = [f"{self._remotes[channel].host.name} {how}" for channel, how in silent.items()]
            more = f"; and {len(told) - _TOLD_MOST} more" if len(told) > _TOLD_MOST else ""
            raise EnvironmentLackError(
                f"none of {len(told)} hosts answered: {'; '.join(told[:_TOLD_MOST])}{more}",
                fix="see whether the ssh command works by hand, and whether assay is installed there",
            )
        return self._crew(silent)

    def refuse(self, reason: str) -> None:
        """Send everyone away who has come."""
        for channel in self._hellos:
            channel.send({"type": "refused", "refused": reason})

    def _admit(self, channel: Channel, hello: Message, version: str) -> None:
        name = self._remotes[channel].host.name
        if hello["assay"] != version:
            raise InputError(
                f"{name} runs assay {hello['assay']}, but this is {version}",
                fix="install one version everywhere",
            )
        for other, known in self._hellos.items():
            if known["identity"] == hello["identity"]:
                raise InputError(
                    f"{self._remotes[other].host.name} and {name} are one machine ({hello['host']})",
                    fix="give each machine once",
                )
        self._hellos[channel] = hello

    def _crew(self, silent: Mapping[Channel, str]) -> RemoteCrew:
        """Ranks are numbered in the order of the file, so that a host keeps its own whoever is absent.

        One that does not answer is taken to have as many as the most that another has.
        """
        joined, missing, number = [], dict[int, Absence](), 0
        most = max(hello["count"] for hello in self._hellos.values())
        for channel, remote in self._remotes.items():
            hello = self._hellos.get(channel)
            ranks = list(range(number, number + (hello["count"] if hello else most)))
            number += len(ranks)
            if hello:
                joined.append((channel, {**hello, "ranks": ranks}))
            else:
                text = f"host {remote.host.name} {silent[channel]}"
                missing |= {rank: Absence(kind="rank_lost", text=text) for rank in ranks}
        return RemoteCrew(members_of(joined), inbox=self.inbox, missing=missing)

    def close(self) -> None:
        """End the agents' connections; they end with them, and what does not is killed."""
        for remote in self._remotes.values():
            if remote.process.stdin:
                with contextlib.suppress(OSError):
                    remote.process.stdin.close()
        before_s = time.monotonic() + _PARTING_S
        for remote in self._remotes.values():
            remote.end(before_s)
