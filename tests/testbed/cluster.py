"""A cluster on one machine: network namespaces as hosts, joined by wires that can be made faulty.

Needs root, iproute2, util-linux and a C compiler. Host `h2` is a network namespace with one interface
`eth0` (10.77.0.12/24) on a switch; what runs there sees the host name `h2`. Nothing outside the cluster's
own namespaces is touched, and several clusters may stand at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_NETNS = Path("/etc/netns")
UPLINK = "uplink"
#: Program -> Debian package.
_NEEDS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "gcc": "gcc"}


def obstacle() -> str | None:
    """Why no cluster can be made here, with the package to install; None where one can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in _NEEDS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    return None if Path("/dev/net/tun").exists() else "this kernel has no TAP devices (/dev/net/tun)"


@dataclass
class Cluster:
    """`hosts` hosts on one switch; a context manager. With `wire` false, plain veth links without faults.

    With `uplink` the second half of the hosts is on a switch of its own. The wire between the two is called
    `uplink`, and can be made faulty like a host's.
    """

    hosts: int = 4
    wire: bool = True
    uplink: bool = False
    _name: str = field(init=False)
    _folder: Path = field(init=False)
    _down: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)

    def __enter__(self) -> Cluster:
        self._folder = Path(tempfile.mkdtemp(prefix="assay-cluster-"))
        self._name = f"as{os.getpid()}{self._folder.name[-3:]}"
        self._down.callback(shutil.rmtree, self._folder, ignore_errors=True)
        try:
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._down.close()

    @property
    def names(self) -> tuple[str, ...]:
        """`h0`, `h1`, …"""
        return tuple(f"h{i}" for i in range(self.hosts))

    def address(self, host: str) -> str:
        """The address of a host's `eth0`."""
        return f"10.77.0.{10 + int(host[1:])}"

    @property
    def ssh(self) -> str:
        """What takes the place of ssh: runs the words after it on `{host}`."""
        return f"ip netns exec {self._name}-{{host}} unshare --uts sh -c 'hostname {{host}}; eval \"$*\"' sh"

    def command(self, host: str, words: Sequence[object]) -> list[str]:
        """The words that run `words` on a host; the process that is started becomes them."""
        enter = ["ip", "netns", "exec", self._namespace(host), "unshare", "--uts"]
        return [*enter, "sh", "-c", f'hostname {host}; exec "$@"', "sh", *map(str, words)]

    def start(
        self, host: str, words: Sequence[object], *, env: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[str]:
        """Start a program on a host; its pid is that of the program."""
        return subprocess.Popen(
            self.command(host, words),
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            text=True,
            **popen,
        )

    def shape(
        self,
        host: str,
        *,
        delay_s: float = 0.0,
        jitter_s: float = 0.0,
        loss_frac: float = 0.0,
        rate_Mbps: float = 0.0,
        direction: str = "both",
    ) -> None:
        """Make a wire (of a host, or the uplink) faulty `out`, `in`, or `both` ways; without faults, clean.

        Out is from the host to its switch, or from the second half of the hosts to the first.
        """
        fault = f"{delay_s * 1e6} {jitter_s * 1e6} {loss_frac} {rate_Mbps}\n"
        out, into = (fault if direction in (way, "both") else "0 0 0 0\n" for way in ("out", "in"))
        beside = self._control(host).with_suffix(".new")
        beside.write_text(out + into)
        beside.rename(self._control(host))

    def pair_rate(self, sender: str, receiver: str, rate_Mbps: float) -> None:
        """Limit what one host sends to one other; everything else passes freely."""
        tc = ("tc", "qdisc", "add", "dev", "eth0")
        self._on(sender, *tc, "root", "handle", "1:", "htb", "default", "1", "r2q", "100000")
        for number, rate in ((1, "100gbit"), (2, f"{rate_Mbps}mbit")):
            limit = ("htb", "rate", rate, "burst", "256kb", "cburst", "256kb", "quantum", "65536")
            self._on(
                sender, "tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", f"1:{number}", *limit
            )
        match = ("u32", "match", "ip", "dst", self.address(receiver), "flowid", "1:2")
        self._on(sender, "tc", "filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", *match)

    def clean(self) -> None:
        """Take every fault away."""
        for host in self.names:
            if self.wire:
                self.shape(host)
            if "htb" in self._on(host, "tc", "qdisc", "show", "dev", "eth0"):
                self._on(host, "tc", "qdisc", "del", "dev", "eth0", "root")

    def _up(self) -> None:
        program = _compiled(self._folder) if self.wire or self.uplink else None
        near = self._add_switch("switch")
        far = self._add_switch("far") if self.uplink else near
        if self.uplink and program:
            self._start_wire(program, UPLINK, far, near, device=UPLINK)
            for switch in (near, far):
                _run("ip", "-n", switch, "link", "set", UPLINK, "master", "bridge", "up")
        for at, host in enumerate(self.names):
            switch = near if 2 * at < self.hosts else far
            namespace = self._add_namespace(host)
            if program and self.wire:
                self._start_wire(program, host, namespace, switch)
            else:
                peer = ("peer", "name", host, "netns", switch)
                _run("ip", "link", "add", "eth0", "netns", namespace, "type", "veth", *peer)
            _run("ip", "-n", switch, "link", "set", host, "master", "bridge", "up")
            _run("ip", "-n", namespace, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", namespace, "link", "set", device, "up")
            self._write_names(namespace)

    def _add_switch(self, name: str) -> str:
        switch = self._add_namespace(name)
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        return switch

    def _start_wire(
        self, program: Path, host: str, namespace: str, switch: str, *, device: str = "eth0"
    ) -> None:
        self.shape(host)
        words = [program, device, namespace, host, switch, self._control(host)]
        wire = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
        self._down.callback(_end, wire)
        if wire.stdout is None or wire.stdout.readline() != "ready\n":
            raise RuntimeError(f"the wire of {host} did not start")

    def _write_names(self, namespace: str) -> None:
        """Files that `ip netns exec` lays over those in /etc: without them names resolve to 127.0.0.1."""
        folder = _NETNS / namespace
        folder.mkdir(parents=True)
        self._down.callback(shutil.rmtree, folder, ignore_errors=True)
        known = [("127.0.0.1", "localhost"), *((self.address(name), name) for name in self.names)]
        (folder / "hosts").write_text("".join(f"{address} {name}\n" for address, name in known))
        (folder / "resolv.conf").write_text("")
        (folder / "nsswitch.conf").write_text("hosts: files\npasswd: files\ngroup: files\n")

    def _add_namespace(self, name: str) -> str:
        namespace = self._namespace(name)
        _run("ip", "netns", "add", namespace)
        self._down.callback(_run, "ip", "netns", "del", namespace)
        return namespace

    def _namespace(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _control(self, host: str) -> Path:
        return self._folder / f"{host}.wire"

    def _on(self, host: str, *words: str) -> str:
        return _run("ip", "netns", "exec", self._namespace(host), *words)


def _compiled(folder: Path) -> Path:
    program = folder / "netwire"
    _run("gcc", "-O2", "-Wall", "-o", str(program), str(HERE / "netwire.c"))
    return program


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()
