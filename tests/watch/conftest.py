"""A real Alertmanager, and the test-bed's fabricated machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Server, free_port, program

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testbed"))


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "am.yml"
    config.write_text("route: {receiver: none, group_wait: 0s}\nreceivers: [{name: none}]\n")
    port = free_port()
    words = [
        program("prometheus-alertmanager", "prometheus-alertmanager"),
        f"--config.file={config}",
        f"--storage.path={tmp_path}/am",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    server = Server(words, f"http://127.0.0.1:{port}", "/-/ready")
    server.start()
    yield server
    server.stop()
