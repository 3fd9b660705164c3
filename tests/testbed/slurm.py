"""A real Slurm on one machine: one controller, a few node daemons on loopback ports, a munge of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

_NEEDS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}

_CONF = """\
ClusterName=assay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
{nodes}
PartitionName=main Nodes=n[1-{count}] Default=YES State=UP
"""


def obstacle() -> str | None:
    """Why Slurm cannot run here, with the package to install; None where it can."""
    if os.geteuid() != 0:
        return "a Slurm of our own needs root"
    lacking = sorted({package for program, package in _NEEDS.items() if shutil.which(program) is None})
    return f"Slurm is not installed: apt-get install {' '.join(lacking)}" if lacking else None


@dataclass
class Slurm:
    """`count` nodes `n1`, `n2`, …, all of them this machine; a context manager. `env` is for its commands."""

    folder: Path
    count: int = 2
    port: int = 16817
    _down: ExitStack = field(init=False, default_factory=ExitStack)

    @property
    def env(self) -> dict[str, str]:
        """The environment in which srun finds this Slurm and no other."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        try:
            self._up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._down.close()

    def _up(self) -> None:
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        own = {"key-file": key, **{f"{k}-file": self.folder / f"munge.{k}" for k in ("log", "pid", "seed")}}
        options = [f"--{name}={path}" for name, path in own.items()]
        self._daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *options)
        host = os.uname().nodename
        nodes = "\n".join(
            f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.port + i} CPUs=4"
            for i in range(1, self.count + 1)
        )
        conf = _CONF.format(host=host, port=self.port, folder=self.folder, nodes=nodes, count=self.count)
        (self.folder / "slurm.conf").write_text(conf)
        self._daemon("slurmctld", "-D")
        for i in range(1, self.count + 1):
            self._daemon("slurmd", "-D", "-N", f"n{i}")
        self._wait_until_idle()

    def _daemon(self, *words: str) -> None:
        with (self.folder / f"{words[0]}{words[-1].replace('/', '_')[-12:]}.out").open("w") as out:
            process = subprocess.Popen(words, env=self.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self._down.callback(_end, process)

    def _wait_until_idle(self, within_s: float = 30.0) -> None:
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            words = ["sinfo", "-h", "-t", "idle", "-o", "%D"]
            done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
            if done.stdout.strip() == str(self.count):
                return
            time.sleep(0.2)
        raise RuntimeError(f"Slurm did not come up: {done.stdout}{done.stderr}; see {self.folder}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
