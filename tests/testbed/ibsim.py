"""A real subnet manager on a simulated InfiniBand fabric: ibsim, opensm and the diagnostics around them.

Needs the packages ibsim-utils, opensm and infiniband-diags. A fabric is made from a `Network`; what the tools
print is what a site would print of it. Several fabrics may stand at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assay.fabric.topology.network import Network

_NEEDS = {"ibsim": "ibsim-utils", "opensm": "opensm", "ibnetdiscover": "infiniband-diags"}
#: Enabled masks of the netlist by width and speed; Debian's ibsim ends at HDR.
_WIDTH = {"1": "w=1", "2": "w=17", "4": "w=3", "8": "w=7", "12": "w=11"}
_SPEED = {"SDR": "s=1", "DDR": "s=3", "QDR": "s=7", "FDR": "s=7 e=1", "EDR": "s=7 e=3", "HDR": "s=7 e=7"}
#: opensm keeps its log to itself without the flush, and sweeps only when told or trapped.
_OPENSM = "force_log_flush TRUE\nsweep_interval 0\nlog_flags 0x07\n"
_UP_S = 60.0


def obstacle() -> str | None:
    """Why no fabric can be simulated here, with the package to install; None where one can."""
    for program, package in _NEEDS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    return None if _preload() else "libumad2sim.so is not installed: apt-get install ibsim-utils"


def netlist(network: Network) -> str:
    """The network in ibsim's own language; the first adapter is where the subnet manager sits."""
    guid = {
        name: (0x200000 if device.is_adapter else 0x100000) + 16 * at
        for at, (name, device) in enumerate(network.devices.items())
    }
    ports: dict[str, dict[int, str]] = {name: {} for name in network.devices}
    for cable in network.cables:
        width, speed = cable.rate.split("x")
        for (here, port), (there, far) in (
            ((cable.a, cable.a_port), (cable.b, cable.b_port)),
            ((cable.b, cable.b_port), (cable.a, cable.a_port)),
        ):
            ports[here][port] = f'[{port}]\t"{there}"[{far}]\t{_WIDTH[width]} {_SPEED[speed]}'
    most = max(max(rows, default=1) for name, rows in ports.items() if not network.devices[name].is_adapter)
    lines: list[str] = []
    for name in sorted(network.devices, key=lambda n: not network.devices[n].is_adapter):
        adapter = network.devices[name].is_adapter
        count = max(ports[name], default=1) if adapter else most
        lines += [f"sysimgguid=0x{guid[name]:x}", f"{'caguid' if adapter else 'switchguid'}=0x{guid[name]:x}"]
        lines += [f'{"Hca" if adapter else "Switch"}\t{count} "{name}"']
        lines += [ports[name][port] for port in sorted(ports[name])]
        lines.append("")
    return "\n".join(lines) + "\n"


@dataclass
class Fabric:
    """A simulated fabric, with a running subnet manager unless `engine` is None; a context manager.

    Discovery needs no manager: it asks the switches hop by hop.
    """

    network: Network
    engine: str | None = None
    _folder: Path = field(init=False)
    _env: dict[str, str] = field(init=False)
    _console: int = field(init=False)
    _opensm: subprocess.Popen[bytes] = field(init=False)
    _down: contextlib.ExitStack = field(init=False, default_factory=contextlib.ExitStack)

    def __enter__(self) -> Fabric:
        self._folder = Path(tempfile.mkdtemp(prefix="assay-ibsim-"))
        self._down.callback(shutil.rmtree, self._folder, ignore_errors=True)
        try:
            self._start_simulator()
            if self.engine is not None:
                self._start_manager(self.engine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._down.close()

    def tool(self, *words: str) -> list[str]:
        """What a diagnostic prints, line by line."""
        done = subprocess.run(words, env=self._env, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.splitlines()

    def written(self, name: str) -> list[str]:
        """A file that the subnet manager wrote, line by line."""
        return (self._folder / name).read_text().splitlines()

    def console(self, command: str) -> None:
        """A command to the simulator, as `Unlink "leaf005"[16]`."""
        os.write(self._console, (command + "\n").encode())

    def sweep(self, command: str) -> None:
        """Do something to the fabric, have the manager sweep, and wait until its routes are written."""
        before = self._log().count("SUBNET UP")
        self.console(command)
        self._opensm.send_signal(1)
        self._await(lambda: self._log().count("SUBNET UP") > before, f"sweep after {command}")

    def _start_simulator(self) -> None:
        file = self._folder / "netlist"
        file.write_text(netlist(self.network))
        devices, ports = len(self.network.devices), 2 * len(self.network.cables)
        sizes = ("-N", devices + 16, "-S", devices + 8, "-P", ports + 70 * devices)
        name = f"assay{os.getpid()}{self._folder.name[-6:]}"
        self._env = {**os.environ, "IBSIM_SOCKNAME": name}
        read, self._console = os.pipe()
        self._down.callback(os.close, self._console)
        words = ["ibsim", "-s", *map(str, sizes), str(file)]
        log = self._folder / "ibsim.log"
        with log.open("wb") as out:
            process = subprocess.Popen(words, stdin=read, stdout=out, stderr=out, env=self._env)
        os.close(read)
        self._down.callback(_end, process)
        self._env |= {
            "LD_PRELOAD": _preload() or "",
            "OSM_TMP_DIR": str(self._folder),
            "OSM_CACHE_DIR": str(self._folder),
        }
        self._await(lambda: "Network ready" in log.read_text() or "sim>" in log.read_text(), "ibsim")

    def _start_manager(self, engine: str) -> None:
        config = self._folder / "opensm.conf"
        config.write_text(_OPENSM)
        words = ["opensm", "-F", str(config), "-f", str(self._folder / "osm.log"), "-R", engine]
        if engine in ("ftree", "updn"):
            roots = self._folder / "roots"
            tier = max(d.tier or 0 for d in self.network.switches())
            guid = {name: 0x100000 + 16 * at for at, name in enumerate(self.network.devices)}
            roots.write_text("".join(f"0x{guid[d.name]:016x}\n" for d in self.network.switches(tier)))
            words += ["-a", str(roots)]
        with (self._folder / "osm.out").open("wb") as out:
            self._opensm = subprocess.Popen(words, stdout=out, stderr=out, env=self._env, cwd=self._folder)
        self._down.callback(_end, self._opensm)
        self._await(lambda: "SUBNET UP" in self._log(), "opensm")

    def _log(self) -> str:
        file = self._folder / "osm.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def _await(self, ready: Callable[[], bool], what: str) -> None:
        """Look fifty times a second until the program says so; there is nothing to be woken by."""
        until = time.monotonic() + _UP_S
        pause = threading.Event()
        while not ready():
            if time.monotonic() > until:
                raise RuntimeError(f"{what} did not come up in {_UP_S:g} s")
            pause.wait(0.02)


def _preload() -> str | None:
    found = sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))
    return str(found[0]) if found else None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
