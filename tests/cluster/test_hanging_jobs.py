"""A real Gloo job hangs on two hosts: the rank at fault is named and no other, live and from its dumps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.api.doctoring import doctor, doctor_live

JOB = Path(__file__).parent / "hanging_job.py"
RANKS, CULPRIT = 8, 5


class HangingJob:
    """Eight ranks on `h0` and `h1`; `settle` waits until nothing moves any more."""

    def __init__(self, cluster, folder: Path, fault: str) -> None:
        self.folder, self.cluster = folder, cluster
        self.ranks: list[subprocess.Popen] = []
        shared = {
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": cluster.address("h0"),
            "MASTER_PORT": "29533",
            "GLOO_SOCKET_IFNAME": "eth0",
            "TORCH_FR_BUFFER_SIZE": "2000",
            "OMP_NUM_THREADS": "1",
        }
        for rank in range(RANKS):
            own = {"RANK": str(rank), "TORCH_WORKER_SERVER_SOCKET": str(folder / f"{rank}.sock")}
            with (folder / f"{rank}.log").open("w") as log:
                words = [sys.executable, JOB, fault, CULPRIT]
                host = f"h{rank // 4}"
                self.ranks.append(
                    cluster.start(host, words, env=shared | own, stdout=log, stderr=subprocess.STDOUT)
                )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.kill()
            rank.wait()

    def settle(self) -> None:
        """Until the ranks are in their third step and no recorder gets longer within half a second."""
        end, before = time.monotonic() + 120, {}
        while time.monotonic() < end:
            now = self.recorders()
            if now == before and now.get(0, "").count("profiling_name") >= 2 * 3:
                return
            before = now
            time.sleep(0.5)
        logs = "".join(file.read_text() for file in self.folder.glob("*.log"))
        pytest.fail(f"the job does not stand still: {logs}")

    def recorders(self) -> dict[int, str]:
        """The dumps of the ranks that answer."""
        found: dict[int, str] = {}
        for rank in range(RANKS):
            words = ["curl", "-s", "--max-time", "5", "--unix-socket", str(self.folder / f"{rank}.sock")]
            done = subprocess.run(
                [*words, "-X", "POST", "http://job/handler/fr_trace_json"],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0 and done.stdout.startswith("{"):
                found[rank] = done.stdout
        return found


@pytest.fixture(
    params=[
        "stopped",
        pytest.param("killed", marks=pytest.mark.cluster),
        pytest.param("odd", marks=pytest.mark.cluster),
    ]
)
def hung(request, namespace_cluster, tmp_path):
    if shutil.which("curl") is None:
        pytest.fail("curl is not installed: apt-get install curl")
    with HangingJob(namespace_cluster, tmp_path, request.param) as job:
        job.settle()
        yield request.param, job


EXPECTED = {
    "killed": {"RANK_LOST"},
    "stopped": {"APP_DATALOADER_STARVED", "APP_COLLECTIVE_DESYNC", "APP_STRAGGLER"},
    "odd": {"APP_COLLECTIVE_DESYNC"},
}


def named(diagnosis) -> tuple[set[str], set[str]]:
    return {f.code for f in diagnosis.findings}, {str(f.subject) for f in diagnosis.findings}


def test_the_rank_at_fault_is_named_and_no_other(hung, tmp_path, monkeypatch):
    fault, job = hung
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for rank, text in job.recorders().items():
        (dumps / f"dump_{rank}.json").write_text(text)
    codes, subjects = named(doctor([str(dumps)]))
    assert subjects == {f"rank:{CULPRIT}"}
    assert codes <= EXPECTED[fault]

    hosts = tmp_path / "hosts"
    hosts.write_text("h0\nh1\n")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    live = doctor_live(hosts=hosts, ssh=job.cluster.ssh)
    ours = [f for f in live.findings if str(f.subject).startswith("rank:")]
    assert {str(f.subject) for f in ours} == {f"rank:{CULPRIT}"}
    assert {f.code for f in ours} <= EXPECTED[fault]
