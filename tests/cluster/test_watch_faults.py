"""A real 4-host Gloo job, watched through exporters and a real Prometheus; real faults, one after another.

Each is to be named within 10 s or 5 steps, whichever is later. Time is printed, and asserted with the slack
that a busy machine of two cores needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_job import SOURCE
from test_faults import quota

__all__ = ["quota"]

JOB = Path(__file__).with_name("toy_job.py")
PROMETHEUS = """\
global: {{scrape_interval: 1s, scrape_timeout: 900ms}}
scrape_configs:
  - job_name: assay
    static_configs:
{targets}
"""
CONFIG = """\
schema: 1
prometheus: http://{address}:9090
every: 1 s
timeout: 3 s
nodes: [h0, h1, h2, h3]
jobs: [{{logs: ["{folder}/rank*.log"]}}]
addresses: {{10.77.0.10: "0", 10.77.0.11: "1", 10.77.0.12: "2", 10.77.0.13: "3"}}
bounds: {{join_s: 2 s, close_s: 5 s, clock_offset_s: 50 ms, pair_least_s: 25 ms, pair_ratio: 6, down_s: 15 s}}
"""
#: `ip netns exec` lays a fresh /sys over the host's; a real host's exporter sees its control groups there.
GROUPS = (
    "mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && "
    "mount -t cgroup -o cpu none /sys/fs/cgroup/cpu"
    if Path("/sys/fs/cgroup/cpu").is_dir()
    else "mount -t cgroup2 none /sys/fs/cgroup"
)
WITH_GROUPS = ["sh", "-c", GROUPS + '; exec "$@"', "sh"]
#: The goal is 10 s; what else runs on two cores must not fail a test.
GOAL_S, SLACK_S = 10.0, 30.0


class Watched:
    """The job, an exporter on each host, Prometheus and the watcher, all on the namespace cluster."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.down = contextlib.ExitStack()
        self.ranks: dict[int, subprocess.Popen[str]] = {}
        self.changes: list[tuple[float, dict[str, Any]]] = []
        self.clock = folder / "clock"
        self.clock.write_text("+0")

    def start(self, storage: Path) -> None:
        for program, package in (("prometheus", "prometheus"), ("faketime", "faketime")):
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed: apt-get install {package}")
        peers = ",".join(f"{host}={self.cluster.address(host)}" for host in self.cluster.names)
        library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        for host in self.cluster.names:
            words = [
                *WITH_GROUPS,
                sys.executable,
                "-m",
                "assay",
                "watch",
                "--node",
                "--bind",
                "0.0.0.0",
                "--host",
                host,
            ]
            words += ["--peers", peers, "--own-network"]
            env = {"PYTHONPATH": str(SOURCE)}
            if host == "h1":
                words += ["--storage", str(storage)]
            if host == "h3":
                env |= {
                    "LD_PRELOAD": str(library),
                    "FAKETIME_TIMESTAMP_FILE": str(self.clock),
                    "FAKETIME_NO_CACHE": "1",
                    "DONT_FAKE_MONOTONIC": "1",
                }
            self._run(host, words, env, f"exporter-{host}")
        targets = "\n".join(
            f"      - {{targets: ['{self.cluster.address(h)}:9466'], labels: {{instance: {h}}}}}"
            for h in self.cluster.names
        )
        (self.folder / "prometheus.yml").write_text(PROMETHEUS.format(targets=targets))
        address = self.cluster.address("h0")
        prometheus = ["prometheus", f"--config.file={self.folder}/prometheus.yml"]
        prometheus += [f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address={address}:9090"]
        self._run("h0", prometheus, {}, "prometheus")
        for rank, host in enumerate(self.cluster.names):
            env = {"RANK": str(rank), "WORLD_SIZE": "4", "MASTER_ADDR": address, "MASTER_PORT": "29500"}
            env |= {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "FOLDER": str(self.folder)}
            self.ranks[rank] = self._run(host, [sys.executable, JOB], env, f"rank{rank}")
        (self.folder / "w.yaml").write_text(CONFIG.format(address=address, folder=self.folder))
        words = [sys.executable, "-m", "assay", "watch", "--cluster", self.folder / "w.yaml", "--json"]
        words += ["--ledger", self.folder / "ledger.jsonl"]
        watcher = self.cluster.start(
            "h0", words, env={"PYTHONPATH": str(SOURCE)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.down.callback(_end, watcher)
        threading.Thread(target=self._listen, args=(watcher,), daemon=True).start()

    def step(self) -> int:
        lines = (self.folder / "rank0.log").read_text().splitlines()
        steps = [line for line in lines if line.startswith("step ")]
        return int(steps[-1].split()[1]) if steps else -1

    def named(self, code: str, subject: str, since_s: float) -> float | None:
        """When a finding of this code and subject was first told since then."""
        for at_s, change in list(self.changes):
            told = {(f["code"], f["subject"]) for f in change["incident"]["findings"]}
            if at_s >= since_s and change["step"] != "recovered" and (code, subject) in told:
                return at_s
        return None

    def until(self, condition: Callable[[], Any], within_s: float, what: str) -> Any:
        end_s = time.monotonic() + within_s
        while time.monotonic() < end_s:
            if (found := condition()) is not None and found is not False:
                return found
            time.sleep(0.1)
        heard = [(c["step"], c["incident"]["code"], c["incident"]["subject"]) for _, c in self.changes[-12:]]
        raise AssertionError(f"{what}: not within {within_s} s; heard {heard}")

    def quiet(self, most_s: float) -> None:
        """Wait until nothing has changed for a while, but not for ever."""
        end_s = time.monotonic() + most_s
        while time.monotonic() < end_s and self.changes and time.monotonic() - self.changes[-1][0] < 6:
            time.sleep(0.2)

    def _listen(self, watcher: subprocess.Popen[str]) -> None:
        assert watcher.stdout is not None
        for line in watcher.stdout:
            self.changes.append((time.monotonic(), json.loads(line)))

    def _run(self, host: str, words: list[Any], env: dict[str, str], name: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.log").open("w") as log:
            process = self.cluster.start(host, words, env=env, stdout=log, stderr=subprocess.STDOUT)
        self.down.callback(_end, process)
        return process


@pytest.fixture
def frozen_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 file system of its own, which a test may freeze."""
    image, mount = tmp_path / "image", tmp_path / "disk"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    yield mount
    subprocess.run(["fsfreeze", "-u", mount], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["umount", "-l", mount], check=True)


#: Those of a few seconds run always, all of them by `make cluster-test`.
FEW = ("spike", "stop", "delay", "kill")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "few", [pytest.param(True, id="few"), pytest.param(False, id="all", marks=pytest.mark.cluster)]
)
def test_faults_of_a_running_job_are_named(namespace_cluster, tmp_path, request, few):
    watched = Watched(namespace_cluster, tmp_path)
    cluster = namespace_cluster
    with watched.down:
        disk = tmp_path if few else request.getfixturevalue("frozen_disk")
        watched.start(disk)
        watched.until(lambda: watched.step() > (30 if few else 60), 180, "the job runs")
        calm_s = 3.0 if few else 25.0
        watched.quiet(calm_s)

        @contextlib.contextmanager
        def delay() -> Iterator[None]:
            cluster.shape("h2", delay_s=0.05)
            yield
            cluster.shape("h2")

        @contextlib.contextmanager
        def loss() -> Iterator[None]:
            cluster.shape("h1", loss_frac=0.05)
            yield
            cluster.shape("h1")

        @contextlib.contextmanager
        def rate() -> Iterator[None]:
            cluster.shape("h3", rate_Mbps=20)
            yield
            cluster.shape("h3")

        @contextlib.contextmanager
        def skew() -> Iterator[None]:
            watched.clock.write_text("+0.25")
            yield
            watched.clock.write_text("+0")

        @contextlib.contextmanager
        def freeze() -> Iterator[None]:
            subprocess.run(["fsfreeze", "-f", disk], check=True)
            yield
            subprocess.run(["fsfreeze", "-u", disk], check=True)

        @contextlib.contextmanager
        def spike() -> Iterator[None]:
            (tmp_path / "spike").touch()
            yield
            (tmp_path / "spike").unlink()

        @contextlib.contextmanager
        def stop() -> Iterator[None]:
            watched.ranks[1].send_signal(signal.SIGSTOP)
            yield
            watched.ranks[1].send_signal(signal.SIGCONT)

        @contextlib.contextmanager
        def starve() -> Iterator[None]:
            request.getfixturevalue("quota")(watched.ranks[2].pid, 0.03)
            yield

        @contextlib.contextmanager
        def kill() -> Iterator[None]:
            os.kill(watched.ranks[3].pid, signal.SIGKILL)
            yield

        faults = (
            (spike, "LOSS_SPIKE", "cluster"),
            (skew, "CLOCK_OFFSET", "node:h3"),
            (freeze, "STORAGE_STALL", "node:h1"),
            (stop, "RANK_STOPPED", "rank:1"),
            (delay, "LINK_SLOW", "link:h2>*"),
            (loss, "LINK_LOSS", "link:h1>*"),
            (rate, "LINK_SLOW", "link:h3>*"),
            (starve, "RANK_STARVED", "rank:2"),
            (kill, "RANK_LOST", "rank:3"),
        )
        missed = []
        for fault, code, subject in faults:
            if few and fault.__name__ not in FEW:
                continue
            begin_s, step = time.monotonic(), watched.step()
            with fault():
                try:
                    at_s = watched.until(
                        lambda c=code, s=subject, b=begin_s: watched.named(c, s, b),
                        GOAL_S + SLACK_S,
                        fault.__name__,
                    )
                except AssertionError as lack:
                    missed.append(str(lack))
                else:
                    steps = watched.step() - step
                    print(f"{fault.__name__}: {code} {subject} after {at_s - begin_s:.1f} s, {steps} steps")
            if fault not in (starve, kill):
                with contextlib.suppress(AssertionError):
                    watched.quiet(calm_s)
        assert missed == []


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()
    if process.stdout:
        process.stdout.close()
