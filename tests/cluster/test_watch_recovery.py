"""A torchrun job on four hosts loses one, and goes on from its last checkpoint on the three that are left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from assay.api.recovering import supervise
from assay.codec.watching import RecoveryPlan
from assay.domain.ledger import Recovery
from assay.store.ledger import read_ledger

JOB = Path(__file__).with_name("toy_job.py")
AGENT = (
    "hostname {node}; exec {python} -m torch.distributed.run --nnodes={nnodes} --node-rank={index} "
    "--nproc-per-node=1 --master-addr={head} --master-port={port} {job} >> {folder}/{node}.log 2>&1"
)


def agent_of(host: str, cluster) -> int:
    """The pid of the launcher on a host, known by its network namespace."""
    namespace = cluster.ssh.split()[3].replace("{host}", host)
    pids = subprocess.run(
        ["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True
    ).stdout
    for pid in pids.split():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"torch.distributed.run" in words:
            return int(pid)
    raise AssertionError(f"no launcher on {host}")


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_a_job_goes_on_without_the_host_that_is_killed(namespace_cluster, tmp_path, monkeypatch):
    cluster = namespace_cluster
    namespace = cluster.ssh.split()[3].replace("{host}", "{node}")
    values = {"python": sys.executable, "job": JOB, "folder": tmp_path}
    shell = AGENT
    for name, value in values.items():
        shell = shell.replace("{" + name + "}", str(value))
    plan = RecoveryPlan(
        name="toy",
        nodes=cluster.names,
        command=("ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", shell),
        logs=(f"{tmp_path}/h*.log",),
        ledger=str(tmp_path / "ledger.jsonl"),
        grace_s=5.0,
        bounds={"hang_least_s": 60.0},
    )
    for name, value in (("GLOO_SOCKET_IFNAME", "eth0"), ("OMP_NUM_THREADS", "1"), ("STEPS", "90")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    said, ended = list[str](), list[bool]()
    runner = threading.Thread(
        target=lambda: ended.append(supervise(plan, lambda change: None, said.append, for_s=240))
    )
    runner.start()
    end_s = time.monotonic() + 120
    while "step 45 " not in _text(tmp_path / "h0.log") and time.monotonic() < end_s:
        time.sleep(0.2)
    os.killpg(os.getpgid(agent_of("h2", cluster)), signal.SIGKILL)
    runner.join(timeout=260)
    assert ended == [True], (said, _text(tmp_path / "h0.log")[-2000:])
    (recovery,) = [e for e in read_ledger(tmp_path / "ledger.jsonl") if isinstance(e, Recovery)]
    print(said[-1])
    assert recovery.excluded == ("h2",)
    assert recovery.from_step is not None
    assert recovery.to_step is not None
    assert 0 <= recovery.from_step - recovery.to_step <= 20
    assert "rank 0/3 goes on from step 40" in _text(tmp_path / "h0.log")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
