"""Servers in the background, and waiting for what they do."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Callable[[], object], within_s: float = 30.0) -> object:
    """Wait for something to become true, and give it."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s} s")


def answers(url: str) -> bool:
    with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=1):
        return True
    return False


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt-get install {package}")
    return found


@dataclass
class Server:
    """A server in the background."""

    words: list[str]
    url: str
    ready: str
    process: subprocess.Popen | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: answers(self.url + self.ready))

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


PROMETHEUS = """\
global: {{scrape_interval: 1s, scrape_timeout: 900ms, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs:
  - job_name: assay
    static_configs:
{targets}
"""


def prometheus_config(targets: dict[str, str], alertmanager: str = "127.0.0.1:1") -> str:
    """Scrape targets by the name of their node."""
    lines = [f"      - {{targets: ['{t}'], labels: {{instance: {name}}}}}" for name, t in targets.items()]
    return PROMETHEUS.format(targets="\n".join(lines), alertmanager=alertmanager)


def make_prometheus(folder: Path, targets: dict[str, str], alertmanager: str = "127.0.0.1:1") -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(prometheus_config(targets, alertmanager))
    if not (folder / "rules.yml").exists():
        (folder / "rules.yml").write_text("groups: []\n")
    port = free_port()
    words = [
        program("prometheus", "prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    return Server(words, f"http://127.0.0.1:{port}", "/-/ready")
